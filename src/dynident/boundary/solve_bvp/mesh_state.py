"""Mesh state: what stays the same over all meshes of a boundary value problem, and where the loop over them stands.

All of it is frozen: a step of the loop makes a new state (`run.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynident.boundary.solve_bvp.conditioning import Conditioning
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.mesh import CollocationMesh, Course, ShootingMesh, split, too_short
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.problem import BoundaryConditions
from dynident.boundary.solve_bvp.result import Round
from dynident.boundary.solve_bvp.root_finding import RootIteration, RootResult, RootWatch
from dynident.status import Status, StatusCode
from dynident.tolerances import BVP_LAST_STEP_SHARE, BVP_LONGEST_LAST_STEP, BVP_SHORTEST_LAST_STEP, NEGLIGIBLE_STATE

BvpSolver = DampedNewton | Davidenko

MOST_PIECES = (2, 8)  # into which one segment is cut at a time, where the error is rough and where it is not
PREPARING = 30  # rounds of cuts before the first solve


@dataclass(frozen=True)
class AdaptiveOptions:
    """How accurate, by which solver, with how many nodes and how much growth over a segment at the most."""

    tolerance: float
    solver: BvpSolver | None  # None: the attempts above
    most_nodes: int
    growth: float
    scale: np.ndarray  # (states + parameters,) nan where it follows from the solution
    same_slopes: bool = False  # of the equations at every state and parameter, as of linear ones
    free: bool = False  # a state to which any number can be added, by what the equations look like

    @property
    def close(self) -> float:
        """The last step of Newton, in typical sizes."""
        return max(min(BVP_LAST_STEP_SHARE * self.tolerance, BVP_LONGEST_LAST_STEP), BVP_SHORTEST_LAST_STEP)


@dataclass(frozen=True, eq=False)
class MeshProblem:
    """What stays the same over all meshes."""

    steps: ShootingMesh | CollocationMesh
    ends: BoundaryConditions
    times: np.ndarray  # of the first mesh, as it was asked for
    guess: Course
    p: np.ndarray
    options: AdaptiveOptions
    watch: RootWatch | None = None
    check_guess: Callable[[], None] = lambda: None  # raises where the problem is not finite at the guess, and says where

    @functools.cached_property
    def largest_guess(self) -> float:
        return float(np.max(np.abs(self.guess(self.times))))

    @functools.cached_property
    def first_mesh(self) -> np.ndarray:
        """Segments that are followed are cut where trajectories from the guess run away or changes grow too much."""
        return prepared_mesh(self) if self.steps.follows else self.times

    def sizes(self, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Typical size of each state and parameter of a solution."""
        states = np.max(np.abs(nodes), axis=0)
        zero = NEGLIGIBLE_STATE * min(1.0, max(self.largest_guess, float(np.max(states))))
        largest = np.concatenate([np.where(states > zero, states, 1.0), np.where(np.abs(p) > NEGLIGIBLE_STATE, np.abs(p), 1.0)])
        return np.where(np.isnan(self.options.scale), largest, self.options.scale)


@dataclass(frozen=True, eq=False)
class MeshSolution:
    """The equations of one mesh, solved or as near as it came; its error and conditioning where they were found out."""

    times: np.ndarray
    nodes: np.ndarray  # (nodes, states)
    p: np.ndarray
    residual: float = np.inf
    inside: np.ndarray | None = None  # (segments, fractions, states); None where the mesh was not solved
    sizes: np.ndarray | None = None  # typical, of states and parameters
    defects: np.ndarray | None = None  # (segments x states + conditions,) by steps of half the length
    between: np.ndarray | None = None  # (segments,) largest error of the polynomial between the nodes
    at_nodes: float = np.inf
    conditioning: Conditioning | None = None

    @property
    def error(self) -> float:
        """In typical sizes."""
        return np.inf if self.between is None else max(self.at_nodes, float(np.max(self.between)))

    @property
    def all_sizes(self) -> np.ndarray:
        """(nodes x states + parameters,) typical sizes."""
        assert self.sizes is not None
        n = self.nodes.shape[1]
        return np.concatenate([np.tile(self.sizes[:n], len(self.nodes)), self.sizes[n:]])

    @property
    def undecided(self) -> bool:
        return self.conditioning is not None and not self.conditioning.determined


SOLVED = Status("", StatusCode.CONVERGED)


@dataclass(frozen=True)
class MeshVerdict:
    """How the search ended: `reason` is what follows 'stopped', `code` that of Table 6.1."""

    found: bool
    reason: Status = SOLVED
    code: int = 0
    loose: bool = False  # a solution that no mesh can tell from one of many
    error: float = np.nan  # in typical sizes; nan where there is no estimate that can be trusted


@dataclass(frozen=True, eq=False)
class MeshState:
    """Where the search stands: the next mesh with what it starts from, what was solved last, and the records."""

    times: np.ndarray
    course: Course
    p: np.ndarray
    sizes: np.ndarray  # typical, of states and parameters
    solver: BvpSolver
    why: str
    attempt: int = 0
    rechecks: int = 0
    root: RootResult | None = None  # of the last mesh
    solution: MeshSolution | None = None  # of the last mesh that was solved
    nearest: MeshSolution | None = None  # where none was: the smallest residual
    first_failure: tuple[str, RootResult] | None = None  # by which solver, and how, the first attempt from the guess ended
    story: tuple[str, ...] = ()  # clauses for the status: what had to be done beyond the usual
    rounds: tuple[Round, ...] = ()
    pages: tuple[RootIteration, ...] = ()
    evaluations: int = 0
    verdict: MeshVerdict | None = None

    @property
    def best_solution(self) -> MeshSolution:
        """The last mesh that was solved, or else the smallest residual."""
        best = self.solution or self.nearest
        return best if best is not None else MeshSolution(self.times, self.course(self.times), self.p, sizes=self.sizes)

    @property
    def condition(self) -> float:
        """By the best Jacobian there is."""
        best = self.solution.conditioning if self.solution is not None else None
        if best is not None and best.factors is not None:
            return best.condition
        return self.root.linear.factors.condition if self.root is not None and self.root.linear is not None else np.inf


def prepared_mesh(problem: MeshProblem) -> np.ndarray:
    """Cut until no trajectory from the guess runs away and no change grows too much over a segment."""
    times = problem.times
    for _ in range(PREPARING):
        nodes = problem.guess(times)
        growth = problem.steps.growth_factors(times, problem.guess, problem.p, problem.sizes(nodes, problem.p))
        with np.errstate(divide="ignore", invalid="ignore"):
            pieces = np.where(np.isfinite(growth), np.ceil(np.log(growth) / np.log(problem.options.growth)), 2)
        pieces = np.where(too_short(times), 1, np.clip(np.nan_to_num(pieces, nan=1), 1, MOST_PIECES[-1])).astype(int)
        if not np.any(pieces > 1) or np.sum(pieces) > problem.options.most_nodes / 4:
            break
        times = split(times, pieces)
    return times
