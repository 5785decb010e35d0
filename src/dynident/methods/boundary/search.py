"""Search: from a guess on a mesh to a solution within the tolerance; which steps are tried, in which order?

1. Segments are cut where a trajectory from the guess runs away, or where a change grows too much from begin to end.
2. A root finder solves the equations on this mesh. By default Newton with the natural test; where it fails, on finer meshes;
   then on one where changes grow little over each segment; then Davidenko.
3. The same nodes with steps of half the length show how far off each segment is; the factored Jacobian turns this into the
   error of the solution. Segments that add most are cut, and Newton repeats, until the error is below the tolerance.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynident.discretizations.ends import Ends
from dynident.integrators.march import Diverged
from dynident.methods.boundary.mesh import Course, Lifted, Shot, split, too_short
from dynident.methods.boundary.result import Round, interpolated, polynomials
from dynident.solvers.davidenko import Davidenko
from dynident.solvers.newton import DampedNewton
from dynident.solvers.square import ILL_POSED, TOO_MANY, TOO_SHORT, Page, Root, Watch

Solver = DampedNewton | Davidenko

SAFETY = 0.3  # of the tolerance is what a new mesh aims at
CLOSE = 0.1  # of the tolerance: the last Newton step
CLOSEST = 1e-9  # a last step of this length leaves nothing behind but its square
MOST_ROUNDS = 40
MOST_RESTARTS = 2  # from the guess, where a solution on a coarse mesh leads nowhere
IN_VAIN = 4  # meshes over which the error must fall to half
PREPARING = 30  # rounds of cuts before the first solve
CAREFUL = 2  # pieces per cut while the error is so large that it tells no more than where
ROUGH = 0.1  # an error, in typical sizes, from which on that is so
NOISE = 1e3 * np.finfo(float).eps  # error of one segment, in typical sizes, that more steps cannot lower
MOST_PIECES = 8  # into which one segment is cut at a time
FINER = (1, 4, 16, 64)  # pieces per segment of the meshes on which Newton is tried: more nodes bend a poor guess less
PATIENCE = 50  # iterations of Newton on one mesh
BADLY_CONDITIONED = 1e8  # Sec. 6.4 of the thesis
CLOSER_LOOKS = 5  # meshes of twice as many nodes, where the first cannot tell whether a solution is one of many
DOUBTFUL = 0.5  # relative error of a direction that shows with 1 that nothing holds the solution there
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

    def __init__(self, steps: Shot | Lifted, ends: Ends, times: np.ndarray, guess: Course,
                 p: np.ndarray, options: Options, watch: Watch | None = None):
        self.steps, self.ends, self.options, self.watch = steps, ends, options, watch
        self.guess, self.first_p = guess, p
        self.times, self.course, self.nodes, self.p = times, guess, guess(times), p
        self.rounds: list[Round] = []
        self.pages: list[Page] = []
        self.evaluations = 0
        self.error = np.inf
        self.restarts = 0
        self.loose = False  # a solution that no mesh can tell from one of many
        self.story: list[str] = []  # clauses for the status: what had to be done beyond the usual
        self.root: Root | None = None
        self.inside: np.ndarray | None = None  # (segments, fractions, states)
        self.best: tuple[bool, float, np.ndarray, np.ndarray, np.ndarray] | None = None  # solved, residual, times, nodes, p

    # -- sizes and systems

    @property
    def sizes(self) -> np.ndarray:
        """Typical size of each state and parameter."""
        largest = np.concatenate([np.max(np.abs(self.nodes), axis=0), np.abs(self.p)])
        largest = np.where(largest > NEGLIGIBLE, largest, 1.0)
        return np.where(np.isnan(self.options.scale), largest, self.options.scale)

    @property
    def all_sizes(self) -> np.ndarray:
        """(nodes x states + parameters,) the same for every number at the nodes."""
        n, sizes = self.nodes.shape[1], self.sizes
        return np.concatenate([np.tile(sizes[:n], len(self.nodes)), sizes[n:]])

    @property
    def close(self) -> float:
        return max(CLOSE * self.options.tolerance, CLOSEST)

    def cut(self, pieces: np.ndarray) -> None:
        self.times = split(self.times, np.where(too_short(self.times), 1, pieces))

    def restart(self) -> None:
        self.course, self.nodes, self.p = self.guess, self.guess(self.times), self.first_p

    # -- the search

    def run(self) -> tuple[bool, str, int]:
        """Whether it succeeded, the reason (what follows 'stopped'), and the code of Table 6.1."""
        found, reason, code = self.refined()
        self.loose = found and not self.held_at_last()
        if not found and self.best is not None:
            _, _, self.times, self.nodes, self.p = self.best
        if not found and code in (TOO_MANY, TOO_SHORT) and self.condition > BADLY_CONDITIONED:
            return False, (f"{reason}; the linearised conditions at the ends hardly determine the solution there (condition "
                           f"number {self.condition:.0e})"), ILL_POSED
        return found, reason, code

    @property
    def condition(self) -> float:
        known = self.root is not None and self.root.linear is not None
        return self.root.linear.factors.condition if known else np.inf  # type: ignore[union-attr]

    def held_at_last(self) -> bool:
        """Whether the solution is held on its mesh, or on a finer one where that is too coarse to tell."""
        looks = 0
        while not self.held():
            looks += 1
            if looks > CLOSER_LOOKS or 2 * len(self.times) > self.options.most_nodes:
                return False
            kept = self.times, self.nodes, self.p, self.course, self.inside, self.root, self.error
            self.cut(np.full(len(self.times) - 1, 2))
            root = self.solve(DampedNewton(tolerance=self.close), "look closer")
            if root.converged:
                self.judged(root)
            if not root.converged or self.error > self.options.tolerance:
                self.times, self.nodes, self.p, self.course, self.inside, self.root, self.error = kept
                return False
        return True

    def held(self) -> bool:
        """Whether this mesh can tell the equations, linearised at its solution, from singular ones.

        The direction in which the solution is held least solves linear equations on the same mesh; steps of half the length
        show its error as they show that of the solution. Singular equations make it as large as the direction itself.
        """
        assert self.root is not None and self.root.linear is not None
        factors, (count, n) = self.root.linear.factors, self.nodes.shape
        if factors.condition * NOISE >= DOUBTFUL:
            return False
        nodes, p = np.split(factors.softest, [count * n])
        nodes = nodes.reshape(count, n)
        try:
            links = self.steps.checked_links(self.times, self.nodes, self.p)
        except Diverged:
            return False
        lacks = np.einsum("kij,kj->ki", links, np.hstack([nodes[:-1], np.tile(p, (count - 1, 1))])) - nodes[1:]
        off = self.error_of(self.root, lacks, np.zeros(n + p.size))
        whole = float(np.max(np.abs(factors.softest) / self.all_sizes))
        return off / (1 - 0.5 ** self.steps.order) < DOUBTFUL * whole

    def refined(self) -> tuple[bool, str, int]:
        """Solve, judge and refine until the error is below the tolerance."""
        self.prepare()
        root = self.first_solution()
        for _ in range(MOST_ROUNDS):
            if not root.converged:
                return False, root.reason, root.code
            pieces = self.judged(root)
            grown = root.linear.factors.growth > self.options.growth if root.linear is not None else np.zeros(1, bool)
            if self.error <= self.options.tolerance and not np.any(grown & ~too_short(self.times)):
                return True, "", 0
            pieces = np.where(grown & ~too_short(self.times), np.maximum(pieces, 2), pieces)
            if not np.any(pieces > 1) or self.in_vain():
                return False, f"because more nodes no longer help: rounding keeps the error at {self.error:.1e}", TOO_MANY
            if np.sum(pieces) >= self.options.most_nodes:
                return False, (f"because the error is still {self.error:.1e}, and more than nodes = "
                               f"{self.options.most_nodes} would be needed"), TOO_MANY
            self.cut(pieces)
            root = self.again()
        return False, f"at the limit of {MOST_ROUNDS} meshes", TOO_MANY

    def prepare(self) -> None:
        """Nothing may run away from the guess; where no trajectory is followed, nothing can."""
        if self.steps.follows:
            self.cut_growing()

    def cut_growing(self) -> None:
        """Cut where trajectories from the guess run away or changes grow too much."""
        self.restart()
        for _ in range(PREPARING):
            pieces = self.growing()
            if not np.any(pieces > 1) or np.sum(pieces) > self.options.most_nodes / 4:
                return
            self.times = split(self.times, pieces)
            self.restart()

    def growing(self) -> np.ndarray:
        """(segments,) into how many pieces each should be cut for its trajectory to stay near, 1 for none."""
        growth = self.steps.growth(self.times, self.course, self.p, self.sizes)
        with np.errstate(divide="ignore", invalid="ignore"):
            pieces = np.where(np.isfinite(growth), np.ceil(np.log(growth) / np.log(self.options.growth)), 2)
        return np.where(too_short(self.times), 1, np.clip(np.nan_to_num(pieces, nan=1), 1, MOST_PIECES)).astype(int)

    def first_solution(self) -> Root:
        """By each attempt in turn, from the guess."""
        first: Root | None = None
        for solver, times in self.attempts():
            self.times = times
            self.restart()
            root = self.solve(solver, "start" if first is None else "rescue")
            if root.converged or root.interrupted:
                if first is not None:
                    self.story.append(f"at first {self.rounds[0].solver} stopped {first.reason}; {solver.name} on "
                                      f"{len(times)} nodes did not")
                return root
            first = first or root
        assert first is not None
        return first

    def attempts(self) -> Iterator[tuple[Solver, np.ndarray]]:
        """Newton on finer and finer meshes, then where changes grow little, then Davidenko; or what the user chose."""
        close, times = self.close, self.times
        newton, davidenko = DampedNewton(tolerance=close, iterations=PATIENCE), Davidenko(tolerance=close)
        finer = [split(times, np.full(len(times) - 1, pieces)) for pieces in FINER
                 if pieces == 1 or pieces * len(times) <= self.options.most_nodes]
        if self.options.solver is not None:
            yield self.options.solver, times
            return
        yield from ((newton, mesh) for mesh in finer)
        self.times = times
        self.cut_growing()
        if len(self.times) > len(times):
            yield newton, self.times
        yield from ((davidenko, mesh) for mesh in (finer[0], finer[-1]))

    def again(self) -> Root:
        """On a finer mesh from the solution on the last one; where that fails, anew from the guess."""
        close = self.close
        for solver in (DampedNewton(tolerance=close), Davidenko(tolerance=close)):
            root = self.solve(solver, "finer")
            if root.converged or root.interrupted:
                return root
        self.restarts += 1
        if self.restarts > MOST_RESTARTS:
            return root
        self.restart()
        self.story.append("the solution on a coarse mesh led to none on a finer one; the search began again there")
        return self.first_solution()

    def solve(self, solver: Solver, why: str) -> Root:
        system = self.steps.system(self.times, self.ends, self.sizes)
        begin = self.steps.start(system, self.times, self.course, self.p)  # type: ignore[arg-type]
        try:
            root = solver.solve(system, begin, self.watch)
        except Diverged as wall:
            root = Root(begin, False, f"because {wall}", TOO_MANY, (), 0, 1)
        nodes, p = (part.copy() for part in system.unpack(root.point))
        self.keep(root, nodes, p)
        if root.converged:
            self.nodes, self.p = nodes, p
            self.inside = self.steps.inside(system, root.point)  # type: ignore[arg-type]
            self.course = functools.partial(interpolated, self.times, self.steps.fractions, self.inside)
        self.pages += [replace(page, number=len(self.pages) + page.number) for page in root.pages]
        self.evaluations += root.evaluations
        growth = float(np.max(root.linear.factors.growth)) if root.linear is not None else np.nan
        self.rounds.append(Round(solver.name, len(self.times), root.iterations, root.jacobians, root.converged, np.nan,
                                 growth, why))
        if root.converged or self.root is None or not self.root.converged:
            self.root = root
        return root

    def keep(self, root: Root, nodes: np.ndarray, p: np.ndarray) -> None:
        """What is shown if nothing better is found: the last mesh that was solved, or else the smallest residual."""
        residual = root.pages[-1].residual if root.pages else np.inf
        solved, least = self.best[:2] if self.best is not None else (False, np.inf)
        if root.converged or (not solved and residual < least):
            self.best = root.converged, residual, self.times, nodes, p

    # -- the error

    def judged(self, root: Root) -> np.ndarray:
        """Estimate the error; (segments,) into how many pieces each should be cut."""
        assert root.linear is not None and self.inside is not None
        n, sizes = self.nodes.shape[1], self.sizes
        try:
            ends, between = self.steps.checked(self.times, self.nodes, self.p)
        except Diverged:
            self.error = np.inf
            return np.full(len(self.times) - 1, 2)
        lacks = ends - self.nodes[1:]
        at_nodes = self.error_of(root, lacks, self.ends.value(self.nodes[0], self.nodes[-1], self.p))
        at = np.arange(1, between.shape[1] + 1) / (between.shape[1] + 1)
        foretold = np.einsum("ij,kjn->kin", polynomials(self.steps.fractions, at), self.inside)
        inner = np.max(np.abs(foretold - between) / sizes[:n], axis=(1, 2))
        self.error = max(at_nodes, float(np.max(inner)))
        self.rounds[-1] = replace(self.rounds[-1], error=self.error)
        return self.pieces(np.max(np.abs(lacks) / sizes[:n], axis=1), at_nodes, inner)

    def error_of(self, root: Root, lacks: np.ndarray, conditions: np.ndarray) -> float:
        """What the segments and the conditions at the ends lack, as an error of the nodes and parameters, in typical sizes."""
        assert root.linear is not None
        outer = np.concatenate([lacks.ravel(), conditions])
        off = root.linear.factors.solve(np.append(outer, np.zeros(root.point.size - outer.size)))[:outer.size]
        return float(np.max(np.abs(off) / self.all_sizes))

    def in_vain(self) -> bool:
        """Whether the error stands still, though the last meshes had ever more nodes."""
        last = [each for each in self.rounds if each.converged][-IN_VAIN:]
        return (len(last) == IN_VAIN and last[-1].nodes > 2 * last[0].nodes
                and min(each.error for each in last[1:]) > last[0].error / 2 and last[0].error < ROUGH)

    def pieces(self, local: np.ndarray, at_nodes: float, inner: np.ndarray) -> np.ndarray:
        """From what each segment adds to the error at the nodes and what it lacks in between."""
        aim = SAFETY * self.options.tolerance
        most = CAREFUL if self.error > ROUGH else MOST_PIECES
        pieces = (inner / aim) ** (1 / (self.steps.fractions.size - 1))
        if at_nodes > self.options.tolerance:
            fair = aim * max(float(np.sum(local)) / at_nodes, float(np.finfo(float).tiny)) / local.size
            pieces = np.maximum(pieces, np.where(local > NOISE, (local / fair) ** (1 / (self.steps.order + 1)), 1))
        return np.where(too_short(self.times), 1, np.clip(np.ceil(pieces), 1, most)).astype(int)
