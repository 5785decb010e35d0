"""Sensitivity simulation: inputs from their coefficients, outputs and sensitivities, and how these answer to the input.

The sensitivities S = dx/dq obey their own differential equation, S' = (df/dx) S + df/dq, eq. (15) of the input design paper
(Rauh, Senkel and Aschemann). They are simulated as further states, and that simulation is differentiated with respect to the
coefficients of the input: second-order sensitivities, which the gradient of any information criterion needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import casadi as ca
import numpy as np

from dynident.design.signals import Signal, SignalConstraint
from dynident.errors import SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagator, propagator_for
from dynident.methods.substeps import MAX_SUBSTEPS
from dynident.models.equations import EquationModel
from dynident.models.variational import VariationalModel
from dynident.tolerances import PLAN_INTEGRATION

SignalFormula = Callable[[ca.SX, ca.SX, ca.SX], ca.SX]  # (tau, duration, coefficients)
SignalValues = tuple[np.ndarray, np.ndarray, np.ndarray]  # value, d/d coefficients, d/d duration; samples first


@dataclass(frozen=True, eq=False)
class SensitivityResult:
    """One simulated record and its derivatives with respect to the coefficients of its input."""

    inputs: np.ndarray  # (samples, inputs)
    outputs: np.ndarray  # (samples, outputs)
    sensitivities: np.ndarray  # (samples, outputs, q): q are unknown initial states, then free parameters
    monitored: np.ndarray  # (samples, expressions)
    d_inputs: np.ndarray  # (samples, inputs, coefficients)
    d_outputs: np.ndarray  # (samples, outputs, coefficients)
    d_sensitivities: np.ndarray  # (samples, outputs, q, coefficients)
    d_monitored: np.ndarray  # (samples, expressions, coefficients)


@dataclass(frozen=True, eq=False)
class PlannedSimulation:
    """The variational model on the sampling grid of a planned record."""

    inputs: InputTrajectory
    model: VariationalModel
    propagator: Propagator
    substeps: int = 1  # between two samples

    def run(self, c: np.ndarray, p: np.ndarray, x0: np.ndarray, derivatives: bool = True) -> SensitivityResult:
        """For the coefficients of one record; raises where the simulation diverges."""
        inputs, model = self.inputs, self.model
        sampled = inputs.sample(c)
        stretch = inputs.duration(c) / inputs.reference_duration
        out = self.propagator.run(self._grid(np.hstack([sampled.values, sampled.derivatives])),
                                  np.array([0, inputs.samples - 1]), model.first_state(x0)[None], model.values(p, stretch),
                                  derivatives, None)
        ny, nq, nw = len(model.model.outputs), model.unknowns, len(model.monitored)
        d_inputs = np.zeros((inputs.samples, len(inputs.slices), inputs.count))
        for place, (i, j) in enumerate(inputs.pairs):
            d_inputs[:, i, j] += sampled.derivatives[:, place]
        d = np.zeros((inputs.samples, ny * (1 + nq) + nw, inputs.count))
        if out.jacobian is not None:
            first = len(model.states)
            d = out.jacobian[:, :, first:first + inputs.count].copy()
            if inputs.free_duration:
                d[:, :, -1] += out.jacobian[:, :, -1] / inputs.reference_duration
        y, S, w = np.split(out.outputs, [ny, ny * (1 + nq)], axis=1)
        dy, dS, dw = np.split(d, [ny, ny * (1 + nq)], axis=1)
        shape = (inputs.samples, nq, ny)
        return SensitivityResult(sampled.values, y, S.reshape(shape).swapaxes(1, 2), w, d_inputs, dy,
                                 dS.reshape((*shape, inputs.count)).swapaxes(1, 2), dw)

    def _grid(self, columns: np.ndarray) -> Grid:
        """Inputs and their derivatives; a derivative is held between samples as its input is."""
        holds = [s.hold == "linear" for s in self.inputs.signals.values()]
        linear = np.array([*holds, *(holds[i] for i, _ in self.inputs.pairs)], bool)
        begin, end = columns[:-1].copy(), columns[:-1].copy()
        end[:, linear] = columns[1:, linear]
        n = self.inputs.samples
        return Grid(self.inputs.tau * self.inputs.reference_duration, 0, np.full(n - 1, self.substeps, np.int32), begin, end,
                    np.ascontiguousarray(columns), np.ones(n, np.uint8))


def planned_simulation(model: EquationModel, inputs: InputTrajectory, initial: tuple[int, ...], free: tuple[int, ...],
                       monitored: tuple[str, ...], substeps: int = 1) -> PlannedSimulation:
    """`initial` and `free`: indices of unknown initial states and parameters. `monitored`: expressions to be followed."""
    whole = VariationalModel(model, initial, free, inputs.pairs, inputs.count, monitored)
    propagator = propagator_for(whole, integrator_named("runge_kutta"), whole.varied)  # type: ignore[arg-type]
    return PlannedSimulation(inputs, whole, propagator, substeps)


def choose_substeps(simulation: PlannedSimulation, c: np.ndarray, p: np.ndarray, x0: np.ndarray) -> PlannedSimulation:
    """With as many steps between samples as outputs and sensitivities need at a point."""
    before, substeps = None, simulation.substeps
    while substeps <= MAX_SUBSTEPS:
        try:
            now = replace(simulation, substeps=substeps).run(c, p, x0, derivatives=False)
        except SimulationDiverged:
            now = None
        if before is not None and now is not None and _agree(before, now):
            return replace(simulation, substeps=substeps // 2)
        before, substeps = now, 2 * substeps
    return replace(simulation, substeps=MAX_SUBSTEPS)


def _agree(a: SensitivityResult, b: SensitivityResult) -> bool:
    for x, y in ((a.outputs, b.outputs), (a.sensitivities, b.sensitivities)):
        scale = np.max(np.abs(y), axis=0)
        if np.any(np.max(np.abs(x - y), axis=0) > PLAN_INTEGRATION * np.where(scale > 0, scale, 1.0)):
            return False
    return True


@dataclass(frozen=True, eq=False)
class SampledInputs:
    """Inputs at the samples, and their derivatives with respect to the coefficients."""

    values: np.ndarray  # (samples, inputs)
    derivatives: np.ndarray  # (samples, pairs): d input / d coefficient, for the pairs of `InputTrajectory.pairs`


@dataclass(frozen=True, eq=False)
class InputTrajectory:
    """One signal per input on a grid of samples; all coefficients in one vector, the duration last where it is free."""

    signals: Mapping[str, Signal]
    samples: int
    reference_duration: float  # s; the duration, or the longest one where it is free
    free_duration: bool
    _evaluators: tuple[Callable[[float, np.ndarray], SignalValues], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        duration = None if self.free_duration else self.reference_duration
        evaluators = tuple(_evaluator(s, self.tau, duration) for s in self.signals.values())
        object.__setattr__(self, "_evaluators", evaluators)

    @cached_property
    def tau(self) -> np.ndarray:
        """Normalised time of the samples."""
        return np.linspace(0, 1, self.samples)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the coefficients."""
        return tuple(f"{name}.{c}" for name, s in self.signals.items() for c in s.names)

    @cached_property
    def count(self) -> int:
        """How many coefficients one record has, a free duration included."""
        return len(self.names) + int(self.free_duration)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Per input: where its coefficients stand."""
        ends = np.cumsum([len(s.names) for s in self.signals.values()])
        return tuple(slice(int(e) - len(s.names), int(e)) for e, s in zip(ends, self.signals.values(), strict=True))

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which coefficient moves which input: (input, coefficient)."""
        return tuple((i, j) for i, part in enumerate(self.slices)
                     for j in [*range(part.start, part.stop), *[self.count - 1] * self.free_duration])

    def duration(self, c: np.ndarray) -> float:
        return float(c[-1]) if self.free_duration else self.reference_duration

    def sample(self, c: np.ndarray) -> SampledInputs:
        """All inputs at the samples for the coefficients of one record."""
        values, derivatives = np.empty((self.samples, len(self.slices))), []
        for i, (part, evaluate) in enumerate(zip(self.slices, self._evaluators, strict=True)):
            u, du, stretch = evaluate(self.duration(c), c[part])
            values[:, i] = u
            derivatives += [du, stretch[:, None]] if self.free_duration else [du]
        return SampledInputs(values, np.hstack(derivatives) if derivatives else np.zeros((self.samples, 0)))

    def signal_constraints(self) -> list[tuple[SignalConstraint, slice]]:
        return [(own, part) for s, part in zip(self.signals.values(), self.slices, strict=True) for own in s.constraints()]


def _evaluator(signal: Signal, tau: np.ndarray, duration: float | None) -> Callable[[float, np.ndarray], SignalValues]:
    """The signal at all samples; by its basis functions where it is linear in its coefficients and has a fixed duration."""
    count = len(signal.names)
    evaluate = evaluate_formula(signal.formula, count, tau)
    c = ca.SX.sym("c", count)
    u = ca.SX(signal.formula(ca.SX.sym("s"), ca.SX.sym("T"), c))
    if duration is None or (count and any(ca.which_depends(u, c, 2, True))):
        return evaluate
    zero, basis, _ = evaluate(duration, np.zeros(count))
    return lambda _, own: (zero + basis @ own, basis, zero * 0)


def evaluate_formula(formula: SignalFormula, count: int, tau: np.ndarray) -> Callable[[float, np.ndarray], SignalValues]:
    """A formula of `count` coefficients at some places of the record, as a function of duration and coefficients."""
    place, duration, c = ca.SX.sym("s"), ca.SX.sym("T"), ca.SX.sym("c", count)
    value = ca.SX(formula(place, duration, c))
    results = [ca.densify(x) for x in (value, ca.jacobian(value, c), ca.jacobian(value, duration))]
    samples = tau.size
    mapped = ca.Function("signal", [place, duration, c], results).map(samples)

    def evaluate(length: float, coefficients: np.ndarray) -> SignalValues:
        columns = np.tile(coefficients[:, None], (1, samples)) if count else ca.DM(0, samples)
        u, du, stretch = mapped(tau[None], np.full((1, samples), length), columns)
        derivatives = np.asarray(du).reshape((count, samples), order="F").T if count else np.zeros((samples, 0))
        return np.asarray(u).ravel(), derivatives, np.asarray(stretch).ravel()

    return evaluate
