"""Directional: derivatives that the model itself gives, taken only after a difference has confirmed each of them.

FMUs return directional derivatives by parameters that are 0 with status OK (an official reference FMU does), so a claim
to have them is not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dynident.discretizations.runners import Runner
from dynident.integrators.grid import Grid
from dynident.integrators.march import Diverged
from dynident.problem.problem import Problem

AGREES = 1e-5  # relative, beside what the difference itself may be wrong by
PER_STEP = 100.0  # how many times its relative step a difference may be wrong by: the curvature over that distance

Outputs = tuple[np.ndarray, ...]  # per experiment (nodes, outputs)


class Directional:
    """Which unknowns the model can differentiate by, and the columns for these."""

    def __init__(self, problem: Problem, runner: Runner):
        self.problem, self.runner = problem, runner
        self.checked = not runner.differentiates
        self.confirmed: tuple[int, ...] = ()
        self.notes: list[str] = []

    def columns(self, values: np.ndarray, grids: Sequence[Grid]) -> dict[int, Outputs]:
        """Columns of the confirmed unknowns; none where the model fails to give them at these values."""
        if not self.confirmed:
            return {}
        try:
            return self._given(values, grids, self.confirmed)
        except Diverged:
            return {}

    def check(self, values: np.ndarray, grids: Sequence[Grid], differences: Sequence[Outputs], steps: np.ndarray,
              length: Callable[[Outputs], float]) -> None:
        """Confirm what agrees with a difference; `steps` are relative, `length` is that of weighted outputs."""
        self.checked = True
        given, why = self._first(values, grids)
        confirmed: list[int] = []
        wrong: list[int] = []
        for i, column in given.items():
            apart = length(tuple(a - b for a, b in zip(column, differences[i], strict=True)))
            whole = length(differences[i])
            (confirmed if apart <= (AGREES + PER_STEP * steps[i]) * whole else wrong).append(i)
        self.confirmed = tuple(confirmed)
        names = self.problem.names
        if confirmed:
            self.notes.append(f"Derivatives by {', '.join(names[i] for i in confirmed)} are the model's own (directional "
                              "derivatives, confirmed by differences).")
        if wrong:
            self.notes.append(f"The model's own derivatives by {', '.join(names[i] for i in wrong)} are wrong: they "
                              "disagree with differences, which are used instead.")
        elif not given and why:
            self.notes.append(f"The model offers directional derivatives but does not give them ({why}); differences are "
                              "used.")

    def _first(self, values: np.ndarray, grids: Sequence[Grid]) -> tuple[dict[int, Outputs], str]:
        """By all unknowns, or where the model refuses parameters by initial states alone, and why there are none."""
        everything = tuple(range(len(values)))
        parameters = {int(i) for b in self.problem.bindings for i in b.parameter_unknown if i >= 0}
        why = ""
        for some in (everything, tuple(i for i in everything if i not in parameters)):
            try:
                return (self._given(values, grids, some), "") if some else ({}, why)
            except Diverged as bad:
                why = str(bad).rstrip(".")
        return {}, why

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
