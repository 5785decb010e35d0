"""ONE STEP, ONE RECORD: explicit, symplectic, implicit, adaptive, multistep; a new one is an entry there, a name here."""

from __future__ import annotations

from pkgutil import resolve_name

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.integrators.adaptive import CVODES, RADAU5
from dynident.integrators.explicit import EULER, HEUN, RUNGE_KUTTA, SIMPSON
from dynident.integrators.implicit import GAUSS_LEGENDRE, HERMITE_SIMPSON, RADAU, TRAPEZOID, gauss_legendre, radau
from dynident.integrators.multistep import ADAMS_MOULTON, BDF2
from dynident.integrators.rosenbrock import ROSENBROCK
from dynident.integrators.scheme import AnyIntegrator, Integrator, Multistep
from dynident.integrators.symplectic import LEAPFROG, SYMPLECTIC_EULER

INTEGRATORS: tuple[Integrator, ...] = (
    EULER, HEUN, SIMPSON, RUNGE_KUTTA, SYMPLECTIC_EULER, LEAPFROG, TRAPEZOID, HERMITE_SIMPSON,
    GAUSS_LEGENDRE, RADAU, RADAU5, CVODES)
FILTER_STEPS: tuple[Integrator, ...] = (ROSENBROCK,)  # formulas that only filters ask for
MULTISTEP: tuple[Multistep, ...] = (BDF2, ADAMS_MOULTON)  # for full discretization alone
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
    for integrator in (*INTEGRATORS, *FILTER_STEPS):
        if integrator.name == name:
            return integrator
    for variant, place in PAPER_VARIANTS.items():
        if variant == name:
            return resolve_name(place)
    if name in (scheme.name for scheme in MULTISTEP):
        raise ProblemError(f"'{name}' reaches back over two steps, which only full discretization has at hand; use "
                           f'full_discretization(integrator="{name}"), or a one-step scheme here.')
    known = [*(i.name for i in (*INTEGRATORS, *FILTER_STEPS)), *PAPER_VARIANTS]
    raise ProblemError(f"There is no integrator '{name}'.{did_you_mean(name, known)}")


def discretization_scheme(name: str, degree: int | None = None) -> AnyIntegrator:
    """For full discretization: multistep schemes too."""
    known = {scheme.name: scheme for scheme in MULTISTEP}
    return known[name] if isinstance(name, str) and name in known and degree is None else integrator_named(name, degree)
