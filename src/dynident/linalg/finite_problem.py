"""Finite problem: what remains of a problem once time is gone, its linearisation, and the memory that this stands in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dynident._util.frozen import frozen
from dynident.linalg.block_rows import BlockRows
from dynident.problem.parameter import Transforms


@dataclass(frozen=True, eq=False)
class ResidualIndex:
    """Which measured value each residual belongs to (arrays of equal length, one entry per residual).

    Priors are residuals too; they stand at the end with experiment = -1, output = -1 and sample = unknown's index.
    """

    experiment: np.ndarray  # index into problem.experiments
    output: np.ndarray  # index into problem.model.outputs
    sample: np.ndarray  # index into experiment.time

    @property
    def count(self) -> int:
        return int(self.experiment.size)


@dataclass(frozen=True, eq=False)
class ResidualJacobian:
    """Residuals and their total derivative with respect to the unknowns of the problem, inner nodes eliminated.

    The values are those of the problem itself (not logarithms, not scaled), so that the covariance that follows is in
    the user's units. residual = (model - measured) / std, with the std that was used (given or estimated).
    """

    values: np.ndarray  # (unknowns,) in problem.names order
    residuals: np.ndarray  # (rows,)
    blocks: BlockRows  # (rows, unknowns): the Jacobian, zero where an experiment knows nothing of an unknown
    rows: ResidualIndex

    @classmethod
    def dense(cls, values: np.ndarray, residuals: np.ndarray, jacobian: np.ndarray, rows: ResidualIndex) -> ResidualJacobian:
        return cls(values, residuals, BlockRows.of(jacobian, rows.experiment), rows)

    @cached_property
    def jacobian(self) -> np.ndarray:
        """(rows, unknowns), for who has few experiments."""
        return self.blocks.dense()


@frozen
class Variables:
    """A place in the space of a finite problem: solver coordinates of the unknowns, and inner nodes per experiment."""

    unknowns: np.ndarray  # (unknowns,)
    nodes: tuple[np.ndarray, ...] = ()  # per experiment (segments - 1, states + stages): state, then stages before it

    def step_along(self, unknowns: np.ndarray, nodes: tuple[np.ndarray, ...], step_length: float = 1.0) -> Variables:
        return Variables(self.unknowns + step_length * unknowns,
                     tuple(n + step_length * d for n, d in zip(self.nodes, nodes, strict=True)))


class Workspace:
    """Memory that a linearisation is written into, given by whoever asks for it.

    What was made in it lasts until the workspace is given away again, or for good once it is released. A solver has two:
    one holds the problem at the present point, the other is for the point that it tries. Fresh memory costs as much as a
    short simulation, which is why it is kept at all.
    """

    def __init__(self) -> None:
        self.arrays: dict[Hashable, Any] = {}
        self.lease = object()  # another one with each use

    def renew(self) -> None:
        """Begin to write over what is there."""
        self.lease = object()

    def release(self) -> None:
        """Leave what was made in it to whoever holds it: the next use begins with fresh memory."""
        self.arrays = {}


@frozen
class Evaluation:
    """Residuals and violated equalities at a point."""

    cost: float
    weighted_residuals: tuple[np.ndarray, ...]  # per experiment (nodes, outputs), 0 where nothing was measured
    prior: np.ndarray  # (priors,) weighted residuals of the priors
    defects: tuple[np.ndarray, ...]  # per experiment (segments - 1, states)
    stage_residuals: tuple[np.ndarray, ...]  # per experiment (segments - 1, stages): what inner stages lack, else no columns
    max_defect: float  # largest defect, each divided by the typical size of its state
    factors: tuple[np.ndarray, ...] = ()  # what a robust loss puts on each row, in the residuals already; none: all are one
    weights: tuple[np.ndarray, ...] = ()  # of each row at this point, where they follow from the model; none: as given
    log_std: float = 0.0  # part of the cost: twice the logarithms of standard deviations that are formulas

    @property
    def squares(self) -> float:
        """The residual sum of squares, weighted: the cost without logarithms, what tells how large residuals are."""
        return self.cost - self.log_std


@frozen
class SegmentChain:
    """Segments segment_starts[i]..segment_starts[i+1] of one record, linearised. n = states + free parameters.

    Rows to make small: weight * jacobian (state at the segment's begin, parameters) + rhs. Links to keep: the next
    segment's begin = transition (state at the segment's begin, parameters) + defect. All are increments.
    """

    segment_starts: np.ndarray  # (segments + 1,) int64
    jacobian: np.ndarray  # (nodes, outputs, n)
    weight: np.ndarray  # (nodes, outputs): 0 where nothing was measured
    rhs: np.ndarray  # (nodes, outputs): weighted residuals
    transition: np.ndarray  # (segments, states, n)
    defect: np.ndarray  # (segments - 1, states): end of a segment minus begin of the next
    stage: Any = None  # (segments - 1, stages, n): how inner stages follow
    noisy_states: Any = None  # (errors,) int64: the states, from the first on, that a link may miss; none: all are equalities
    process_std: Any = None  # (segments - 1, errors): what a model error of unit weight adds to its state
    constant_states: int = 0  # so many of the last states every link leaves as they are, as drifting parameters
    node_scale: Any = 1.0  # (segments - 1, states): what a step of an inner node's coordinate is in the chain's states
    linked: bool = True  # False: nothing has to meet, each segment begins with a state of its own

    def __post_init__(self) -> None:
        if self.stage is None:  # no stages: no rows
            object.__setattr__(self, "stage", np.zeros((len(self.defect), 0, self.transition.shape[2])))
        if self.noisy_states is None:  # a model without error: no columns
            object.__setattr__(self, "noisy_states", np.zeros(0, np.int64))
            object.__setattr__(self, "process_std", np.zeros((len(self.defect), 0)))


def chain_shape(chain: SegmentChain) -> tuple[int, int, int, int]:
    """Segments, states, free parameters, outputs."""
    segments, nx, n = chain.transition.shape
    return segments, nx, n - nx, chain.jacobian.shape[1]


@frozen
class LinkOffsets:
    """What a step must close along a chain: its defects, and what the best model errors add to that where links may err."""

    defect: np.ndarray  # (segments - 1, states)
    process_noise: Any = None  # (segments - 1, errors)


@frozen
class UnknownMap:
    """Numbers that each follow one unknown, or none: how the unknowns reach an experiment, or a prior."""

    unknown: np.ndarray  # (n,) index of the unknown, -1 for a number that is held; no unknown occurs twice
    derivative: np.ndarray  # (n,) d number / d solver coordinate of the unknown; of segments that are not linked (segments, n)

    def scatter(self, step: np.ndarray) -> np.ndarray:
        """(n,) change of the numbers for a step of the unknowns."""
        return self.derivative * np.append(step, 0.0)[self.unknown]

    def gather(self, gradient: np.ndarray, total: np.ndarray) -> None:
        """Add a gradient with respect to the numbers to the gradient with respect to the unknowns."""
        free = self.unknown >= 0
        total[self.unknown[free]] += self.derivative[free] * gradient[free]


@frozen
class LinearizedProblem:
    """A finite problem linearised at a point: one chain per experiment, joined at the unknowns."""

    evaluation: Evaluation
    unknowns: int
    chains: tuple[SegmentChain, ...]
    unknown_maps: tuple[UnknownMap, ...]  # per experiment: its first state and free parameters
    priors: UnknownMap  # weighted; their residuals are evaluation.prior
    workspace: Workspace = field(default_factory=Workspace)  # in which the chains' arrays stand, and factors made of them


@dataclass(frozen=True, eq=False)
class PlainRecord:
    """One experiment whose segments need not meet and whose weights are given, as compiled loops of a solver take it."""

    march: int  # where the compiled propagation stands
    grid: Any  # of the record: kept, since its addresses are in use
    segment_starts: np.ndarray  # (segments + 1,) int64
    sizes: tuple[int, int, int]  # states, free parameters, outputs
    measured: np.ndarray  # (nodes, outputs)
    weight: np.ndarray  # (nodes, outputs)
    state_scale: np.ndarray  # (states,)
    parameters: np.ndarray  # with the values of those that are held
    nodes: np.ndarray  # (segments, states): the first state where it is known, and the nodes where they are held
    places: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # of parameters and first states, and their unknowns
    problem_unknowns: int  # the nodes stand behind them where they are free
    free_nodes: bool
    unknown: np.ndarray  # (triangles, n) int64: the unknown of each number, -1 for none


class FiniteProblem(Protocol):
    """Named unknowns with start, bounds and scale; residuals to make small, equalities to meet."""

    names: tuple[str, ...]
    coordinates: Transforms
    residual_count: int
    equality_count: int
    rounding_cost: float  # a cost below this is rounding, whatever the noise
    jacobian_is_cheap: bool  # a linearisation costs a few evaluations, not one per unknown
    counts: dict[str, int]  # simulations and jacobians so far

    @property
    def simulation_noise(self) -> float:
        """Length of what the simulation's own noise adds to the weighted residuals; 0 where it is exact to rounding."""
        ...

    @property
    def jacobian_error(self) -> float:
        """Relative error of a column of the Jacobian that is made of differences; 0 where derivatives are exact."""
        ...

    def start(self) -> Variables: ...

    def evaluate(self, point: Variables) -> Evaluation:
        """Raises SimulationDiverged where the model leaves the finite numbers."""
        ...

    def linearize(self, point: Variables, workspace: Workspace | None = None, known: Evaluation | None = None
                  ) -> LinearizedProblem:
        """In a workspace, of which nothing is needed any more; without one in memory of its own.

        `known`: the evaluation at this very point, for problems that can make use of it.
        """
        ...

    def plain_record(self) -> PlainRecord | None:
        """What a compiled step takes; None where the problem is more than one record, or its simulation not one call."""
        ...

    def node_step_norm(self, nodes: tuple[np.ndarray, ...]) -> float:
        """Mean over the nodes of their squared steps, each divided by the typical size of its state."""
        ...
