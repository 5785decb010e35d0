"""Method: y' = f(t, y, p) with conditions at both ends; what does a user say, and what comes back?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.boundary.solve_bvp.mesh_state import BvpSolver, MeshProblem, MeshState, MeshVerdict
from dynident.boundary.solve_bvp.problem import Statement
from dynident.boundary.solve_bvp.result import BoundarySolution
from dynident.boundary.solve_bvp.root_finding import ILL_POSED, RootIteration
from dynident.boundary.solve_bvp.run import solve_adaptively
from dynident.boundary.solve_bvp.setup import BoundaryArguments, mesh_problem
from dynident.models.equations import EquationModel
from dynident.solvers.solver_result import iterations_in_words
from dynident.status import Status
from dynident.tolerances import BADLY_CONDITIONED


@single_thread()
def solve_bvp(rate: Callable[..., Any] | EquationModel, boundary: Callable[..., Any], mesh: Sequence[float],
                         guess: Any, *, parameters: Mapping[str, float] | None = None,
                         states: Sequence[str] | None = None, output: Sequence[float] | None = None,
                         tolerance: float = 1e-6, method: str | BvpSolver = "auto", integrator: str = "gauss_legendre",
                         degree: int | None = None, scale: Mapping[str, float] | None = None, growth: float = 100.0,
                         nodes: int = 20_000, watch: Callable[[RootIteration], None] | None = None) -> BoundarySolution:
    """Solve y' = rate(t, y, p), boundary(y(a), y(b), p) = 0 for y(t) and, where there are any, the unknown parameters p.

    A solution that is not found raises nothing: `converged` is False and `status` says why. See the manual, methods/solve_bvp.

    Parameters
    ----------
    rate : callable or EquationModel
        `rate(t, y, p)` returns a rate per state; traced once with symbols (use `dynident.maths`), without p where there
        is none.
    boundary : callable
        `boundary(begin, end, p)` returns as many numbers that shall be zero as there are states and parameters.
    mesh : sequence of float
        Times from a to b in the unit of time of the rate, at least these two; nodes are added where they are needed.
    guess : callable, array or BoundarySolution
        A function of t, an array (mesh, states), one value per state, or an earlier solution.
    parameters : mapping of str to float, optional
        Names and start values of the unknown parameters, in their units.
    states : sequence of str, optional
        Names of the states.
    output : sequence of float, optional
        Times at which the solution is wanted, in the unit of `mesh`; a and b among them.
    tolerance : float, default 1e-06
        Largest error, relative to each state's largest value (or to `scale`).
    method : str or solver, default "auto"
        "auto" (Newton's method, and continuation where that fails), "newton", "davidenko", or a solver with its options.
    integrator : str, default "gauss_legendre"
        Implicit schemes are collocation, explicit ones multiple shooting.
    degree : int, optional
        Stages, where they can be chosen.
    scale : mapping of str to float, optional
        Typical magnitudes of states and parameters, in their units.
    growth : float, default 100.0
        Largest factor by which a change may grow over a segment.
    nodes : int, default 20000
        At the most.
    watch : callable, optional
        Called with each `RootIteration`.

    Returns
    -------
    BoundarySolution
        Values at the nodes and, when called with times, between them; parameters; how they were found.

    Raises
    ------
    ProblemError
        For arguments that do not fit together.

    Examples
    --------
    >>> import dynident as di
    >>> solution = di.solve_bvp(lambda t, y: [y[1], -y[0]], lambda a, b: [a[0], b[0] - 1], [0, 1], guess=[0.5, 1])
    >>> print(f"{solution.values[0, 1]:.4f}")  # 1/sin(1)
    1.1884
    """
    began = time.perf_counter()
    told = None if watch is None else lambda page, _: watch(page)
    given = BoundaryArguments(mesh, guess, parameters, states, output, tolerance, method, integrator, degree, scale, growth,
                              nodes, watch)
    statement, problem, wanted = mesh_problem(rate, boundary, given, told)
    return _solution(statement, problem, solve_adaptively(problem), wanted, time.perf_counter() - began)


def _solution(statement: Statement, problem: MeshProblem, state: MeshState, wanted: np.ndarray, seconds: float
              ) -> BoundarySolution:
    shown, verdict, condition = state.best_solution, state.verdict, state.condition
    assert verdict is not None and shown.sizes is not None
    fractions, inside = problem.steps.fractions, shown.inside
    if inside is None:  # no mesh was solved: straight lines between nodes
        fractions, inside = np.array([0.0, 1.0]), np.stack([shown.nodes[:-1], shown.nodes[1:]], axis=1)
    no_guess_helps = statement.same_slopes or bool(statement.free)
    words = (_success if verdict.found else _failure)(state, verdict, no_guess_helps)
    return BoundarySolution(
        shown.times, shown.nodes, statement.states,
        dict(zip(statement.parameters, (float(v) for v in shown.p), strict=True)), verdict.found,
        Status(words, verdict.reason.code), verdict.code, verdict.error, problem.options.tolerance,
        dict(zip((*statement.states, *statement.parameters), shown.sizes.tolist(), strict=True)), condition, state.pages,
        state.rounds, state.evaluations, _warnings(verdict, condition, statement.same_slopes), wanted, fractions, inside,
        seconds)


def _warnings(verdict: MeshVerdict, condition: float, same_slopes: bool) -> tuple[str, ...]:
    if verdict.loose:
        double = "" if same_slopes else ", or one where two meet"
        return (f"Linearised at the solution, the equations cannot be told from singular ones on this mesh (condition "
                f"number {condition:.1e}): it is one of many{double}, unless a finer mesh shows that they are only "
                "close to singular. Change a condition at the ends so that one solution is singled out.",)
    if not condition <= BADLY_CONDITIONED:
        return (f"The condition number is {condition:.1e}, above 1e8: half of the digits or more are lost, and the "
                "conditions at the ends may not determine the solution.",)
    return ()


def _success(state: MeshState, verdict: MeshVerdict, same_slopes: bool) -> str:
    if not verdict.loose:
        return f"Converged: {_work(state)}; estimated error {verdict.error:.1e}.{_story(state)}"
    what = "one of many solutions, as far as this mesh can tell" if same_slopes else "what may be one of many solutions"
    return (f"Converged to {what} (see the warning): {_work(state)}; estimated distance to the nearest {verdict.error:.1e}."
            f"{_story(state)}")


def _failure(state: MeshState, verdict: MeshVerdict, no_guess_helps: bool) -> str:
    number = f" (error {verdict.code} of the thesis)" if verdict.code else ""
    way = ""
    if verdict.code == ILL_POSED and no_guess_helps:
        way = (" The derivatives of these equations are the same for every state and parameter, so that every guess ends like "
               "this one: change the conditions at the ends.")
    elif verdict.code == ILL_POSED:
        where = "at the point that was reached" if state.pages else "at the guess"
        way = (f" This is known {where} only: begin with another guess; if all end like this one, the solution may be one of "
               "many: change the conditions at the ends.")
    return f"Not converged: stopped {verdict.reason}{number}, after {_work(state)}.{way}{_story(state)}"


def _work(state: MeshState) -> str:
    meshes = f"{len(state.rounds)} mesh{'es' * (len(state.rounds) != 1)}"
    return f"{iterations_in_words(len(state.pages))} on {meshes}, the last of {len(state.best_solution.times)} nodes"


def _story(state: MeshState) -> str:
    told = "; ".join(state.story)
    return f" {told[0].upper()}{told[1:]}." if told else ""
