"""FINITELY MANY UNKNOWNS -> NUMBERS: the solvers, and the linear algebra along time that they share."""

from collections.abc import Callable
from typing import Any

from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.nlp import Ipopt, Sqp

SOLVERS: dict[str, Callable[..., Any]] = {
    "levenberg_marquardt": LevenbergMarquardt, "gauss_newton": GaussNewton, "ipopt": Ipopt, "sqp": Sqp}
