"""Search: from a guess on a mesh to a solution within the tolerance; which steps are tried, in which order?

1. Segments are cut where a trajectory from the guess runs away, or where a change grows too much from begin to end.
2. A root finder solves the equations on this mesh. By default Newton with the natural test; where it fails, on finer meshes;
   then on one where changes grow little over each segment; then Newton that insists on its steps; then Davidenko.
3. The same nodes with steps of half the length show how far off each segment is; the factored Jacobian turns this into the
   error of the solution. Segments that add most are cut, and Newton repeats, until the error is below the tolerance.
4. The Jacobian by steps of half the length must say the same; where it does not, meshes of twice as many nodes are asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynident.boundary.solve_bvp.boundary_conditions import BoundaryConditions
from dynident.boundary.solve_bvp.conditioning import NOISE, Verdict, answer, finer_factors, verdict
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.mesh import CollocationMesh, Course, ShootingMesh, split, too_short
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.result import Round, interpolated, polynomials
from dynident.boundary.solve_bvp.root_finding import (
    ILL_POSED,
    SINGULAR_BLOCK,
    TOO_MANY,
    TOO_SHORT,
    Factors,
    RootIteration,
    RootResult,
    Watch,
)
from dynident.boundary.solve_bvp.shooting_system import LinkedFactors
from dynident.errors import SimulationDiverged

Solver = DampedNewton | Davidenko

SAFETY = 0.3  # of the tolerance is what a new mesh aims at
CLOSE = 0.1  # of the tolerance: the last Newton step
LOOSEST = 1e-7  # and no longer than this: how a layer is held shows only in a solution that is one
CLOSEST = 1e-9  # a last step of this length leaves nothing behind but its square
MOST_ROUNDS = 40
MOST_RESTARTS = 2  # from the guess, where a solution on a coarse mesh leads nowhere
IN_VAIN = 4  # meshes over which the error must fall to half
PREPARING = 30  # rounds of cuts before the first solve
CAREFUL = 2  # pieces per cut while the error is so large that it tells no more than where
ROUGH = 0.1  # an error, in typical sizes, from which on that is so
MOST_PIECES = 8  # into which one segment is cut at a time
FINER = (1, 4, 16, 64)  # pieces per segment of the meshes on which Newton is tried: more nodes bend a poor guess less
PATIENCE = 50  # iterations of Newton on one mesh
BADLY_CONDITIONED = 1e8  # Sec. 6.4 of the thesis
CLOSER_LOOKS = 5  # meshes of twice as many nodes, where the first does not know how the solution is held
INSIST = 1 / 4  # share of a step that the rescue goes in any case; of 28 hard problems it solved 25, 1/16: 24, 1/64: 22
STUBBORN = 3  # meshes on which it is tried
NEGLIGIBLE = 1e-12  # of the largest state, or of 1 where that is larger: what nowhere exceeds it is taken to be zero


@dataclass(frozen=True)
class Options:
    """How accurate, by which solver, with how many nodes and how much growth over a segment at the most."""

    tolerance: float
    solver: Solver | None  # None: the chain above
    most_nodes: int
    growth: float
    scale: np.ndarray  # (states + parameters,) nan where it follows from the solution
    same_slopes: bool = False  # of the equations at every state and parameter, as of linear ones


@dataclass(frozen=True, eq=False)
class Kept:
    """What is shown if nothing better is found."""

    solved: bool
    residual: float
    times: np.ndarray
    nodes: np.ndarray
    p: np.ndarray
    inside: np.ndarray | None = None  # (segments, fractions, states); None where the mesh was not solved
    error: float = np.nan  # estimated; nan where there is no estimate that can be trusted


class Search:
    """The state of one search."""

    def __init__(self, steps: ShootingMesh | CollocationMesh, ends: BoundaryConditions, times: np.ndarray, guess: Course,
                 p: np.ndarray, options: Options, watch: Watch | None = None):
        self.steps, self.ends, self.options, self.watch = steps, ends, options, watch
        self.guess, self.first_p = guess, p
        self.largest_guess = float(np.max(np.abs(guess(times))))
        self.times, self.course, self.nodes, self.p = times, guess, guess(times), p
        self.rounds: list[Round] = []
        self.pages: list[RootIteration] = []
        self.evaluations = 0
        self.error = np.inf
        self.restarts = self.looks = 0
        self.loose = False  # a solution that no mesh can tell from one of many
        self.story: list[str] = []  # clauses for the status: what had to be done beyond the usual
        self.root: RootResult | None = None
        self.inside: np.ndarray | None = None  # (segments, fractions, states)
        self.finer: LinkedFactors | None = None  # the Jacobian of this solution by steps of half the length
        self.best: Kept | None = None

    # -- sizes and systems

    @property
    def sizes(self) -> np.ndarray:
        """Typical size of each state and parameter."""
        states, p = np.max(np.abs(self.nodes), axis=0), np.abs(self.p)
        zero = NEGLIGIBLE * min(1.0, max(self.largest_guess, float(np.max(states))))
        largest = np.concatenate([np.where(states > zero, states, 1.0), np.where(p > NEGLIGIBLE, p, 1.0)])
        return np.where(np.isnan(self.options.scale), largest, self.options.scale)

    @property
    def all_sizes(self) -> np.ndarray:
        """(nodes x states + parameters,) the same for every number at the nodes."""
        n, sizes = self.nodes.shape[1], self.sizes
        return np.concatenate([np.tile(sizes[:n], len(self.nodes)), sizes[n:]])

    @property
    def close(self) -> float:
        return max(min(CLOSE * self.options.tolerance, LOOSEST), CLOSEST)

    def cut(self, pieces: np.ndarray) -> None:
        self.times = split(self.times, np.where(too_short(self.times), 1, pieces))

    def restart(self) -> None:
        self.course, self.nodes, self.p = self.guess, self.guess(self.times), self.first_p

    # -- the search

    def run(self) -> tuple[bool, str, int]:
        """Whether it succeeded, the reason (what follows 'stopped'), and the code of Table 6.1."""
        found, reason, code = self.refined()
        if not found and self.best is not None:
            best = self.best
            self.times, self.nodes, self.p, self.inside, self.error = best.times, best.nodes, best.p, best.inside, best.error
        if not found and code in (TOO_MANY, TOO_SHORT) and self.condition > BADLY_CONDITIONED:
            return False, (f"{reason}; the linearised conditions at the ends hardly determine the solution there (condition "
                           f"number {self.condition:.0e})"), ILL_POSED
        return found, reason, code

    @property
    def condition(self) -> float:
        if self.finer is not None:
            return self.finer.condition
        known = self.root is not None and self.root.linear is not None
        return self.root.linear.factors.condition if known else np.inf  # type: ignore[union-attr]

    def refined(self) -> tuple[bool, str, int]:
        """Solve, judge and refine until the error is below the tolerance."""
        self.prepare()
        root = self.first_solution()
        for _ in range(MOST_ROUNDS):
            if not root.converged:
                self.distrust()
                return False, root.reason, root.code
            pieces = self.judged(root)
            grown = root.linear.factors.growth > self.options.growth if root.linear is not None else np.zeros(1, bool)
            if self.error <= self.options.tolerance and not np.any(grown & ~too_short(self.times)):
                seen = self.seen(root)
                if seen.known:
                    return True, "", 0
                closer = self.closer_look()
                if closer is None:
                    return self.undecided(seen)
                root = closer
                continue
            pieces = np.where(grown & ~too_short(self.times), np.maximum(pieces, 2), pieces)
            if not np.any(pieces > 1) or self.in_vain():
                return False, f"because more nodes no longer help: rounding keeps the error at {self.error:.1e}", TOO_MANY
            if np.sum(pieces) >= self.options.most_nodes:
                return False, (f"because the error is still {self.error:.1e}, and more than nodes = "
                               f"{self.options.most_nodes} would be needed"), TOO_MANY
            self.cut(pieces)
            root = self.again()
        return False, f"at the limit of {MOST_ROUNDS} meshes", TOO_MANY

    def seen(self, root: RootResult) -> Verdict:
        """Whether this mesh can tell the equations, linearised at its solution, from singular ones."""
        assert root.linear is not None
        if self.finer is None:
            return Verdict(False, True)
        return verdict(root.linear.factors, self.finer, root.point.size, self.all_sizes, self.steps.order)

    def closer_look(self) -> RootResult | None:
        """On twice as many nodes; None where these are too many or leave it as undecided as it is."""
        self.looks += 1
        if self.looks > CLOSER_LOOKS or 2 * len(self.times) > self.options.most_nodes:
            return None
        kept = self.times, self.nodes, self.p, self.course, self.inside, self.root, self.error, self.finer
        self.cut(np.full(len(self.times) - 1, 2))
        root = self.solve(DampedNewton(tolerance=self.close), "look closer")
        if root.converged or root.interrupted:
            return root
        if self.options.same_slopes or root.code in (ILL_POSED, SINGULAR_BLOCK):
            self.times, self.nodes, self.p, self.course, self.inside, self.root, self.error, self.finer = kept
            return None
        self.story.append("a solution on a mesh that cannot tell the equations from singular ones has none near it on twice as "
                          "many nodes")
        return self.again()

    def undecided(self, seen: Verdict) -> tuple[bool, str, int]:
        """Nothing is seen to hold the solution: it is one of many if that is for the ends to do, else it is not known."""
        self.loose = self.options.same_slopes or seen.at_ends
        if self.loose:
            return True, "", 0
        self.distrust()
        return False, (f"because no mesh up to {len(self.times)} nodes can tell the linearised equations from singular ones, "
                       "so that the error is not known"), ILL_POSED

    def distrust(self) -> None:
        """What was estimated on the last mesh that was solved says nothing."""
        if self.best is not None:
            self.best = replace(self.best, error=np.nan)

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

    def first_solution(self) -> RootResult:
        """By each attempt in turn, from the guess."""
        first: RootResult | None = None
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
        """Newton on finer and finer meshes, and where changes grow little; the rescues; or what the user chose."""
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
        yield from ((self.insisting, mesh) for mesh in finer[:STUBBORN])
        yield from ((davidenko, mesh) for mesh in (finer[0], finer[-1]))

    @property
    def insisting(self) -> DampedNewton:
        return DampedNewton("residual", self.close, insist=INSIST, name="insisting Newton")

    def again(self) -> RootResult:
        """On a finer mesh from the solution on the last one; where that fails, anew from the guess."""
        close = self.close
        for solver in (DampedNewton(tolerance=close), self.insisting, Davidenko(tolerance=close)):
            root = self.solve(solver, "finer")
            if root.converged or root.interrupted:
                return root
        self.restarts += 1
        if self.restarts > MOST_RESTARTS:
            return root
        self.restart()
        self.story.append("the solution on a coarse mesh led to none on a finer one; the search began again there")
        return self.first_solution()

    def solve(self, solver: Solver, why: str) -> RootResult:
        system = self.steps.system(self.times, self.ends, self.sizes)
        begin = self.steps.start(system, self.times, self.course, self.p)  # type: ignore[arg-type]
        try:
            root = solver.solve(system, begin, self.watch)
        except SimulationDiverged as wall:
            root = RootResult(begin, False, f"because {wall}", TOO_MANY, (), 0, 1)
        nodes, p = (part.copy() for part in system.unpack(root.point))
        self.finer = None
        if root.converged:
            self.nodes, self.p = nodes, p
            self.inside = self.steps.inside(system, root.point)  # type: ignore[arg-type]
            self.course = functools.partial(interpolated, self.times, self.steps.fractions, self.inside)
        self.pages += [replace(page, number=len(self.pages) + page.number) for page in root.pages]
        self.evaluations += root.evaluations
        self.keep(root, nodes, p)
        growth = float(np.max(root.linear.factors.growth)) if root.linear is not None else np.nan
        self.rounds.append(Round(solver.name, len(self.times), root.iterations, root.jacobians, root.converged, np.nan,
                                 growth, why))
        if root.converged or self.root is None or not self.root.converged:
            self.root = root
        return root

    def keep(self, root: RootResult, nodes: np.ndarray, p: np.ndarray) -> None:
        """What is shown if nothing better is found: the last mesh that was solved, or else the smallest residual."""
        residual = root.pages[-1].residual if root.pages else np.inf
        solved, least = (self.best.solved, self.best.residual) if self.best is not None else (False, np.inf)
        if root.converged or (not solved and residual < least):
            self.best = Kept(root.converged, residual, self.times, nodes, p, self.inside if root.converged else None)

    # -- the error

    def judged(self, root: RootResult) -> np.ndarray:
        """Estimate the error; (segments,) into how many pieces each should be cut."""
        assert root.linear is not None and self.inside is not None and self.best is not None
        n, sizes = self.nodes.shape[1], self.sizes
        try:
            ends, between = self.steps.checked(self.times, self.nodes, self.p)
        except SimulationDiverged:
            self.error = np.inf
            return np.full(len(self.times) - 1, 2)
        lacks = ends - self.nodes[1:]
        at = np.arange(1, between.shape[1] + 1) / (between.shape[1] + 1)
        foretold = np.einsum("ij,kjn->kin", polynomials(self.steps.fractions, at), self.inside)
        inner = np.max(np.abs(foretold - between) / sizes[:n], axis=(1, 2))
        everything = np.concatenate([lacks.ravel(), self.ends.value(self.nodes[0], self.nodes[-1], self.p)])
        at_nodes = self.moved(root.linear.factors, everything, root.point.size)
        if max(at_nodes, float(np.max(inner))) <= self.options.tolerance:  # the finer steps have the last word
            self.finer = finer_factors(self.steps, self.ends, self.times, self.nodes, self.p, sizes)
            if self.finer is not None:
                at_nodes = max(at_nodes, self.moved(self.finer, everything, everything.size))
        self.error = max(at_nodes, float(np.max(inner)))
        self.rounds[-1] = replace(self.rounds[-1], error=self.error)
        self.best = replace(self.best, error=self.error)
        return self.pieces(np.max(np.abs(lacks) / sizes[:n], axis=1), at_nodes, inner)

    def moved(self, factors: Factors, lacks: np.ndarray, unknowns: int) -> float:
        """What segments and conditions at the ends lack, as an error of the nodes and parameters, in typical sizes."""
        return float(np.max(np.abs(answer(factors, lacks, unknowns)) / self.all_sizes))

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
