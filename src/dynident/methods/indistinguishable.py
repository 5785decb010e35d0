"""Indistinguishable: which other values of the unknowns give the same outputs? Told by simulations, not by derivatives alone.

The derivatives of what is measured say along which directions nothing changes at one point. A sentence needs more: the
directions at points nearby give functions of the unknowns that stay constant (`statistics/invariants.py`); values with the
same invariants, to both sides and at two distances, must give the same outputs, and each invariant that is moved alone must
change them. Where no function can be written, other values with the same outputs are found by Gauss-Newton steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import casadi
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.methods.output_map import OutputMap, Outputs
from dynident.methods.points_around import Region, region_around
from dynident.models.equations import EquationModel
from dynident.models.parser import parse_expression
from dynident.models.printer import parts_to_text
from dynident.problem.problem import Problem
from dynident.statistics.active_bounds import BoundRelaxation
from dynident.statistics.covariance import Covariance
from dynident.statistics.invariants import Invariant, TangentPoint, find_invariants
from dynident.tolerances import (
    EQUAL_INVARIANT,
    EXACT_INVARIANT,
    NULL_SPACE_COMPONENT,
    OUTPUT_ROUNDING,
    SAME_OUTPUTS,
    SEEN_OUTPUTS,
)

MOVES = (0.05, 0.3)  # of an unknown's size: how far values are moved that must give the same outputs
DETERMINED_MOVE = 0.05  # the same for what must change them
PROJECTIONS = 25  # Newton steps onto equal invariants
CORRECTIONS = 15  # Gauss-Newton steps onto equal outputs
FEW_UNKNOWNS = 20  # up to so many, simulations confirm what is not identifiable also where a fit did not converge
LEAST_MOVED = 0.2  # of the intended move: what came back further has not gone anywhere
DRIFT_ROOM = 100.0  # times what equal invariants change: what a determined one must change at least


@dataclass(frozen=True)
class UnidentifiableGroup:
    """Unknowns that act together only: what of them is determined, or other values that give the same outputs."""

    names: tuple[str, ...]
    directions: int  # independent ways in which they change and nothing measured does
    determined: tuple[str, ...] = ()  # functions of them that are, each verified
    elsewhere: Mapping[str, float] | None = None  # other values with the same outputs, where not all functions can be written

    @property
    def without_effect(self) -> bool:
        return self.directions == len(self.names)

    def __str__(self) -> str:
        if self.without_effect:
            return f"nothing measured depends on {' or '.join(self.names)}"
        count = len(self.names) - self.directions
        if len(self.determined) == count:
            return f"only {' and '.join(self.determined)} {'is' if count == 1 else 'are'} determined"
        among = f", among them {' and '.join(self.determined)}" if self.determined else ""
        same = ", ".join(f"{name} = {value:.5g}" for name, value in (self.elsewhere or {}).items())
        return (f"of {', '.join(self.names[:-1])} and {self.names[-1]} only {count} combination{'s' if count > 1 else ''} "
                f"{'are' if count > 1 else 'is'} determined{among}; {same} give the same outputs")


def unidentifiable_groups(problem: Problem, region: Region, seed: int) -> list[UnidentifiableGroup]:
    """What is not determined around a generic point, in sentences that simulations have confirmed; others are left out."""
    found = []
    for members in _separate([null / region.sizes[:, None] for null in region.nulls]):
        group = _verified(problem, region, members, seed)
        if group is not None:
            found.append(group)
    return found


def first_order(local: Sequence[str]) -> tuple[str, ...]:
    """What derivatives alone say, as no more than that."""
    return tuple(f"to first order around these values, {words}" for words in local)


def confirmed_by_simulation(problem: Problem, uncertainty: Covariance, values: np.ndarray, active: Mapping[str, str],
                            converged: bool) -> Covariance:
    """With what derivatives say of identifiable combinations and of bounds asked of simulations too."""
    if uncertainty.combinations and isinstance(problem.model, EquationModel):
        told, worth = uncertainty.combinations, converged or len(problem.names) <= FEW_UNKNOWNS
        uncertainty = replace(uncertainty, combinations=confirmed_combinations(problem, values, active, told)
                              if worth else first_order(told))
    if active and isinstance(problem.model, EquationModel) and problem.model.states:
        uncertainty = replace(uncertainty, bound_relaxations=with_straight_relaxations(
            problem, values, active, uncertainty.bound_relaxations))
    return uncertainty


def confirmed_combinations(problem: Problem, values: np.ndarray, held: Collection[str], local: Sequence[str], seed: int = 1
                           ) -> tuple[str, ...]:
    """What of the unknowns but those that are held is determined around an estimate, as simulations confirm it.

    `local` says it as derivatives do; it is kept, as a matter of first order, where simulations do not confirm it.
    """
    modest = first_order(local)
    free = [i for i, name in enumerate(problem.names) if name not in held]
    try:
        record = OutputMap(problem, values)
        region = region_around([problem.unknowns[i] for i in free], values[free], partial(_at_free, record, values, free), seed)
        directions = region.nulls[0].shape[1]
        groups = unidentifiable_groups(problem, region.generic(), seed) if region.directions == directions else []
    except (SimulationDiverged, np.linalg.LinAlgError):  # sizes or derivatives beyond what linear algebra takes
        return modest
    return tuple(map(str, groups)) if groups and sum(group.directions for group in groups) == directions else modest


def with_straight_relaxations(problem: Problem, values: np.ndarray, active: Mapping[str, str],
                              relaxations: Sequence[BoundRelaxation]) -> tuple[BoundRelaxation, ...]:
    """Those of unknowns on bounds that the data do not tell, marked where the others make up for them in a straight line.

    So it is where only a sum is determined: halfway and at the other bound, outputs are those of the estimate.
    """
    def follows(loose: BoundRelaxation) -> bool:
        j = problem.names.index(loose.text)
        inwards = 1.0 if active[loose.text] == "lower" else -1.0
        for way in (0.5 * loose.span, loose.span):
            alone = values.copy()
            alone[j] += inwards * way
            change = here.change_to(record.at(alone + way * loose.sensitivity))
            if not change <= SAME_OUTPUTS * min(here.change_to(record.at(alone)), here.size) + OUTPUT_ROUNDING * here.size:
                return False
        return True

    asked = [loose for loose in relaxations if loose.text in active and np.isfinite(loose.span) and np.any(loose.sensitivity)
             and not any(map(np.isfinite, loose.std.values()))]
    if not asked:
        return tuple(relaxations)
    try:
        record = OutputMap(problem, values)
        here = record.at(values)
        return tuple(replace(loose, straight=follows(loose)) if loose in asked else loose for loose in relaxations)
    except (SimulationDiverged, np.linalg.LinAlgError):
        return tuple(relaxations)


def _at_free(record: OutputMap, values: np.ndarray, free: list[int], own: np.ndarray) -> list[Outputs]:
    moved = values.copy()
    moved[free] = own
    at = record.at(moved)
    return [replace(at, jacobian=at.jacobian[:, free])]


def _separate(nulls: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """Unknowns by independent group: those that share no direction at any of the points."""
    count = len(nulls[0])
    joined = list(range(count))
    part = np.zeros(count, bool)
    for null in nulls:
        projector = null @ np.linalg.pinv(null) if null.shape[1] else np.zeros((count, count))
        part |= np.diag(projector) > NULL_SPACE_COMPONENT**2
        for i, j in np.argwhere(np.abs(projector) > NULL_SPACE_COMPONENT):
            old, new = joined[int(i)], joined[int(j)]
            joined = [new if label == old else label for label in joined]
    labels = dict.fromkeys(joined[i] for i in range(count) if part[i])
    return [tuple(i for i in range(count) if part[i] and joined[i] == label) for label in labels]


def _verified(problem: Problem, region: Region, members: tuple[int, ...], seed: int) -> UnidentifiableGroup | None:
    own, names = list(members), tuple(region.unknowns[i].name for i in members)
    bases = [_on(null[own] / region.sizes[own, None]) * region.sizes[own, None] for null in region.nulls]
    k = bases[0].shape[1]
    if any(basis.shape[1] != k for basis in bases):
        return None
    trial = _Trial(region, members, bases[0], np.random.default_rng(seed))
    if k == len(own):
        return UnidentifiableGroup(names, k) if trial.without_effect() else None
    points = [TangentPoint(p[own], basis) for p, basis in zip(region.points, bases, strict=True)]
    enough = len(points) > 2  # at fewer a sum and a product look alike
    invariants = () if not enough else find_invariants(names, points, region.sizes[own], _parts_of(problem, names))
    if len(invariants) == len(own) - k and trial.confirms(invariants):
        return UnidentifiableGroup(names, k, tuple(it.text for it in invariants))
    same = trial.elsewhere()
    if same is None:
        return None
    kept = tuple(it.text for it in invariants if _same_number(it, region.points[0][own], same))
    return UnidentifiableGroup(names, k, kept[:len(own) - k - 1], dict(zip(names, map(float, same), strict=True)))


def _on(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what the directions do to some of the unknowns."""
    left, s, _ = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(left[:, s > NULL_SPACE_COMPONENT])


def _same_number(it: Invariant, here: np.ndarray, there: np.ndarray) -> bool:
    a, b = it.value(here), it.value(there)
    return abs(a - b) <= SAME_OUTPUTS * float(np.abs(it.gradient(here)) @ np.abs(there - here))


def _parts_of(problem: Problem, names: tuple[str, ...]) -> list[Invariant]:
    """Parts of the equations that are made of these unknowns and numbers alone."""
    model = problem.model
    if not isinstance(model, EquationModel):
        return []
    fixed = problem.fixed_parameters()
    t, x, u = casadi.SX.sym("t"), *([casadi.SX.sym(name) for name in group] for group in (model.states, model.inputs))
    p = {name: casadi.SX(fixed[name]) if name in fixed else casadi.SX.sym(name) for name in model.parameters}
    arguments = [t, *(casadi.vertcat(*group) for group in (x, u, p.values()))]
    free = [symbol for name, symbol in p.items() if name not in fixed]
    functions = [*(model.mode(mode).rate for mode in model.modes), model.output]
    expressions: list[Any] = [function(*arguments) for function in functions]
    texts = parts_to_text(expressions, [t, *x, *u, *free], names)
    symbols = [casadi.SX.sym(name) for name in names]
    found = []
    for text in texts:
        expression = parse_expression(text, dict(zip(names, symbols, strict=True)))
        used = tuple(i for i, symbol in enumerate(symbols) if casadi.depends_on(expression, symbol))
        function = casadi.Function("part", symbols, [expression])
        found.append(Invariant(text.replace("**", "^"), used, partial(_by_casadi, function)))
    return found


def _by_casadi(function: casadi.Function, values: np.ndarray) -> complex:
    """Also at complex values, of which the imaginary part is so small that the derivative says it exactly."""
    real, aside = np.real(values), np.imag(values)
    value = float(function(*real))
    if not np.any(aside):
        return value
    i = int(np.argmax(np.abs(aside)))
    step = 1e-6 * (abs(real[i]) or 1.0)
    ahead, back = real.copy(), real.copy()
    ahead[i] += step
    back[i] -= step
    return value + 1j * aside[i] * (float(function(*ahead)) - float(function(*back))) / (2 * step)


class _Trial:
    """Simulations at values that must, and at values that must not, give the outputs of the first point."""

    def __init__(self, region: Region, members: tuple[int, ...], basis: np.ndarray, rng: np.random.Generator):
        self.region, self.members, self.rng = region, list(members), rng
        self.sizes, self.basis = region.sizes[self.members], basis / region.sizes[self.members, None]
        self.centre = region.points[0]
        self.here = region.outputs(self.centre)
        self.size = float(np.sqrt(sum(o.size**2 for o in self.here)))

    def change(self, own: np.ndarray) -> float | None:
        """Of the outputs when the members have these values; None where there is no simulation."""
        there = self._outputs(own)
        if there is None:
            return None
        return float(np.sqrt(sum(a.change_to(b) ** 2 for a, b in zip(self.here, there, strict=True))))

    def _outputs(self, own: np.ndarray) -> Sequence[Outputs] | None:
        values = self.centre.copy()
        values[self.members] = own
        try:
            return self.region.outputs(values)
        except SimulationDiverged:
            return None

    def alone(self, own: np.ndarray) -> float:
        """The largest change when one member alone goes to its new value."""
        start, largest = self.centre[self.members], 0.0
        for j in range(len(self.members)):
            moved = start.copy()
            moved[j] = own[j]
            change = self.change(moved)
            largest = max(largest, np.inf if change is None else change)
        return largest

    def without_effect(self) -> bool:
        start = self.centre[self.members]
        for j in range(len(self.members)):
            for way in (sign * move for move in MOVES for sign in (1, -1)):
                moved = start.copy()
                moved[j] += way * self.sizes[j]
                change = self.change(moved)
                if change is None or change > OUTPUT_ROUNDING * self.size * 10:
                    return False
        return True

    def directions(self) -> list[np.ndarray]:
        """In units of the sizes, the largest entry one: one, or several where there is more than one way."""
        count = 1 if self.basis.shape[1] == 1 else 2
        found = [self.basis @ self.rng.standard_normal(self.basis.shape[1]) for _ in range(count)]
        return [d / np.max(np.abs(d)) for d in found]

    def confirms(self, invariants: Sequence[Invariant]) -> bool:
        """Whether values with equal invariants give equal outputs, and others do not."""
        start, drift = self.centre[self.members], 0.0
        for direction in self.directions():
            for way in (sign * move for move in MOVES for sign in (1, -1)):
                own = self._with_equal(invariants, start + way * direction * self.sizes)
                change = self.change(own) if own is not None else None
                if own is None or change is None:
                    return False
                limit = self.alone(own)
                if np.max(np.abs(own - start) / self.sizes) < LEAST_MOVED * abs(way):
                    return False
                if change > SAME_OUTPUTS * min(limit, self.size) + OUTPUT_ROUNDING * self.size:
                    return False
                drift = max(drift, change)
        return all(self._changes(invariants, j, drift) for j in range(len(invariants)))

    def _with_equal(self, invariants: Sequence[Invariant], own: np.ndarray) -> np.ndarray | None:
        """The nearest values with the invariants of the first point (Newton)."""
        start = self.centre[self.members]
        wanted = np.array([it.value(start) for it in invariants])
        with np.errstate(all="ignore"):
            for _ in range(PROJECTIONS):
                slopes = np.array([it.gradient(own) for it in invariants]) * self.sizes
                lacks = wanted - np.array([it.value(own) for it in invariants])
                scale = np.linalg.norm(slopes, axis=1)
                if not (np.all(np.isfinite(slopes)) and np.all(np.isfinite(lacks)) and np.all(scale > 0)):
                    return None
                if np.max(np.abs(lacks) / scale) < EXACT_INVARIANT:
                    return own
                own = own + self.sizes * (np.linalg.pinv(slopes / scale[:, None]) @ (lacks / scale))
            return own if np.max(np.abs(lacks) / scale) < EQUAL_INVARIANT else None

    def _changes(self, invariants: Sequence[Invariant], j: int, drift: float) -> bool:
        """Whether the outputs change with one invariant when the others stay."""
        start = self.centre[self.members]
        slopes = np.array([it.gradient(start) for it in invariants]) * self.sizes
        scale = np.linalg.norm(slopes, axis=1)
        way = np.linalg.pinv(slopes / scale[:, None])[:, j]
        way = way / np.max(np.abs(way))
        for sign in (1, -1):
            change = self.change(start + sign * DETERMINED_MOVE * way * self.sizes)
            if change is not None and change <= DRIFT_ROOM * drift + SEEN_OUTPUTS * self.size * DETERMINED_MOVE:
                return False
        return True

    def elsewhere(self) -> np.ndarray | None:
        """Other values of the members with the same outputs, to both sides and at two distances; the furthest of them."""
        furthest = None
        for direction in self.directions():
            for way in (sign * move for move in MOVES for sign in (1, -1)):
                own = self._with_equal_outputs(way * direction)
                if own is None:
                    return None
                furthest = own
        return furthest

    def _with_equal_outputs(self, step: np.ndarray) -> np.ndarray | None:
        start = self.centre[self.members]
        own = start + step * self.sizes
        rank = len(self.members) - self.basis.shape[1]
        for _ in range(CORRECTIONS):
            there = self._outputs(own)
            if there is None:
                return None
            off = np.concatenate([a.weight * (b.values - a.values) for a, b in zip(self.here, there, strict=True)])
            if np.linalg.norm(off) <= 0.1 * SAME_OUTPUTS * min(self.alone(own), self.size) + OUTPUT_ROUNDING * self.size:
                return own if np.max(np.abs(own - start) / self.sizes) >= LEAST_MOVED * np.max(np.abs(step)) else None
            slope = np.vstack([a.weight[:, None] * b.jacobian[:, self.members]
                               for a, b in zip(self.here, there, strict=True)]) * self.sizes
            left, s, right = np.linalg.svd(slope, full_matrices=False)
            if s[rank - 1] == 0:
                return None
            own = own - self.sizes * (right[:rank].T @ ((left[:, :rank].T @ off) / s[:rank]))
        return None
