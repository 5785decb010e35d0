"""First state: how do initial states follow from the parameters, by formulas or as a state of rest, with derivatives?"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagation, propagator_for
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.tolerances import REST_ROUNDING, REST_TOLERANCE

FIRST_WAIT = 1e-2  # of the record's length: how long the model is left alone first, on its way to rest
WAITING_DECADES = 12  # each wait is ten times the one before
LEAST_WAITS = 8  # a million times the first: who is at rest after them is at rest
KEPT = 4  # states of rest that are remembered: a fit asks for the same values with and without derivatives


def first_state_of(model: EquationModel, experiment: Experiment) -> FirstState:
    """Of one experiment; what it says as formulas, and as a state of rest."""
    return FirstState(model, experiment)


class FirstState:
    """The initial states of an experiment that follow from its parameters."""

    def __init__(self, model: EquationModel, experiment: Experiment):
        self.model, self.experiment = model, experiment
        self.formulas = FormulaValues(model, experiment.initial)
        self.rest = None if experiment.steady is None else RestState(model, experiment)
        follows = [state for state in model.states
                   if isinstance(experiment.initial.get(state, "" if self.rest is not None else 0.0), str)]
        self.states = np.array([model.states.index(state) for state in follows], int)

    def state(self, p: np.ndarray, x0: np.ndarray) -> np.ndarray:
        """The first state, where the others are as in `x0`. Raises SimulationDiverged where there is none."""
        return self._with(p, x0, ())[0]

    def derivative(self, p: np.ndarray, free: tuple[int, ...]) -> np.ndarray:
        """(states, free): d first state / d parameters, zero for states that do not follow from them."""
        return self._with(p, np.zeros(len(self.model.states)), free)[1]

    def _with(self, p: np.ndarray, x0: np.ndarray, free: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        x, slope = np.array(x0, float), np.zeros((x0.size, len(free)))
        if self.rest is not None:
            at_rest, moved = self.rest.at(p, free)
            x[self.states], slope[self.states] = at_rest[self.states], moved[self.states]
        x[self.formulas.states] = self.formulas.values(p)
        slope[self.formulas.states] = self.formulas.slopes(p, free)
        if not np.all(np.isfinite(x[self.states])):
            state = self.model.states[self.states[~np.isfinite(x[self.states])][0]]
            raise SimulationDiverged(np.nan, 0, what=f"the formula of the initial state '{state}' is not finite")
        return x, slope

    def __reduce__(self) -> tuple[Any, ...]:
        return FirstState, (self.model, self.experiment)


class FormulaValues:
    """States whose value is a formula of the parameters."""

    def __init__(self, model: EquationModel, initial: Any):
        texts = {state: text for state, text in initial.items() if isinstance(text, str)}
        self.states = np.array([model.states.index(state) for state in texts], int)
        p = ca.SX.sym("p", len(model.parameters))
        value = model.parameter_formula(list(texts.values()))(p)
        self._value = ca.Function("first", [p], [ca.densify(value)])
        self._slope = ca.Function("slope", [p], [ca.densify(ca.jacobian(value, p))])

    def values(self, p: np.ndarray) -> np.ndarray:
        return np.asarray(self._value(p), float).reshape(-1)

    def slopes(self, p: np.ndarray, free: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self._slope(p), float).reshape(self.states.size, p.size)[:, list(free)]


class RestState:
    """Where the model comes to rest, by integration: what is conserved stays, where Newton's method would be singular."""

    def __init__(self, model: EquationModel, experiment: Experiment):
        assert experiment.steady is not None
        self.model, steady = model, experiment.steady
        self.constants = {model.parameters.index(name): value for name, value in steady.constants.items()
                          if name in model.parameters}
        self.begin = np.array([value if not isinstance(value := steady.initial.get(state, 0.0), str) else np.nan
                               for state in model.states])
        self.formulas = FormulaValues(model, steady.initial)
        self.grid = _waiting(model, experiment)
        self._known: OrderedDict[tuple[bytes, tuple[int, ...]], tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def at(self, p: np.ndarray, free: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The state of rest and its derivative by free parameters; constants of its own have none."""
        key = p.tobytes(), free
        if key not in self._known:
            while len(self._known) >= KEPT:
                self._known.popitem(last=False)
            self._known[key] = self._found(p, free)
        return self._known[key]

    def _found(self, p: np.ndarray, free: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        p = np.array(p, float)
        for i, value in self.constants.items():
            p[i] = value
        x = self.begin.copy()
        x[self.formulas.states] = self.formulas.values(p)
        out, nx = self._waited(x, p, free, self.grid), x.size
        size = np.max(np.abs(out.states), axis=0)
        moved = np.abs(out.states[-1] - out.states[-2])
        if np.any(late := moved > np.maximum(REST_TOLERANCE * size, REST_ROUNDING * size.max())):
            raise SimulationDiverged(np.nan, 0, what="the model comes to no rest before the record: "
                                     f"'{self.model.states[int(np.argmax(late))]}' still moves")
        slope = np.zeros((nx, len(free)))
        if free:
            own = np.array([0.0 if i in self.constants else 1.0 for i in free])
            begin = np.zeros((nx, len(free)))
            begin[self.formulas.states] = self.formulas.slopes(p, free)
            slope = (out.end_jacobian[0][:, nx:] + out.end_jacobian[0][:, :nx] @ begin) * own
        return out.states[-1].copy(), slope


    def _waited(self, x: np.ndarray, p: np.ndarray, free: tuple[int, ...], grid: Grid) -> Propagation:
        """The way to rest; where rounding piles up in the longest waits, those before them, which are long enough."""
        try:
            return propagator_for(self.model, RADAU5, free).run(grid, np.array([0, grid.nodes - 1]), x[None], p, bool(free))
        except SimulationDiverged as bad:
            if bad.node <= LEAST_WAITS or bad.node > grid.nodes - 1:
                raise SimulationDiverged(np.nan, 0, what=f"the model comes to no rest before the record: {bad}") from None
            return self._waited(x, p, free, _shorter(grid, bad.node))


def _shorter(grid: Grid, nodes: int) -> Grid:
    """The first nodes alone."""
    return replace(grid, time=grid.time[:nodes], substeps=grid.substeps[:nodes - 1], u_begin=grid.u_begin[:nodes - 1],
                   u_end=grid.u_end[:nodes - 1], u_node=grid.u_node[:nodes], output_mask=grid.output_mask[:nodes])


def _waiting(model: EquationModel, experiment: Experiment) -> Grid:
    """Times before the record, with the inputs that were there."""
    span = float(experiment.time[-1] - experiment.start) or 1.0
    elapsed = np.concatenate([[0.0], FIRST_WAIT * span * 10.0 ** np.arange(WAITING_DECADES)])
    time = experiment.start - elapsed[-1] + elapsed
    u = np.array([experiment.before.get(name, experiment.inputs[name][0]) for name in model.inputs], float)
    held, nodes = np.tile(u, (elapsed.size, 1)), elapsed.size
    return Grid(time, 0, np.ones(nodes - 1, np.int32), held[:-1].copy(), held[:-1].copy(), held, np.zeros(nodes, np.uint8))
