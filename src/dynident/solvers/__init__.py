"""FINITE PROBLEM -> POINT: least squares in one loop, general solvers for sparse programs, and safeguards."""

from collections.abc import Callable
from typing import Any

from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.nlp import Ipopt
from dynident.solvers.sqp import Sqp

SOLVERS: dict[str, Callable[..., Any]] = {
    "levenberg_marquardt": LevenbergMarquardt, "gauss_newton": GaussNewton, "ipopt": Ipopt, "sqp": Sqp}
