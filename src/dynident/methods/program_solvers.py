"""Program solvers: Ipopt and SQP as options of the direct methods, and which Hessian each takes."""

from __future__ import annotations

from typing import Any

from dynident.errors import did_you_mean
from dynident.methods.options import option
from dynident.solvers import SOLVERS
from dynident.solvers.nlp import HESSIANS
from dynident.solvers.solver_result import Solver
from dynident.solvers.sqp import SQP_HESSIANS

PROGRAM_SOLVERS = ("ipopt", "sqp")  # which take the sparse program of a finite problem


def known_hessian(name: str, value: Any) -> list[str]:
    every = tuple(dict.fromkeys((*SQP_HESSIANS, *HESSIANS)))
    known = value is None or (isinstance(value, str) and value in every)
    return [] if known else [f"There is no Hessian '{value}'.{did_you_mean(str(value), every)}"]


def hessian_option() -> Any:
    return option(None, 'For "sqp": "bfgs", "gauss_newton" or "exact"; for "ipopt": "exact", "gauss_newton" or '
                  '"limited_memory".', known_hessian)


def hessian_faults(method: Any) -> list[str]:
    """What the solver does not make of a Hessian."""
    taken = {"ipopt": HESSIANS, "sqp": SQP_HESSIANS}.get(method.solver if isinstance(method.solver, str) else "", ())
    every = (*SQP_HESSIANS, *HESSIANS)
    if method.hessian is None or method.solver == "auto" or method.hessian in taken or method.hessian not in every:
        return []
    if not taken:
        return [f"hessian = \"{method.hessian}\" is for solver = \"ipopt\" and \"sqp\"; leave it out, or name one of them."]
    return [f"solver = \"{method.solver}\" takes no Hessian '{method.hessian}'; use one of {', '.join(taken)}."]


def program_solver(name: str, hessian: str | None, max_iterations: int) -> Solver:
    """Ipopt or SQP, with the Hessian that was asked for."""
    return SOLVERS[name](max_iterations=max_iterations, **({"hessian": hessian} if hessian else {}))
