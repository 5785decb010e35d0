"""Search: from which values and noise levels the maximum of the likelihood is looked for, and within which bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.kalman.prediction_error.firm_constraints import FirmConstraints
from dynident.kalman.prediction_error.method import PredictionError
from dynident.kalman.prediction_error.other_ends import starts_beyond
from dynident.kalman.prediction_error.restricted import RestrictedLikelihood
from dynident.kalman.prediction_error.result import whitened_innovations
from dynident.kalman.prediction_error.scoring import ScoringState, evaluate, inverse_information, minimise
from dynident.kalman.prediction_error.setup import PredictionSetup
from dynident.methods.noise_estimation import signal_std
from dynident.methods.presets import method_from
from dynident.statistics.residual_statistics import practically_white
from dynident.statistics.residual_tests import whiteness
from dynident.tolerances import NOISE_VANISHED

FIRST_NOISE_LEVELS = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # of what would explain a signal's whole spread: first noises
OUTPUT_LEVELS = (1.0, 0.3, 0.05)  # of the residuals of output error, which hold all noises together
HIGHEST = 1e3  # times the largest level: beyond it there is no search
FINEST_OUTPUT = 1e-3  # of the residuals of output error: no sensor's noise is estimated smaller
SCORING_ROUNDS = 4  # of scoring; between them, noises that the record does not show are put to their floor
NO_WORSE = 0.05  # by which L may grow when a noise is put there
LEAST_INFORMATION = 8.0  # on the logarithm of a noise: less, and it is known to a factor of 1.4 at best
NOISE_HIDDEN = 0.1  # information on the logarithm of a noise: less, and the record does not show it at all
NOISE_STEPS = 15  # of scoring in the noises alone, before the unknowns move too


@dataclass(frozen=True, eq=False)
class Search:
    """From where, and within which bounds, the likelihood is searched."""

    setup: PredictionSetup
    values: np.ndarray  # (unknowns,) where output error ended
    typical: np.ndarray  # (open noises,) that would explain all that a signal does, or the residuals of an output
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, setup: PredictionSetup, first: Estimate) -> Search:
        typical = np.array([_typical(setup, first, *term) for term in setup.open_terms])
        outputs = np.array([place == "output" for place, _ in setup.open_terms], bool)
        floor = typical * np.where(outputs, FINEST_OUTPUT, NOISE_VANISHED * FIRST_NOISE_LEVELS[0])
        ceiling = typical * np.where(outputs, 10.0, HIGHEST * FIRST_NOISE_LEVELS[-1])
        unknowns = setup.problem.unknowns
        lower, upper = (setup.coordinates(np.array([getattr(u, side) for u in unknowns])) for side in ("lower", "upper"))
        lower = np.where([u.log and not u.lower > 0 for u in unknowns], -np.inf, lower)
        values = np.array([first.values[name] for name in setup.problem.names])
        if setup.problem.constraints:
            begin = np.concatenate([setup.coordinates(values), np.log(np.maximum(typical, floor))])
            n, covariance = setup.unknowns, inverse_information(evaluate(setup, begin).information)
            setup = replace(setup, held=FirmConstraints.of(setup.problem, values, covariance[:n, :n]))
        return cls(setup, values, typical, np.concatenate([lower, np.log(floor)]), np.concatenate([upper, np.log(ceiling)]))

    def ends(self, method: PredictionError, tell: Callable[..., object], starts: Sequence[np.ndarray] | None = None
             ) -> list[ScoringState]:
        """Where the search ends, the best first: begun where output error ended; where innovations are not white then, also at
        `starts`, or the smoother's answer; and beyond the ridges of the likelihood beside the best of these."""
        found = [self._from(self.values, method, tell)]
        if not (found[0].converged and innovations_white(self.setup, found[0])):
            found += [self._from(values, method, tell) for values in (self._smoothed_values() if starts is None else starts)]
        best = min(found, key=_rank)
        beyond = starts_beyond(self.setup, best, self.lower, self.upper)
        return sorted([*found, *(self._scored(theta, method, tell) for theta in beyond)], key=_rank)

    def _at_best_levels(self, values: np.ndarray) -> np.ndarray:
        """These values with noises that suit them."""
        begin = min(self._grid(values), key=lambda theta: evaluate(self.setup, theta, derivatives=False).value)
        noises = np.arange(begin.size) >= self.setup.unknowns
        if not np.any(noises):
            return begin
        return minimise(self.setup, begin, self.lower, self.upper, noises, most=NOISE_STEPS).theta

    def _from(self, values: np.ndarray, method: PredictionError, tell: Callable[..., object]) -> ScoringState:
        return self._scored(self._at_best_levels(values), method, tell)

    def _scored(self, begin: np.ndarray, method: PredictionError, tell: Callable[..., object]) -> ScoringState:
        moving, most = np.ones(begin.size, bool), -(-method.max_iterations // SCORING_ROUNDS)
        found = minimise(self.setup, begin, self.lower, self.upper, moving, most=most, tell=tell)
        for _ in range(SCORING_ROUNDS - 1):
            if found.converged or found.stalled:
                break
            theta, moving = self._without_invisible(found, moving)
            before, found = found.history, minimise(self.setup, theta, self.lower, self.upper, moving, most=most, tell=tell)
            found = replace(found, history=(*before, *found.history))
        return found

    def restricted(self, found: ScoringState, method: PredictionError, tell: Callable[..., object]) -> ScoringState:
        """By the restricted likelihood, from the likelihood's end; a noise that vanished there begins at a level that shows."""
        n = self.setup.unknowns
        if not found.converged or not self.setup.open_terms:
            return found
        rule = RestrictedLikelihood.of(self.setup, self.lower, self.upper)
        hidden = (found.theta <= self.lower) | (np.diag(found.at.information) < NOISE_HIDDEN)
        gone = hidden & (np.arange(found.theta.size) >= n)
        begin = found
        if np.any(gone):
            first = np.log(np.outer(FIRST_NOISE_LEVELS, self.typical))
            levels = np.concatenate([np.zeros((len(FIRST_NOISE_LEVELS), n)), first], axis=1)
            begin = min((rule.profiled(np.clip(np.where(gone, level, found.theta), self.lower, self.upper), NOISE_STEPS)
                         for level in levels), key=rule.value)
        end = rule.minimum_from(begin.theta, np.ones(found.theta.size, bool), method.max_iterations, tell)
        return replace(end, at=evaluate(self.setup, end.theta), history=(*found.history, *end.history))

    def _without_invisible(self, found: ScoringState, moving: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Noises that the record hardly shows, held at their floor where the likelihood does not mind.

        There steps in their logarithm lead on and on and change nothing. The others follow: a free initial state meets the
        first sample the closer, the less that errs.
        """
        theta, value = found.theta, found.at.value + NO_WORSE
        for k in range(self.setup.unknowns, theta.size):
            if moving[k] and found.at.information[k, k] < LEAST_INFORMATION:
                others = moving & (np.arange(theta.size) != k)
                floor = np.where(np.arange(theta.size) == k, self.lower, theta)
                without = minimise(self.setup, floor, self.lower, self.upper, others, most=NOISE_STEPS)
                if without.at.value < value:
                    theta, moving = without.theta, others
        return theta, moving

    def _grid(self, values: np.ndarray) -> list[np.ndarray]:
        outputs = np.array([place == "output" for place, _ in self.setup.open_terms], bool)
        inner = FIRST_NOISE_LEVELS if not np.all(outputs) else (1.0,)
        points = []
        for level, share in product(inner, OUTPUT_LEVELS if np.any(outputs) else (1.0,)):
            sizes = self.typical * np.where(outputs, share, level)
            theta = np.concatenate([self.setup.coordinates(values), np.log(sizes)])
            points.append(np.clip(theta, self.lower, self.upper))
        return points

    def _smoothed_values(self) -> list[np.ndarray]:
        try:
            plain = self.setup.problem.with_output_noise_only()
            estimate = method_from("boundary_value").identify(plain, None, lambda _: None)
        except DynidentError:
            return []
        values = np.array([estimate.values[name] for name in self.setup.problem.names])
        return [values] if np.all(np.isfinite(values)) else []

    def without_noise(self) -> ScoringState:
        """The likelihood of output error: process noise at its floor."""
        theta = np.clip(np.concatenate([self.setup.coordinates(self.values), np.log(self.typical)]), self.lower, self.upper)
        held = np.array([False] * self.setup.unknowns + [place != "output" for place, _ in self.setup.open_terms], bool)
        theta[held] = self.lower[held]
        return minimise(self.setup, theta, self.lower, self.upper, ~held, most=NOISE_STEPS)

    def hardly_known(self, found: ScoringState) -> list[str]:
        """Outputs whose noise is open and next to invisible beside what disturbs the model."""
        n, names = self.setup.unknowns, []
        for k, (place, name) in enumerate(self.setup.open_terms, n):
            if place == "output" and (found.theta[k] <= self.lower[k] or found.at.information[k, k] < LEAST_INFORMATION):
                names.append(name)
        return [f"The record hardly tells the noise of {', '.join(names)} beside what disturbs the model; intervals of initial "
                "states rest on the value found. Give it, Gaussian(std), where you know it."] if names else []

    @property
    def inner(self) -> tuple[str, ...]:
        """Names of the states and inputs with noise."""
        return tuple(name for place, name in self.setup.terms if place != "output")

    def all_vanished(self, theta: np.ndarray) -> bool:
        return len(self.vanished(theta)) == len(self.inner)

    def vanished(self, theta: np.ndarray) -> list[tuple[str, str]]:
        """Noises of states and inputs that ended at their floor."""
        n = self.setup.unknowns
        return [(place, name) for k, (place, name) in enumerate(self.setup.open_terms)
                if place != "output" and theta[n + k] <= self.lower[n + k]]


def _rank(state: ScoringState) -> tuple[bool, float]:
    return not state.converged, state.at.value


def _typical(setup: PredictionSetup, first: Estimate, place: str, name: str) -> float:
    problem = setup.problem
    if place == "output":
        return float(first.noise_std.get(name) or signal_std(problem, name))
    if place == "input":
        spread = max(float(np.std(e.inputs[name])) or float(np.max(np.abs(e.inputs[name]))) for e in problem.experiments)
        return spread or 1.0
    courses = [(t.states[name], float(t.time[-1] - t.time[0])) for t in first.trajectories]
    sizes = [float(np.nanstd(x) or np.nanmax(np.abs(x))) / np.sqrt(span) for x, span in courses if span > 0]
    return max(sizes, default=1.0) or 1.0


def innovations_white(setup: PredictionSetup, found: ScoringState) -> bool:
    return all(whiteness(series).passed for record in whitened_innovations(setup, found) for series in record.T
               if np.any(np.isfinite(series)))


def innovations_nearly_white(setup: PredictionSetup, found: ScoringState) -> bool:
    """Whether the past says next to nothing about an innovation; a test at any length would find what rounding leaves."""
    return all(practically_white(series) for record in whitened_innovations(setup, found) for series in record.T
               if np.any(np.isfinite(series)))
