"""Adaptive mesh refinement: from a guess on a mesh to a solution within the tolerance, by one loop over a frozen state.

1. Mesh: of segments that are followed, those are cut over which a trajectory from the guess runs away or a change grows much.
2. Root: the equations of this mesh are solved. From the guess by the attempts of `STARTS` in turn, or by the user's solver;
   from the solution on a coarser mesh by Newton, which insists where it fails.
3. Error: the same nodes with steps of half the length show how far off each segment is; the factored Jacobian turns this into
   the error of the solution.
4. Refine (mesh selection): segments that add most are cut, in a boundary layer (singular perturbation) above all, until the
   error is below the tolerance or rounding is all that is left of it.
5. Conditioning: measured once, there. Where the mesh cannot tell the equations from singular ones, twice as many nodes are
   asked, a few times; what then is not determined is one of many solutions, or not claimed.

Nothing turns on the last bit: an error is compared with the tolerance only where it stands above what rounding may do
(`Conditioning.floor`), and whether equations are singular only where rounding leaves it decided (`STIFFNESS_ROUNDING`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from dynident.boundary.solve_bvp.conditioning import EPS, measure_conditioning
from dynident.boundary.solve_bvp.mesh import split, too_short
from dynident.boundary.solve_bvp.mesh_state import (
    MOST_PIECES,
    AdaptiveOptions,
    BvpSolver,
    MeshProblem,
    MeshSolution,
    MeshState,
    MeshVerdict,
)
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.newton_compiled import compiled_newton
from dynident.boundary.solve_bvp.result import Round, interpolated, polynomials
from dynident.boundary.solve_bvp.root_finding import ILL_POSED, STATUS_CODES, TOO_MANY, TOO_SHORT, RootResult
from dynident.boundary.solve_bvp.systems import CollocationSystem, ShootingSystem
from dynident.errors import SimulationDiverged
from dynident.status import Status, StatusCode
from dynident.tolerances import BADLY_CONDITIONED, HIDDEN_STATE, ROUGH_ERROR, SEGMENT_NOISE, SEGMENT_ROUNDING

FIRST_MAX_ITERATIONS = 50  # iterations of one attempt from the guess
INSIST = 0.25  # share of a step that Newton goes in any case where it insists; it solved 25 of 28 hard problems, 1/16: 24
SAFETY = 0.3  # of the tolerance is what a new mesh aims at
STAGNATION_ROUNDS = 4  # meshes over which the error must fall to half
MESH_DOUBLINGS = 5  # meshes of twice as many nodes, where one does not know how its solution is held
MOST_MESHES = 60  # in all


@dataclass(frozen=True)
class NewtonStart:
    """Newton from the guess on the first mesh, each segment in so many pieces: more nodes bend a poor guess less."""

    pieces: int
    insists: bool = False  # on a share of its steps: layers wander to their place on ways on which no test sees a gain


PLAIN = DampedNewton()
STARTS = (NewtonStart(1), NewtonStart(4), NewtonStart(16), NewtonStart(64),
          NewtonStart(1, insists=True), NewtonStart(4, insists=True))


def solve_adaptively(problem: MeshProblem) -> MeshState:
    """Meshes, until there is a verdict."""
    state = start_attempt(problem, 0)
    if problem.options.free:
        state = stop(state, "because the linearised conditions at the ends do not determine the solution", ILL_POSED)
    while state.verdict is None:
        state = next_mesh(problem, state)
    return state


def next_mesh(problem: MeshProblem, state: MeshState) -> MeshState:
    """Solve on one mesh, and say what follows: another one, or the verdict."""
    state = solve_mesh(problem, state)
    assert state.root is not None
    if state.root.converged:
        state = judge(problem, estimate_error(problem, state))
    else:
        state = after_failure(problem, state)
    if state.verdict is None and len(state.rounds) >= MOST_MESHES:
        return stop(state, mesh_limit(f"at the limit of {MOST_MESHES} meshes"), TOO_MANY, _error(state))
    return state


# -- where it starts


def start_attempt(problem: MeshProblem, attempt: int, before: MeshState | None = None) -> MeshState:
    """An attempt from the guess; what was found before is kept for the record."""
    options, chosen = problem.options, STARTS[attempt]
    solver: BvpSolver = options.solver or DampedNewton(tolerance=options.close, max_iterations=FIRST_MAX_ITERATIONS)
    if chosen.insists:
        solver = _insisting(options)
    times = _in_pieces(problem.first_mesh, chosen.pieces)
    sizes = problem.sizes(problem.guess(times), problem.p)
    start = MeshState(times, problem.guess, problem.p, sizes, solver, "rescue" if attempt else "start", attempt)
    if before is None:
        return start
    return replace(start, root=before.root, nearest=before.nearest, first_failure=before.first_failure, story=before.story,
                   rounds=before.rounds, pages=before.pages, evaluations=before.evaluations)


def _insisting(options: AdaptiveOptions) -> DampedNewton:
    return DampedNewton("residual", options.close, insist=INSIST, name="insisting Newton")


def _in_pieces(times: np.ndarray, pieces: int) -> np.ndarray:
    return split(times, np.full(len(times) - 1, pieces)) if pieces > 1 else times


def after_failure(problem: MeshProblem, state: MeshState) -> MeshState:
    """From a solution on a coarser mesh Newton insists once; then the next attempt from the guess.

    Not from the guess where the coarser mesh did not know how its solution is held: there was nothing to be found near it.
    """
    root, options, solution = state.root, problem.options, state.solution
    assert root is not None
    if root.interrupted:
        return stop(state, root.status, root.code)
    if solution is not None and solution.undecided and options.same_slopes:
        return report_undetermined(problem, state)
    if solution is not None and state.solver.name == PLAIN.name:
        return replace(state, solver=_insisting(options))
    if solution is not None and solution.undecided:
        return report_unknown_error(state)
    if solution is not None:
        told = "the solution on a coarse mesh led to none on a finer one; the search began again from the guess"
        state = replace(state, story=(*state.story, told))
    else:
        state = replace(state, first_failure=state.first_failure or (state.solver.name, root))
    for attempt in range(state.attempt + 1, len(STARTS)):
        if options.solver is None and STARTS[attempt].pieces * len(problem.first_mesh) <= options.most_nodes:
            return start_attempt(problem, attempt, state)
    first = state.first_failure[1] if state.first_failure else root
    return stop(replace(state, root=first), first.status, first.code)


# -- one mesh


def solve_mesh(problem: MeshProblem, state: MeshState) -> MeshState:
    """The equations on this mesh."""
    steps = problem.steps
    system = steps.system(state.times, problem.ends, state.sizes)
    begin = steps.start(system, state.times, state.course, state.p)  # type: ignore[arg-type]
    try:
        root = find_root(problem, state.solver, system, begin, not state.rounds)
    except SimulationDiverged as divergence:
        root = RootResult(begin, False, f"because {divergence}", TOO_MANY, (), 0, 1)
    nodes, p = (part.copy() for part in system.unpack(root.point))
    residual = root.pages[-1].residual if root.pages else np.inf
    growth = float(np.max(root.linear.factors.growth)) if root.linear is not None else np.nan
    state = replace(
        state, root=root, evaluations=state.evaluations + root.evaluations,
        pages=(*state.pages, *(replace(page, number=len(state.pages) + page.number) for page in root.pages)),
        rounds=(*state.rounds, Round(state.solver.name, len(state.times), root.iterations, root.jacobians, root.converged,
                                     np.nan, growth, state.why)))
    if not root.converged:
        nearer = state.nearest is None or residual < state.nearest.residual
        near = MeshSolution(state.times, nodes, p, residual, sizes=problem.sizes(nodes, p))
        return replace(state, nearest=near if nearer else state.nearest)
    inside = steps.interior_states(system, root.point)  # type: ignore[arg-type]
    story = state.story
    if state.first_failure and state.why == "rescue":
        name, first = state.first_failure
        by = f"{state.solver.name} on {len(state.times)} nodes"
        story = (*story, f"at first {name} stopped {first.reason}; {by} did not")
    sizes = typical_sizes(problem, state.times, nodes, p, root)
    return replace(state, p=p, sizes=sizes, story=story,
                   course=functools.partial(interpolated, state.times, steps.fractions, inside),
                   solution=MeshSolution(state.times, nodes, p, residual, inside, sizes))


def find_root(problem: MeshProblem, solver: BvpSolver, system: ShootingSystem | CollocationSystem, begin: np.ndarray,
              first: bool) -> RootResult:
    """By one compiled call where there can be one; whoever watches is told step by step."""
    if problem.watch is None and isinstance(solver, DampedNewton) and (root := compiled_newton(solver, system, begin)):
        return root  # so that the guess was finite, too
    if first:
        problem.check_guess()
    return solver.solve(system, begin, problem.watch)


def typical_sizes(problem: MeshProblem, times: np.ndarray, nodes: np.ndarray, p: np.ndarray, root: RootResult) -> np.ndarray:
    """Of a solution; what is no more than rounding is measured in what the other states bring to it over one segment."""
    sizes, n = problem.sizes(nodes, p), nodes.shape[1]
    assert root.linear is not None
    hidden = sizes[:n] <= HIDDEN_STATE * EPS * root.linear.factors.condition * np.max(np.abs(nodes))
    hidden &= np.isnan(problem.options.scale[:n]) & (sizes[:n] == np.max(np.abs(nodes), axis=0))
    if not np.any(hidden) or np.all(hidden):
        return sizes
    try:
        links = np.abs(problem.steps.half_step_links(times, nodes, p)[:, :, :n])
    except SimulationDiverged:
        return sizes
    brought = np.max(links[:, :, ~hidden] @ sizes[:n][~hidden], axis=0)
    return np.concatenate([np.where(hidden & (brought > 0), brought, sizes[:n]), sizes[n:]])


def estimate_error(problem: MeshProblem, state: MeshState) -> MeshState:
    """By steps of half the length between the same nodes, carried through the factored Jacobian."""
    solution, root, steps = state.solution, state.root, problem.steps
    assert solution is not None and solution.inside is not None and solution.sizes is not None
    assert root is not None and root.linear is not None
    try:
        ends, between = steps.half_step_solution(solution.times, solution.nodes, solution.p)
    except SimulationDiverged:
        return state
    at = np.arange(1, between.shape[1] + 1) / (between.shape[1] + 1)
    predicted = np.einsum("ij,kjn->kin", polynomials(steps.fractions, at), solution.inside)
    inner = np.max(np.abs(predicted - between) / solution.sizes[:solution.nodes.shape[1]], axis=(1, 2))
    missed = (ends - solution.nodes[1:]).ravel()
    defects = np.concatenate([missed, problem.ends.value(solution.nodes[0], solution.nodes[-1], solution.p)])
    moved = root.linear.factors.answer(defects) / solution.all_sizes
    return _with_solution(state, replace(solution, defects=defects, between=inner, at_nodes=float(np.max(np.abs(moved)))))


def _with_solution(state: MeshState, solution: MeshSolution) -> MeshState:
    """A solution of which more is known."""
    last = replace(state.rounds[-1], error=solution.error if np.isfinite(solution.error) else np.nan)
    return replace(state, solution=solution, rounds=(*state.rounds[:-1], last))


def with_conditioning(problem: MeshProblem, state: MeshState) -> MeshState:
    """With the conditioning; the error is the larger one of both Jacobians."""
    solution, root = state.solution, state.root
    assert solution is not None and solution.sizes is not None and solution.defects is not None
    assert root is not None and root.linear is not None
    found = measure_conditioning(problem.steps, problem.ends, solution.times, solution.nodes, solution.p, solution.sizes,
                                 root.linear.factors)
    at_nodes = solution.at_nodes
    if found.factors is not None:
        at_nodes = max(at_nodes, float(np.max(np.abs(found.factors.solve(solution.defects)) / solution.all_sizes)))
    return _with_solution(state, replace(solution, conditioning=found, at_nodes=at_nodes))


# -- what follows


def judge(problem: MeshProblem, state: MeshState) -> MeshState:
    """Refine, or measure the conditioning and decide."""
    pieces, tolerance = pieces_to_cut(problem, state), problem.options.tolerance
    if np.any(pieces > 1) and not refinement_stagnates(state.rounds, tolerance):
        return refine_mesh(problem, state, pieces)
    if not np.isfinite(_error(state)):
        return report_unknown_error(state)
    state = with_conditioning(problem, state)
    solution = state.solution
    assert solution is not None and solution.conditioning is not None
    if solution.undecided:
        return recheck_on_finer_mesh(problem, state)
    pieces = pieces_to_cut(problem, state)
    if np.any(pieces > 1) and not refinement_stagnates(state.rounds, tolerance):  # the finer steps have the last word
        return refine_mesh(problem, state, pieces)
    error = max(solution.error, solution.conditioning.floor)
    if error <= tolerance:
        return replace(state, verdict=MeshVerdict(True, error=solution.error))
    why = f"because more nodes no longer help: rounding keeps the error at {error:.1e}"
    return stop(state, mesh_limit(why), TOO_MANY, error)


def pieces_to_cut(problem: MeshProblem, state: MeshState) -> np.ndarray:
    """(segments,) by what each adds to the error at the nodes, by what it lacks in between, and by the growth over it."""
    solution, options, root = state.solution, problem.options, state.root
    assert solution is not None and root is not None and root.linear is not None
    short = too_short(solution.times)
    grown = (root.linear.factors.growth > options.growth) & ~short
    if solution.defects is None or solution.between is None or solution.sizes is None:
        return np.where(short, 1, 2)
    pieces = np.ones(short.size)
    if solution.error > options.tolerance:
        aim = SAFETY * options.tolerance
        pieces = (solution.between / aim) ** (1 / (problem.steps.fractions.size - 1))
        if solution.at_nodes > options.tolerance:
            local = _local_errors(solution, root.linear.rounding)
            fair = aim * max(float(np.sum(local)) / solution.at_nodes, float(np.finfo(float).tiny)) / local.size
            pieces = np.maximum(pieces, np.where(local > SEGMENT_NOISE, (local / fair) ** (1 / (problem.steps.order + 1)), 1))
    most = MOST_PIECES[0] if solution.error > ROUGH_ERROR else MOST_PIECES[1]
    pieces = np.where(short, 1, np.clip(np.ceil(pieces), 1, most)).astype(int)
    return np.where(grown, np.maximum(pieces, 2), pieces)


def _local_errors(solution: MeshSolution, rounding: np.ndarray | float) -> np.ndarray:
    """(segments,) what each lacks at its end, in typical sizes; 0 where that is rounding."""
    assert solution.defects is not None and solution.sizes is not None
    n, count = solution.nodes.shape[1], solution.nodes[1:].size
    gaps, hidden = np.abs(solution.defects[:count]), rounding[:count] if isinstance(rounding, np.ndarray) else rounding
    return np.max(np.where(gaps > SEGMENT_ROUNDING * hidden, gaps, 0.0).reshape(-1, n) / solution.sizes[:n], axis=1)


def refinement_stagnates(rounds: tuple[Round, ...], tolerance: float) -> bool:
    """Whether the error stands still above the tolerance, though the last meshes had ever more nodes."""
    last = [each for each in rounds if each.converged][-STAGNATION_ROUNDS:]
    return (len(last) == STAGNATION_ROUNDS and last[-1].error > tolerance and last[-1].nodes > 2 * last[0].nodes
            and min(each.error for each in last[1:]) > last[0].error / 2 and last[0].error < ROUGH_ERROR)


def refine_mesh(problem: MeshProblem, state: MeshState, pieces: np.ndarray, why: str = "finer") -> MeshState:
    """The next mesh, from the solution on this one by Newton."""
    options = problem.options
    if np.sum(pieces) >= options.most_nodes:
        limit = f"because the error is still {_error(state):.1e}, and more than nodes = {options.most_nodes} would be needed"
        return stop(state, mesh_limit(limit), TOO_MANY, _error(state))
    return replace(state, times=split(state.times, pieces), solver=DampedNewton(tolerance=options.close), why=why)


def recheck_on_finer_mesh(problem: MeshProblem, state: MeshState) -> MeshState:
    """Twice as many nodes, where this mesh does not know how its solution is held; after a few of them it is left at that."""
    if state.rechecks >= MESH_DOUBLINGS or 2 * len(state.times) > problem.options.most_nodes:
        return report_undetermined(problem, state)
    pieces = np.where(too_short(state.times), 1, 2)
    return replace(refine_mesh(problem, state, pieces, "look closer"), rechecks=state.rechecks + 1)


def report_undetermined(problem: MeshProblem, state: MeshState) -> MeshState:
    """Nothing is seen to hold the solution: it is one of many if that is for the ends to do and if there is any."""
    solution = state.solution
    assert solution is not None
    held = solution.conditioning
    if held is None or solution.defects is None or not (problem.options.same_slopes or held.at_ends):
        return report_unknown_error(state)
    point = np.concatenate([solution.nodes.ravel(), solution.p]) / solution.all_sizes
    rest = held.without_soft(point)
    guess = np.append(problem.guess(solution.times), problem.p) / solution.all_sizes
    least = max(float(np.max(np.abs(rest))), float(np.max(np.abs(guess))))
    if float(np.max(np.abs(point - rest))) > problem.options.tolerance * held.reach * least:
        return stop(state, "because the linearised equations cannot be told from singular ones, and what solves them on a "
                              "mesh is as large as where there is no solution", ILL_POSED)
    return replace(state, verdict=MeshVerdict(True, loose=True, error=_distance(solution)))


def _distance(solution: MeshSolution) -> float:
    """The error less what is along the directions in which the solution is loose: that to the nearest of many."""
    assert solution.conditioning is not None and solution.defects is not None and solution.between is not None
    factors = solution.conditioning.factors
    if factors is None:
        return solution.error
    moved = solution.conditioning.without_soft(factors.solve(solution.defects) / solution.all_sizes)
    return max(float(np.max(np.abs(moved))), float(np.max(solution.between)))


def report_unknown_error(state: MeshState) -> MeshState:
    assert state.solution is not None
    nodes = len(state.solution.times)
    return stop(state, f"because no mesh up to {nodes} nodes can tell the linearised equations from singular ones, so that "
                          "the error is not known", ILL_POSED)


def stop(state: MeshState, reason: str, code: int, error: float = np.nan) -> MeshState:
    """Not found; whose linearised conditions at the ends hardly determine anything is told so."""
    said = reason if isinstance(reason, Status) else Status(reason, STATUS_CODES[code])
    if code in (TOO_MANY, TOO_SHORT) and state.condition > BADLY_CONDITIONED:
        said = Status(f"{said}; the linearised conditions at the ends hardly determine the solution there (condition number "
                      f"{state.condition:.0e})", said.code)
        code = ILL_POSED
    return replace(state, verdict=MeshVerdict(False, said, code, error=error))


def mesh_limit(reason: str) -> Status:
    return Status(reason, StatusCode.MESH_LIMIT)


def _error(state: MeshState) -> float:
    return np.inf if state.solution is None else state.solution.error
