"""Derivative check: derivatives that the model itself gives, taken only after a difference has confirmed each of them.

FMUs return directional derivatives by parameters that are 0 with status OK (an official reference FMU does), so a claim
to have them is not enough. And a parameter that sets an initial value acts on the simulation in a way that no derivative
of the rates tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.black_box.finite_differences import DifferencePoint, FiniteDifference, SimulatedOutputs, refine_difference
from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.problem.problem import Problem
from dynident.tolerances import DERIVATIVE_AGREES, DERIVATIVE_REFUTED, DIFFERENCE_CONFIRMS
from dynident.transcription.simulators import Simulator

MAX_REFUSALS = 2  # of derivatives by the model; then it is not asked again


@dataclass(frozen=True)
class DerivativeCheck:
    """Which unknowns the model can differentiate by, as far as differences have shown it; indices of the unknowns."""

    undecided: frozenset[int]
    confirmed: frozenset[int] = frozenset()
    wrong: frozenset[int] = frozenset()
    refusals: tuple[str, ...] = ()  # in the words of the model

    def with_verdicts(self, agrees: Mapping[int, bool]) -> DerivativeCheck:
        """After a comparison of some; those that differences cannot tell are not among them."""
        right, wrong = (frozenset(i for i, good in agrees.items() if good is is_right) for is_right in (True, False))
        return replace(self, undecided=self.undecided - right - wrong, confirmed=(self.confirmed | right) - wrong,
                       wrong=self.wrong | wrong)

    def notes(self, names: Sequence[str]) -> tuple[str, ...]:
        def listed(some: frozenset[int]) -> str:
            return ", ".join(names[i] for i in sorted(some))

        notes = []
        if self.confirmed:
            notes.append(f"Derivatives by {listed(self.confirmed)} are the model's own (directional derivatives, confirmed "
                         "by differences).")
        if self.wrong:
            notes.append(f"The model's own derivatives by {listed(self.wrong)} do not give the derivative of the simulation; "
                         "differences are used instead.")
        if self.refusals:
            notes.append(f"The model offers directional derivatives but does not give them ({self.refusals[-1]}); "
                         "differences are used.")
        elif self.undecided and (self.confirmed or self.wrong):
            notes.append(f"The model's own derivatives by {listed(self.undecided)} are not used: no difference stood above "
                         "the noise of the simulation far enough to confirm them.")
        return tuple(notes)


@dataclass(frozen=True, eq=False)
class ModelDerivatives:
    """Derivatives of the outputs by unknowns of a problem, as the model itself gives them."""

    problem: Problem
    simulator: Simulator

    def unchecked(self) -> DerivativeCheck:
        return DerivativeCheck(frozenset(range(len(self.problem.names)) if self.simulator.has_derivatives else ()))

    def confirmed(self, check: DerivativeCheck, values: np.ndarray, grids: Sequence[Grid]) -> dict[int, SimulatedOutputs]:
        """Columns of the confirmed unknowns; none where the model fails to give them at these values."""
        try:
            return self._columns(values, grids, sorted(check.confirmed)) if check.confirmed else {}
        except SimulationDiverged:
            return {}

    def check(self, check: DerivativeCheck, grids: Sequence[Grid], point: DifferencePoint, noise: float,
              differences: Mapping[int, FiniteDifference]) -> DerivativeCheck:
        """Compare with differences what is not yet confirmed or found wrong; what they cannot tell waits for others."""
        asked = sorted(check.undecided & set(differences))
        parameters = {int(i) for b in self.problem.bindings for i in b.parameter_unknown if i >= 0}
        initials = [i for i in asked if i not in parameters]
        given: dict[int, SimulatedOutputs] = {}
        # by all, or where the model refuses parameters by the initial states alone
        for some in ([asked] if len(check.refusals) < MAX_REFUSALS else []) + [initials] * (initials != asked):
            try:
                given = self._columns(point.values, grids, some) if some else {}
            except SimulationDiverged as bad:
                check = replace(check, refusals=(*check.refusals, str(bad).rstrip(".")))
                continue
            if some:
                break
        return check.with_verdicts(_verdicts(point, noise, given, differences))

    def recheck(self, check: DerivativeCheck, grids: Sequence[Grid], point: DifferencePoint, noise: float,
                differences: Mapping[int, FiniteDifference]) -> DerivativeCheck:
        """The same at another point for what was confirmed; what is wrong there is not used any more."""
        verdicts = _verdicts(point, noise, self.confirmed(check, point.values, grids), differences)
        return check.with_verdicts({i: right for i, right in verdicts.items() if not right})

    def _columns(self, values: np.ndarray, grids: Sequence[Grid], unknowns: Sequence[int]) -> dict[int, SimulatedOutputs]:
        found: dict[int, list[np.ndarray]] = {i: [] for i in unknowns}
        for e, (grid, binding) in enumerate(zip(grids, self.problem.bindings, strict=True)):
            places = [[np.flatnonzero(of == i) for of in (binding.parameter_unknown, binding.initial_unknown)]
                      for i in unknowns]
            by_parameters = np.concatenate([p for p, _ in places])
            by_initials = np.concatenate([x for _, x in places])
            point = self.problem.parameters_and_initial_state(values, e)
            columns = grid.through_filters(self.simulator.derivatives(*point, grid, by_parameters, by_initials))
            at, behind = 0, by_parameters.size
            for i, (p, x) in zip(unknowns, places, strict=True):
                own = [*range(at, at + p.size), *range(behind, behind + x.size)]
                found[i].append(columns[:, :, own].sum(axis=2))
                at, behind = at + p.size, behind + x.size
        return {i: tuple(columns) for i, columns in found.items()}


def _verdicts(point: DifferencePoint, noise: float, given: Mapping[int, SimulatedOutputs],
              differences: Mapping[int, FiniteDifference]) -> dict[int, bool]:
    """Of each derivative whether it is that of the simulation; without those that differences cannot tell."""
    found = {i: _agrees(point, noise, i, column, differences[i]) for i, column in given.items()}
    return {i: agrees for i, agrees in found.items() if agrees is not None}


def _agrees(point: DifferencePoint, noise: float, i: int, given: SimulatedOutputs, difference: FiniteDifference) -> bool | None:
    first = _compare(point, given, difference)
    if first or point.distance(given, difference.derivative) <= DERIVATIVE_REFUTED * difference.noise:
        return first
    closer = refine_difference(point, noise, i, difference)
    return None if closer is None else _compare(point, given, closer)


def _compare(point: DifferencePoint, given: SimulatedOutputs, difference: FiniteDifference) -> bool | None:
    distance = point.distance(given, difference.derivative)
    if distance > DERIVATIVE_AGREES * difference.length + DERIVATIVE_REFUTED * (difference.noise + difference.truncation):
        return False
    return True if difference.seen and distance <= DIFFERENCE_CONFIRMS * difference.length else None
