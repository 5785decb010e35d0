"""ONE STEP IN TIME: the schemes, each in a file of its own; adding one is a file and a line here."""

from __future__ import annotations

from pkgutil import resolve_name

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.integrators.cvodes import CVODES
from dynident.integrators.euler import EULER
from dynident.integrators.gauss_legendre import GAUSS_LEGENDRE, gauss_legendre
from dynident.integrators.hermite_simpson import HERMITE_SIMPSON
from dynident.integrators.heun import HEUN
from dynident.integrators.leapfrog import LEAPFROG
from dynident.integrators.radau import RADAU, radau
from dynident.integrators.runge_kutta import RUNGE_KUTTA
from dynident.integrators.scheme import Integrator
from dynident.integrators.simpson import SIMPSON
from dynident.integrators.symplectic_euler import SYMPLECTIC_EULER
from dynident.integrators.trapezoid import TRAPEZOID

INTEGRATORS: tuple[Integrator, ...] = (
    EULER, HEUN, SIMPSON, RUNGE_KUTTA, SYMPLECTIC_EULER, LEAPFROG, TRAPEZOID, HERMITE_SIMPSON,
    GAUSS_LEGENDRE, RADAU, CVODES)
PAPER_VARIANTS = {"leapfrog_printed": "dynident.papers.leapfrog_printed:LEAPFROG_PRINTED"}  # loaded when asked for
OF_CHOSEN_DEGREE = {"gauss_legendre": gauss_legendre, "radau": radau}
HIGHEST_DEGREE = 7  # beyond it the weights lose digits, and nobody needs the order


def integrator_named(name: str, degree: int | None = None) -> Integrator:
    """The integrator of that name, or an error that lists them; `degree` for schemes that come in several."""
    if degree is not None:
        if name not in OF_CHOSEN_DEGREE:
            raise ProblemError(f"'{name}' has no degree to choose; {' and '.join(OF_CHOSEN_DEGREE)} have.")
        if isinstance(degree, bool) or not isinstance(degree, (int, np.integer)) or not 1 <= degree <= HIGHEST_DEGREE:
            raise ProblemError(f"degree = {degree!r}; use 1 to {HIGHEST_DEGREE}.")
        return OF_CHOSEN_DEGREE[name](degree)
    for integrator in INTEGRATORS:
        if integrator.name == name:
            return integrator
    for variant, place in PAPER_VARIANTS.items():
        if variant == name:
            return resolve_name(place)
    known = [*(i.name for i in INTEGRATORS), *PAPER_VARIANTS]
    raise ProblemError(f"There is no integrator '{name}'.{did_you_mean(name, known)}")
