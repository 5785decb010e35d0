"""Result: what does the solution of a boundary value problem hold?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dynident._util import hooks
from dynident._util.data_classes import short_text
from dynident.boundary.solve_bvp.root_finding import RootIteration
from dynident.errors import ProblemError
from dynident.status import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def polynomials(points: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(at, points) values of the Lagrange polynomials on `points`."""
    values = np.ones((at.size, points.size), order="F")
    for j, own in enumerate(points.tolist()):
        for k, other in enumerate(points.tolist()):
            if k != j:
                values[:, j] *= (at - other) / (own - other)
    return values


def interpolated(time: np.ndarray, fractions: np.ndarray, inside: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(at, states): in each segment the polynomial through its known states, `inside` (segments, fractions, states)."""
    segment = np.clip(np.searchsorted(time, at, side="right") - 1, 0, len(time) - 2)
    within = (at - time[segment]) / (time[segment + 1] - time[segment])
    return np.einsum("ij,ijn->in", polynomials(fractions, within), inside[segment])


@dataclass(frozen=True)
class Round:
    """One solve on one mesh."""

    solver: str
    nodes: int
    iterations: int
    jacobians: int
    converged: bool
    error: float  # estimated, in typical sizes; nan where the solve did not converge
    growth: float  # largest growth of a change over one segment
    why: str  # what led to this round


@dataclass(frozen=True, eq=False)
class BoundarySolution:
    """The solution of a boundary value problem at the nodes, between them (call it with times), and how it was found.

    Where `converged` is False, values are those of the best point that was found, and solve nothing. See the manual,
    methods/solve_bvp.

    Attributes
    ----------
    time : array, (nodes,)
        The nodes.
    values : array, (nodes, states)
        The solution there.
    names : tuple of str
        Of the states.
    parameters : mapping of str to float
        Unknown parameters that were found.
    converged : bool
        Whether the tolerance was met.
    status : str
        How it ended, a sentence; its `code` says the same to a program.
    code : int
        0, or the number of Table 6.1 of the thesis.
    error : float
        Estimated global error, largest over time and states, in typical magnitudes.
    tolerance : float
        What was asked for.
    scale : mapping of str to float
        Typical magnitude of each state and parameter.
    condition : float
        Condition number: how far the solution moves per unit change of a boundary condition.
    history : tuple of RootIteration
        Every iteration of every round.
    rounds : tuple of Round
        One solve per mesh.
    evaluations : int
        Of the rate.
    warnings : tuple of str
        What the reader must know beside the numbers, as sentences.
    output_time : array
        Times that were asked for.
    fractions : array
        Where in a segment the states of `inside` lie.
    inside : array, (segments, fractions, states)
        Through which polynomials interpolate.
    seconds : float
        That it took.

    Examples
    --------
    >>> import dynident as di
    >>> solution = di.solve_bvp(lambda t, y: [y[1], -y[0]], lambda a, b: [a[0], b[0] - 1], [0, 1], guess=[0.5, 1])
    >>> print(solution.converged, f"{solution(0.5)[0]:.4f}")
    True 0.5697
    """

    time: np.ndarray  # (nodes,)
    values: np.ndarray  # (nodes, states)
    names: tuple[str, ...]
    parameters: Mapping[str, float]
    converged: bool
    status: Status  # a sentence
    code: int  # 0, or the number of Table 6.1 of the thesis
    error: float  # estimated global error, largest over time and states, in typical sizes
    tolerance: float
    scale: Mapping[str, float]  # typical size of each state and parameter
    condition: float  # how far the solution moves per unit change of a condition at the ends
    history: tuple[RootIteration, ...]  # every iteration of every round
    rounds: tuple[Round, ...]
    evaluations: int
    warnings: tuple[str, ...] = ()
    output_time: np.ndarray = field(default_factory=lambda: np.zeros(0))
    fractions: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0]), repr=False)
    inside: np.ndarray = field(default_factory=lambda: np.zeros((0, 2, 0)), repr=False)  # (segments, fractions, states)
    seconds: float = 0.0

    @property
    def iterations(self) -> int:
        """Of all rounds."""
        return len(self.history)

    @property
    def jacobians(self) -> int:
        """Of all rounds."""
        return sum(each.jacobians for each in self.rounds)

    @property
    def states(self) -> Mapping[str, np.ndarray]:
        """Values at the nodes, by name."""
        return {name: self.values[:, k] for k, name in enumerate(self.names)}

    @property
    def output(self) -> np.ndarray:
        """(output points, states) at the points that were asked for; they are nodes, so that nothing is interpolated."""
        return self.values[np.searchsorted(self.time, self.output_time)]

    def __call__(self, t: float | np.ndarray) -> np.ndarray:
        """(states,) at one time, (times, states) at several; accurate to the tolerance between the nodes too."""
        try:
            at = np.atleast_1d(np.asarray(t, dtype=float))
        except (TypeError, ValueError):
            raise ProblemError(f"A solution is asked at one time or at a list of times, not at {t!r}.") from None
        if at.ndim > 1:
            raise ProblemError(f"A solution is asked at one time or at a list of times, not at an array of shape {at.shape}. "
                               "Ravel it first.")
        if at.size and not (np.all(at >= self.time[0]) and np.all(at <= self.time[-1])):
            raise ProblemError(f"The solution is known from t = {self.time[0]:g} to {self.time[-1]:g}; asked for "
                               f"{np.min(at):g} to {np.max(at):g}.")
        values = interpolated(self.time, self.fractions, self.inside, at)
        return values[0] if np.ndim(t) == 0 else values

    def plot(self) -> Figure:
        """States over time with the nodes, and the length of the segments."""
        return hooks.call("boundary_figure", self)

    def plot_iterations(self) -> Figure:
        """Steps, residuals, damping factors and new Jacobians of every iteration."""
        return hooks.call("iterations_figure", self.history)

    def __repr__(self) -> str:
        return short_text(self)

    def __str__(self) -> str:
        return str(hooks.call("boundary_text", self))
