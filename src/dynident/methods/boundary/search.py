"""Search: from a guess on a mesh to a solution within the tolerance; which steps are tried, in which order?

1. Segments are cut where a trajectory from the guess runs away, or where a change grows too much from begin to end.
2. A root finder solves the equations on this mesh. By default Newton with the natural test; where it fails, Davidenko;
   then both again on meshes with more nodes.
3. The same nodes with steps of half the length show how far off each segment is; the factored Jacobian turns this into the
   error of the solution. Segments that add most are cut, and Newton repeats, until the error is below the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dynident.discretizations.ends import Ends
from dynident.integrators.march import Diverged
from dynident.methods.boundary.mesh import CHECKED, DENSE, MOST_PIECES, Stepper, moved_to, split, too_short
from dynident.methods.boundary.result import Round, interpolation_error
from dynident.solvers.davidenko import Davidenko
from dynident.solvers.linked import LinkedSystem, growth_of
from dynident.solvers.newton import DampedNewton
from dynident.solvers.square import TOO_MANY, Page, Root, Watch

Solver = DampedNewton | Davidenko

SAFETY = 0.3  # of the tolerance is what a new mesh aims at
CLOSE = 0.1  # of the tolerance: the last Newton step
MOST_ROUNDS = 40
PREPARING = 30  # rounds of cuts before the first solve
CAREFUL = 2  # pieces per cut while the error is so large that it tells no more than where
ROUGH = 0.1  # an error, in typical sizes, from which on that is so
NOISE = 1e3 * np.finfo(float).eps  # error of one segment, in typical sizes, that more steps cannot lower
INTERPOLATED = 5  # order of the interpolation inside of a segment
FINER = (1, 2, 4)  # pieces per segment of the meshes on which the first solve is tried
NEGLIGIBLE = 1e-12  # a state that nowhere exceeds this is taken to be zero; give `scale` if yours are that small


@dataclass(frozen=True)
class Options:
    """How accurate, by which solver, with how many nodes and how much growth over a segment at the most."""

    tolerance: float
    solver: Solver | None  # None: the chain above
    most_nodes: int
    growth: float
    scale: np.ndarray  # (states + parameters,) nan where it follows from the solution


class Search:
    """The state of one search."""

    def __init__(self, stepper: Stepper, ends: Ends, times: np.ndarray, guess: Callable[[np.ndarray], np.ndarray],
                 p: np.ndarray, options: Options, watch: Watch | None = None):
        self.stepper, self.ends, self.options, self.watch = stepper, ends, options, watch
        self.guess, self.first_p = guess, p
        self.times, self.nodes, self.p = times, guess(times), p
        self.rounds: list[Round] = []
        self.pages: list[Page] = []
        self.evaluations = 0
        self.error = np.inf
        self.story: list[str] = []  # clauses for the status: what had to be done beyond the usual
        self.root: Root | None = None
        self.dense: np.ndarray | None = None

    # -- sizes and systems

    @property
    def sizes(self) -> np.ndarray:
        """Typical size of each state and parameter."""
        largest = np.concatenate([np.max(np.abs(self.nodes), axis=0), np.abs(self.p)])
        largest = np.where(largest > NEGLIGIBLE, largest, 1.0)
        return np.where(np.isnan(self.options.scale), largest, self.options.scale)

    def cut(self, pieces: np.ndarray) -> None:
        new = split(self.times, np.where(too_short(self.times), 1, pieces))
        self.nodes = moved_to(self.times, self.nodes, new)
        self.times = new

    def restart(self) -> None:
        self.nodes, self.p = self.guess(self.times), self.first_p

    # -- the search

    def run(self) -> tuple[bool, str, int]:
        """Whether it succeeded, the reason as a clause, and the code of Table 6.1."""
        self.prepare()
        root = self.first_solution()
        for _ in range(MOST_ROUNDS):
            if not root.converged:
                return False, root.reason, root.code
            pieces = self.judged(root)
            if self.error <= self.options.tolerance:
                return True, "", 0
            if not np.any(pieces > 1):
                return False, f"rounding keeps the error at {self.error:.1e}", TOO_MANY
            if np.sum(pieces) > self.options.most_nodes:
                return False, (f"the error is still {self.error:.1e}, and more than nodes = {self.options.most_nodes} would "
                               "be needed"), TOO_MANY
            self.cut(pieces)
            root = self.again()
        return False, f"at the limit of {MOST_ROUNDS} meshes", TOO_MANY

    def prepare(self) -> None:
        """Cut where trajectories from the guess run away or changes grow too much."""
        for _ in range(PREPARING):
            pieces = self.growing()
            if not np.any(pieces > 1) or np.sum(pieces) > self.options.most_nodes / 4:
                return
            self.times = split(self.times, pieces)
            self.restart()

    def growing(self) -> np.ndarray:
        """(segments,) into how many pieces each should be cut for its trajectory to stay near, 1 for none."""
        short = too_short(self.times)
        broken = self.stepper.broken(self.times, self.nodes, self.p) & ~short
        if np.any(broken):
            return np.where(broken, 2, 1)
        try:
            links = self.stepper.segments(self.times).run(self.nodes[:-1], self.p, True).links
        except Diverged:
            return np.ones(len(self.times) - 1, dtype=int)
        sizes, n = self.sizes, self.nodes.shape[1]
        growth = growth_of(links[:, :, :n] * sizes[:n] / sizes[:n, None])
        with np.errstate(over="ignore", invalid="ignore"):
            pieces = np.ceil(np.log(growth) / np.log(self.options.growth))
        return np.where(short, 1, np.clip(np.nan_to_num(pieces, nan=MOST_PIECES), 1, MOST_PIECES)).astype(int)

    def first_solution(self) -> Root:
        """On the prepared mesh by each solver in turn, then on finer ones."""
        best: Root | None = None
        for finer, solver in self.attempts():
            if finer > 1 and solver is self.solvers()[0]:
                if np.size(self.times) * 2 > self.options.most_nodes:
                    break
                self.times = split(self.times, np.full(len(self.times) - 1, 2))
            if best is not None:
                self.restart()
            root = self.solve(solver, "start" if best is None else f"rescue on {len(self.times)} nodes")
            if root.converged or root.interrupted:
                if best is not None:
                    self.story.append(f"Newton stopped ({best.reason}); {solver.name} on {len(self.times)} nodes found it")
                return root
            best = best or root
        assert best is not None
        return best

    def solvers(self) -> tuple[Solver, ...]:
        if self.options.solver is not None:
            return (self.options.solver,)
        close = CLOSE * self.options.tolerance
        return DampedNewton(tolerance=close), Davidenko(tolerance=close)

    def attempts(self) -> Iterator[tuple[int, Solver]]:
        for finer in FINER if self.options.solver is None else FINER[:1]:
            for solver in self.solvers():
                yield finer, solver

    def again(self) -> Root:
        """On a finer mesh from the solution on the last one; where that fails, anew from the guess."""
        close = CLOSE * self.options.tolerance
        for solver in (DampedNewton(tolerance=close), Davidenko(tolerance=close)):
            root = self.solve(solver, "finer")
            if root.converged or root.interrupted:
                return root
        self.restart()
        self.story.append("the solution on a coarse mesh was none; the search began again on a finer one")
        return self.first_solution()

    def solve(self, solver: Solver, why: str) -> Root:
        system = LinkedSystem(self.stepper.segments(self.times), self.ends, self.sizes)
        before = self.nodes, self.p
        try:
            root = solver.solve(system, system.pack(self.nodes, self.p), self.watch)
        except Diverged as wall:
            root = Root(system.pack(self.nodes, self.p), False, str(wall), TOO_MANY, (), 0, 1)
        self.nodes, self.p = (part.copy() for part in system.unpack(root.point))
        self.pages += root.pages
        self.evaluations += root.evaluations
        growth = float(np.max(root.linear.factors.growth)) if root.linear is not None else np.nan
        self.rounds.append(Round(solver.name, len(self.times), root.iterations, root.jacobians, root.converged, np.nan,
                                 growth, why))
        if root.converged or self.root is None or not self.root.converged:
            self.root = root
        if not root.converged:
            self.nodes, self.p = before
        return root

    # -- the error

    def judged(self, root: Root) -> np.ndarray:
        """Estimate the error; (segments,) into how many pieces each should be cut."""
        assert root.linear is not None
        n, sizes = self.nodes.shape[1], self.sizes
        try:
            checked = self.stepper.segments(self.times, CHECKED).run(self.nodes[:-1], self.p, False)
            between = self.stepper.segments(self.times, DENSE).run(self.nodes[:-1], self.p, False).path
        except Diverged:
            self.error = np.inf
            return np.full(len(self.times) - 1, 2)
        lacks = checked.states - self.nodes[1:]
        tied = self.ends.value(self.nodes[0], self.nodes[-1], self.p)
        off = np.abs(root.linear.factors.solve(np.concatenate([lacks.ravel(), tied]))) / np.concatenate(
            [np.tile(sizes[:n], len(self.times)), sizes[n:]])
        self.dense = np.concatenate([between[:-1].reshape(-1, DENSE, n), self.nodes[1:, None]], axis=1)
        local = np.max(np.abs(lacks) / sizes[:n], axis=1)
        interpolated = np.max(interpolation_error(self.dense) / sizes[:n], axis=1)
        at_nodes = float(np.max(off))
        self.error = max(at_nodes, float(np.max(interpolated)))
        last = self.rounds[-1]
        self.rounds[-1] = Round(**{**last.__dict__, "error": self.error})
        return self.pieces(local, at_nodes, interpolated)

    def pieces(self, local: np.ndarray, at_nodes: float, interpolated: np.ndarray) -> np.ndarray:
        aim = SAFETY * self.options.tolerance
        most = CAREFUL if self.error > ROUGH else MOST_PIECES
        pieces = (interpolated / aim) ** (1 / INTERPOLATED)
        if at_nodes > self.options.tolerance:
            fair = aim * max(float(np.sum(local)) / at_nodes, np.finfo(float).tiny) / local.size
            pieces = np.maximum(pieces, np.where(local > NOISE, (local / fair) ** (1 / (self.stepper.order + 1)), 1))
        short = too_short(self.times)
        return np.where(short, 1, np.clip(np.ceil(pieces), 1, most)).astype(int)
