"""Result: the bounds that an algorithm found, and how they become an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.estimate.enclosure import Band, Enclosure, Refutation
from dynident.estimate.estimate import Estimate, Trajectory
from dynident.integrators.grid import grid_of
from dynident.methods.build_estimate import build_estimate, trajectories_from
from dynident.set_membership.flows.boxes import Boxes
from dynident.set_membership.intervals import Guarantee
from dynident.set_membership.setup import SetMembershipSetup, TimeLimit
from dynident.status import Status, StatusCode
from dynident.transcription.simulators import refine_steps, simulator_for

if TYPE_CHECKING:
    from dynident.set_membership.method import SetMembership

MAX_KEPT_BOXES = 4000  # of a paving that an estimate keeps


@dataclass(frozen=True)
class BoxLimit:
    """The largest number of boxes, where so many were not enough."""

    max_boxes: int
    found: str  # how it was reached, in words
    wanted: int  # boxes with which the next step could be made

    @property
    def sentence(self) -> str:
        return (f"Converged as far as max_boxes = {self.max_boxes} boxes reach: {self.found}. More may exclude more; "
                f"max_boxes={self.wanted} costs about {self.wanted / self.max_boxes:.2g} times as much.")


@dataclass(frozen=True, eq=False)
class SetMembershipResult:
    """Bounds of the problem's unknowns, as far as an algorithm has come."""

    low: np.ndarray
    high: np.ndarray
    guarantees: frozenset[Guarantee]
    outer: np.ndarray | None = None
    inner: np.ndarray | None = None
    bands: tuple[Band, ...] = ()
    last_motion: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # of unknowns that are reset
    boxes: Boxes | None = None
    refutation: Refutation | None = None
    inflation: float = 1.0  # of every radius
    refuted_as_given: Refutation | None = None  # where the radii grew because nothing fitted before
    notes: tuple[str, ...] = ()
    limited_by: BoxLimit | TimeLimit | None = None
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (unknowns, points) that fit
    points_by: str = ""  # how that is known, in words

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.weakest(self.guarantees)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every unknown; of one that is reset, those in the last motion; NaN where nothing fits."""
        low, high = self.low.copy(), self.high.copy()
        for k, (a, b) in self.last_motion.items():
            low[k], high[k] = a, b
        if self.refutation is not None:
            low[:], high[:] = np.nan, np.nan
        return low, high


def build_set_estimate(setup: SetMembershipSetup, method: SetMembership, algorithm: str, result: SetMembershipResult,
                       seconds: float) -> Estimate:
    """The estimate: bounds as an enclosure, the midpoint as values, and a status with its code."""
    problem = setup.problem
    low, high = result.bounds
    reset = tuple(f"{problem.names[k]} may change at every standstill: its bounds are those of its value in the last "
                  "motion of the record, or in a later one that is not excluded." for k in result.last_motion)
    outer, inner = _kept_paving(setup, result)
    enclosure = Enclosure(
        names=problem.names, low=low, high=high, guarantee=result.guarantee.value, prior_low=setup.low.copy(),
        prior_high=setup.high.copy(), outer=outer, inner=inner, feasible=result.points, feasible_by=result.points_by,
        max_outliers=method.max_outliers, inflation=result.inflation, refuted_as_given=result.refuted_as_given,
        refutation=result.refutation, bands=result.bands, fixed=problem.fixed_values(),
        last=_last_boxes(setup, result.boxes, low, high))
    values = dict(zip(problem.names, (float(v) for v in 0.5 * (low + high)), strict=True))
    trajectories, residuals = _trajectories(setup, result)
    boxes = result.boxes.count if result.boxes is not None else sum(
        min(part.shape[2], MAX_KEPT_BOXES) for part in (result.outer, result.inner) if part is not None)
    return build_estimate(
        problem, method, values, enclosure, trajectories, residuals, converged=True, status=_status(result, algorithm),
        notes=(*reset, *result.notes), counts={"boxes": boxes}, times={"fit": seconds},
        statistics={"share_removed": enclosure.excluded_volume()})


def _status(result: SetMembershipResult, algorithm: str) -> Status:
    if result.refutation is not None:
        return Status(result.refutation.sentence, StatusCode.REFUTED)
    widened = "" if result.refuted_as_given is None else (
        f" Every bound on the errors was taken {result.inflation:.4g} times as wide, since nothing fits within those given.")
    if result.limited_by is not None:
        return Status(result.limited_by.sentence + widened, StatusCode.ENCLOSED_BOX_LIMIT)
    return Status(f"Converged: everything was excluded that the {algorithm} algorithm could exclude.{widened}",
                  StatusCode.ENCLOSED)


def _kept_paving(setup: SetMembershipSetup, result: SetMembershipResult) -> tuple[np.ndarray, np.ndarray]:
    """Outer and inner boxes; none at all where there are more than an estimate keeps."""
    none = np.zeros((2, len(setup.problem.names), 0))
    parts = [none if part is None else part for part in (result.outer, result.inner)]
    return (parts[0], parts[1]) if all(part.shape[2] <= MAX_KEPT_BOXES for part in parts) else (none, none)


def _last_boxes(setup: SetMembershipSetup, boxes: Boxes | None, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(2, unknowns, boxes) what was left at the end of the last record, within the bounds that were found by then."""
    if boxes is None or np.isnan(low).any():
        return np.zeros((2, low.size, 0))
    ends = np.array([low, high])[:, :, None].repeat(min(boxes.count, MAX_KEPT_BOXES), axis=2)
    rows, source = setup.unknown_rows(len(setup.records) - 1)
    for row, k in zip(rows, source, strict=True):
        if row >= setup.automaton.layout.states:
            ends[0, k] = np.maximum(ends[0, k], boxes.lo[row, :MAX_KEPT_BOXES])
            ends[1, k] = np.minimum(ends[1, k], boxes.hi[row, :MAX_KEPT_BOXES])
    return ends[:, :, np.all(ends[0] <= ends[1], axis=0)]


def _trajectories(setup: SetMembershipSetup, result: SetMembershipResult
                  ) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    """Of the middle of the bounds; or, where there are bands, the middle of these: no solution, but never far from one."""
    model = setup.model
    states_of, outputs_of = [], []
    last = {band.experiment: band for band in result.bands}
    for e, record in enumerate(setup.records):
        size = record.samples
        states = np.full((size, len(model.states)), np.nan)
        parameters = np.array([_midpoint_values(setup, result, e)[0]] * size).T
        if record.label in last:
            band = last[record.label]
            with np.errstate(invalid="ignore"):  # what has no end on either side has no middle
                states[:band.time.size] = np.array([0.5 * (band.low[n] + band.high[n]) for n in model.states]).T
        elif result.refutation is None:
            states = _simulate_midpoint(setup, result, e)
        u = np.array([np.asarray(setup.problem.experiments[e].inputs[n]) for n in model.inputs]).reshape(-1, size)
        states_of.append(states)
        outputs_of.append(np.asarray(model.output.map(size)(record.time[None], states.T, u, parameters)).T)
    return trajectories_from(setup.problem, states_of, outputs_of)


def _midpoint_values(setup: SetMembershipSetup, result: SetMembershipResult, e: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and initial states of one experiment."""
    return setup.problem.parameters_and_initial_state(0.5 * (result.low + result.high), e)


def _simulate_midpoint(setup: SetMembershipSetup, result: SetMembershipResult, e: int) -> np.ndarray:
    """(samples, states) of a simulation; not known where it diverges, which says nothing about values that fit."""
    model, run = setup.model, setup.problem.experiments[e]
    grid = grid_of(model, run, everywhere=True)
    try:
        simulation = refine_steps(simulator_for(model, "runge_kutta", ()), *_midpoint_values(setup, result, e), grid)
    except SimulationDiverged:
        return np.full((run.time.size, len(model.states)), np.nan)
    return simulation.states[grid.offset:]
