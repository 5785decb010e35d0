"""What can go wrong, in the user's words."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate


class DynidentError(Exception):
    """Any error that dynident raises on purpose; its text is a sentence for the user.

    See the manual, howto/convergence.

    Examples
    --------
    >>> import dynident as di
    >>> try:
    ...     di.Gaussian(std=-1)
    ... except di.DynidentError as error:
    ...     print(error)
    Gaussian(std) must be positive and finite; it is -1. Leave it out to have it estimated.
    """


class ProblemError(DynidentError):
    """The input is wrong; everything that was found is listed at once.

    See the manual, howto/check.

    Parameters
    ----------
    faults : str or sequence of str
        What is wrong, each as one sentence; kept as the tuple `faults`.

    Examples
    --------
    >>> import dynident as di
    >>> try:
    ...     di.EquationModel(states={"x": "-k*x^2"})
    ... except di.ProblemError as error:
    ...     print(len(error.faults), "fault")
    1 fault
    """

    def __init__(self, faults: str | Sequence[str]):
        self.faults: tuple[str, ...] = (faults,) if isinstance(faults, str) else tuple(faults)
        lines = self.faults if len(self.faults) == 1 else [f"- {fault}" for fault in self.faults]
        head = [] if len(self.faults) == 1 else [f"{len(self.faults)} faults:"]
        super().__init__("\n".join([*head, *lines]))


class StartDiverged(ProblemError):
    """The model is not finite at the start values, or where a search began again, so that nothing can be searched from there.

    One of several starts that ends so has the status code `start_diverged`. See the manual, howto/convergence.

    Parameters
    ----------
    faults : str or sequence of str
        What is not finite, with the values, and the way out.
    lost : bool, default False
        The simulation crashed or hung: other values would do so again, and are not tried.

    Examples
    --------
    >>> import dynident as di
    >>> growth = di.EquationModel(states={"x": "a*x**3"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.9, 0.8, 0.7]}, initial={"x": 1.0})
    >>> problem = di.Problem(growth, [record], [di.Parameter("a", start=60)])
    >>> try:
    ...     di.identify(problem, di.single_shooting())
    ... except di.StartDiverged:
    ...     print("choose other start values")
    choose other start values
    """

    def __init__(self, faults: str | Sequence[str], lost: bool = False):
        super().__init__(faults)
        self.lost = lost


def sentences_of(error: DynidentError) -> tuple[str, ...]:
    """What is wrong, a sentence each."""
    return error.faults if isinstance(error, ProblemError) else (str(error),)


class NotSupported(DynidentError):
    """The request makes sense, but not for this combination of model, data and method.

    See the manual, reference/tables.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1)], constraints=["x <= 2"])
    >>> try:
    ...     di.identify(problem, di.single_shooting())
    ... except di.NotSupported:
    ...     print("bounds of states need full_discretization()")
    bounds of states need full_discretization()
    """


class SimulatorLost(DynidentError):
    """The model cannot be simulated any more, whatever the values; who searches ends with the best point so far."""


class SimulationDiverged(DynidentError):
    """A simulation left the finite numbers; a trial point of a solver is rejected for it.

    `lost`: it crashed or hung, and other step lengths at the same values are not worth another try.
    """

    def __init__(self, time: float, node: int, detail: str = "", what: str = "the simulation is no longer finite",
                 lost: bool = False):
        self.time, self.node, self.detail, self.what, self.lost = time, node, detail, what, lost
        super().__init__(f"{what}{f' at t = {time:g}' if math.isfinite(time) else ''}{detail}")

    def within(self, record: str) -> SimulationDiverged:
        """The same with the name of the record in which it happened."""
        return SimulationDiverged(self.time, self.node, f"{self.detail} in '{record}'", self.what, self.lost)

    def __reduce__(self) -> tuple:  # comes back from other processes
        return SimulationDiverged, (self.time, self.node, self.detail, self.what, self.lost)


class NotConverged(DynidentError):
    """The fit ended without reaching an optimum; the best point found is attached.

    See the manual, howto/convergence.

    Parameters
    ----------
    message : str
        Why it ended, as a sentence.
    estimate : Estimate, optional
        The best point found, with `converged` False.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=5)])
    >>> try:
    ...     di.identify(problem, di.single_shooting(max_iterations=1))
    ... except di.NotConverged as stopped:
    ...     print(stopped.estimate.converged)
    False
    """

    def __init__(self, message: str, estimate: Estimate | None = None):
        super().__init__(message)
        self.estimate = estimate


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as ' Did you mean 'mass'?', or the list of known names, or nothing."""
    known = [str(k) for k in known]
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    if not close:
        lower = {k.lower(): k for k in known}
        close = [lower[str(name).lower()]] if str(name).lower() in lower else []
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" Known: {', '.join(known)}." if known else ""
