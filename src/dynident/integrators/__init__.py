"""ONE STEP IN TIME: the schemes, each in a file of its own; adding one is a file and a line here."""

from __future__ import annotations

from dynident.errors import ProblemError, did_you_mean
from dynident.integrators.cvodes import CVODES
from dynident.integrators.euler import EULER
from dynident.integrators.heun import HEUN
from dynident.integrators.leapfrog import LEAPFROG
from dynident.integrators.radau import RADAU
from dynident.integrators.runge_kutta import RUNGE_KUTTA
from dynident.integrators.scheme import Integrator
from dynident.integrators.simpson import SIMPSON
from dynident.integrators.symplectic_euler import SYMPLECTIC_EULER
from dynident.integrators.trapezoid import TRAPEZOID

INTEGRATORS: tuple[Integrator, ...] = (
    EULER, HEUN, SIMPSON, RUNGE_KUTTA, SYMPLECTIC_EULER, LEAPFROG, TRAPEZOID, RADAU, CVODES)


def integrator_named(name: str) -> Integrator:
    """The integrator of that name, or an error that lists them."""
    for integrator in INTEGRATORS:
        if integrator.name == name:
            return integrator
    raise ProblemError(f"There is no integrator '{name}'.{did_you_mean(name, [i.name for i in INTEGRATORS])}")
