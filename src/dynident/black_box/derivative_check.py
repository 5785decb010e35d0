"""Directional: derivatives that the model itself gives, taken only after a difference has confirmed each of them.

FMUs return directional derivatives by parameters that are 0 with status OK (an official reference FMU does), so a claim
to have them is not enough. And a parameter that sets an initial value acts on the simulation in a way that no derivative
of the rates tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.black_box.finite_differences import Around, Column, Outputs, closer_look
from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.problem.problem import Problem
from dynident.transcription.simulators import Runner

AGREES = 1e-4  # relative, beside what the difference itself is wrong by; some models make their own by differences
AGREES_AT_MOST = 1e-3  # relative; a difference that is wrong by more can confirm nothing
SURE = 10.0  # times what a difference is wrong by: who disagrees with it by more is wrong
MOST_REFUSALS = 2  # of derivatives by the model; then it is not asked again


class Directional:
    """Which unknowns the model can differentiate by, and the columns for these."""

    def __init__(self, problem: Problem, runner: Runner):
        self.problem, self.runner = problem, runner
        self.undecided = set(range(len(problem.names))) if runner.differentiates else set()
        self.confirmed: set[int] = set()
        self.wrong: set[int] = set()
        self.refusals: list[str] = []

    def columns(self, values: np.ndarray, grids: Sequence[Grid]) -> dict[int, Outputs]:
        """Columns of the confirmed unknowns; none where the model fails to give them at these values."""
        try:
            return self._given(values, grids, sorted(self.confirmed)) if self.confirmed else {}
        except SimulationDiverged:
            return {}

    def check(self, grids: Sequence[Grid], around: Around, noise: float, differences: dict[int, Column]) -> None:
        """Compare with differences what is not yet confirmed or found wrong; what they cannot tell waits for others."""
        asked = sorted(self.undecided & set(differences))
        for i, column in self._asked(around.values, grids, asked).items():
            agrees = _agrees(around, noise, i, column, differences[i])
            if agrees is not None:
                self.undecided.discard(i)
                (self.confirmed if agrees else self.wrong).add(i)

    def refuted(self, grids: Sequence[Grid], around: Around, noise: float, differences: dict[int, Column]) -> bool:
        """Whether something that was confirmed elsewhere is wrong here; it is not used any more."""
        given = self.columns(around.values, grids)
        bad = {i for i, column in given.items() if _agrees(around, noise, i, column, differences[i]) is False}
        self.confirmed -= bad
        self.wrong |= bad
        return bool(bad)

    @property
    def notes(self) -> tuple[str, ...]:
        def named(some: set[int]) -> str:
            return ", ".join(self.problem.names[i] for i in sorted(some))

        notes = []
        if self.confirmed:
            notes.append(f"Derivatives by {named(self.confirmed)} are the model's own (directional derivatives, confirmed "
                         "by differences).")
        if self.wrong:
            notes.append(f"The model's own derivatives by {named(self.wrong)} do not give the derivative of the simulation; "
                         "differences are used instead.")
        if self.refusals:
            notes.append(f"The model offers directional derivatives but does not give them ({self.refusals[-1]}); "
                         "differences are used.")
        elif self.undecided and (self.confirmed or self.wrong):
            notes.append(f"The model's own derivatives by {named(self.undecided)} are not used: no difference stood above "
                         "the noise of the simulation far enough to confirm them.")
        return tuple(notes)

    def _asked(self, values: np.ndarray, grids: Sequence[Grid], unknowns: Sequence[int]) -> dict[int, Outputs]:
        """By these unknowns, or where the model refuses parameters by the initial states alone."""
        parameters = {int(i) for b in self.problem.bindings for i in b.parameter_unknown if i >= 0}
        initials = [i for i in unknowns if i not in parameters]
        for some in ([unknowns] if len(self.refusals) < MOST_REFUSALS else []) + [initials] * (initials != unknowns):
            if not some:
                continue
            try:
                return self._given(values, grids, some)
            except SimulationDiverged as bad:
                self.refusals.append(str(bad).rstrip("."))
        return {}

    def _given(self, values: np.ndarray, grids: Sequence[Grid], unknowns: Sequence[int]) -> dict[int, Outputs]:
        found: dict[int, list[np.ndarray]] = {i: [] for i in unknowns}
        for e, (grid, binding) in enumerate(zip(grids, self.problem.bindings, strict=True)):
            places = [[np.flatnonzero(of == i) for of in (binding.parameter_unknown, binding.initial_unknown)]
                      for i in unknowns]
            by_parameters = np.concatenate([p for p, _ in places])
            by_initials = np.concatenate([x for _, x in places])
            slopes = self.runner.slopes(*self.problem.values_in(values, e), grid, by_parameters, by_initials)
            at, behind = 0, by_parameters.size
            for i, (p, x) in zip(unknowns, places, strict=True):
                own = [*range(at, at + p.size), *range(behind, behind + x.size)]
                found[i].append(slopes[:, :, own].sum(axis=2))
                at, behind = at + p.size, behind + x.size
        return {i: tuple(columns) for i, columns in found.items()}


def _agrees(around: Around, noise: float, i: int, given: Outputs, column: Column) -> bool | None:
    """Whether a derivative is that of the simulation; None where the differences cannot tell."""
    first = _compared(around, given, column)
    if first or around.apart(given, column.slope) <= SURE * column.noise:
        return first
    closer = closer_look(around, noise, i, column)
    return None if closer is None else _compared(around, given, closer)


def _compared(around: Around, given: Outputs, column: Column) -> bool | None:
    apart = around.apart(given, column.slope)
    allowed = AGREES * column.length + SURE * (column.noise + column.bend)
    if apart > allowed:
        return False
    return True if column.seen and apart <= AGREES_AT_MOST * column.length else None
