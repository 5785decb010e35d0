"""Run: output error first, then the likelihood of the innovations, then total least squares where a sensor of an input errs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from dynident.codegen import compiler
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.kalman.method import ESTIMATE
from dynident.kalman.prediction_error.firm_constraints import FirmConstraints
from dynident.kalman.prediction_error.method import PredictionError
from dynident.kalman.prediction_error.restricted import RestrictedLikelihood
from dynident.kalman.prediction_error.result import build_prediction_estimate, whitened_innovations
from dynident.kalman.prediction_error.scoring import (
    TOTAL_LEAST_SQUARES,
    ScoringState,
    evaluate,
    inverse_information,
    minimise,
)
from dynident.kalman.prediction_error.setup import PredictionSetup, build_prediction
from dynident.kalman.step_choice import prediction_steps
from dynident.methods.noise_estimation import signal_std
from dynident.methods.presets import method_from
from dynident.models.augmented import disturbed_states
from dynident.problem.problem import Problem
from dynident.statistics.quantisation import quantisers_of
from dynident.statistics.residual_statistics import autoregression_std, practically_white
from dynident.statistics.residual_tests import whiteness
from dynident.status import StatusCode
from dynident.tolerances import ATTENUATION, NAIVE_PREDICTION, NOISE_VANISHED

LEVELS = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # of what would explain a signal's whole spread: where the search for a noise begins
OUTPUT_LEVELS = (1.0, 0.3, 0.05)  # of the residuals of output error, which hold all noises together
HIGHEST = 1e3  # times the largest level: beyond it there is no search
FINEST_OUTPUT = 1e-3  # of the residuals of output error: no sensor's noise is estimated smaller
ROUNDS = 4  # of scoring; between them, noises that the record does not show are put to their floor
NO_WORSE = 0.05  # by which L may grow when a noise is put there
LEAST_INFORMATION = 8.0  # on the logarithm of a noise: less, and it is known to a factor of 1.4 at best
NOISE_HIDDEN = 0.1  # information on the logarithm of a noise: less, and the record does not show it at all
NOISE_STEPS = 15  # of scoring in the noises alone, before the unknowns move too

OUTPUT_ERROR, PREDICTION_ERROR, ERRORS_IN_VARIABLES = "output error", "prediction error", "errors in variables"


def stated_noise(method: PredictionError, problem: Problem) -> dict[str, float | None] | None:
    """By state or input, None where the size is open; None where nothing is said."""
    said = method.process_noise
    if isinstance(said, Mapping):
        return {name: None if value == ESTIMATE else float(value) for name, value in said.items() if value != 0}
    if said == ESTIMATE:
        return dict.fromkeys(problem.process_noise or disturbed_states(problem.model))
    if problem.process_noise:
        return {name: None if noise.std is None else float(noise.std)  # type: ignore[arg-type]
                for name, noise in problem.process_noise.items()}
    return {} if problem.noisy_inputs else None


def identify(method: PredictionError, problem: Problem, tell: Callable[..., object]) -> Estimate:
    """The estimate by the criterion that the problem states, or that its residuals ask for."""
    return after_output_error(method, problem, _output_error(method, problem, tell), tell)


def after_output_error(method: PredictionError, problem: Problem, first: Estimate, tell: Callable[..., object],
                       starts: Sequence[np.ndarray] | None = None) -> Estimate:
    """The same where output error ended at `first`; `starts` are values to begin at instead of the smoother's."""
    began, compiled = time.perf_counter(), compiler.seconds_compiling
    noise = stated_noise(method, problem)
    if first.status.code is StatusCode.INFEASIBLE_CONSTRAINTS:
        return _as_output_error(method, problem, first, "no point was found that meets all constraints")
    if enough := _output_error_is_enough(problem, noise, first):
        return _as_output_error(method, problem, first, enough)
    method, substeps, stiff = prediction_steps(method, problem, first)
    ends = [_likelihood_end(Search.of(build_prediction(problem, each, method.integrator, substeps), first), method, tell,
                            starts)
            for each in ([noise] if noise is not None else noise_candidates(problem))]
    end = min(ends, key=lambda each: (not each.found.converged, each.penalised + each.preference))
    why, better = _verdict(end, asked=noise is not None)
    if noise is None and not better:
        return _as_output_error(method, problem, first, why)
    search, found = end.search, end.search.restricted(end.found, method, tell)
    if first.converged and found.converged and search.all_vanished(found.theta):
        return _as_output_error(method, problem, first, f"maximum likelihood finds no noise in {', '.join(search.inner)}")
    found, criterion, remarks = _place(search, method, found, tell)
    remarks = [*stiff, *remarks]
    remarks += [f"Maximum likelihood finds no noise in '{name}'." for _, name in search.vanished(found.theta)]
    remarks += search.hardly_known(found)
    shift, said = _unstated_place(end, ends) if noise is None else (None, [])
    compiling = compiler.seconds_compiling - compiled
    times = {"compile": compiling, "solve": time.perf_counter() - began - compiling}
    return build_prediction_estimate(search.setup, method, found, search.lower, search.upper, criterion, why,
                                     (*said, *remarks), times, first.counts, shift)


def noise_candidates(problem: Problem) -> list[dict[str, float | None]]:
    """Where noise is looked for when nobody says: on the velocities (all states without them), and behind the inputs."""
    moving = [name for name in problem.model.inputs if any(np.ptp(e.inputs[name]) > 0 for e in problem.experiments)]
    return [dict.fromkeys(disturbed_states(problem.model)), *([dict.fromkeys(moving)] if moving else [])]


def _output_error_is_enough(problem: Problem, noise: Mapping[str, float | None] | None, first: Estimate) -> str:
    """Why nothing else than output error is asked for; empty where something is."""
    if noise is None and first.converged and explained(first):
        return (f"the residuals of output error are {explained(first)}, so that nothing asks for noise in the inputs or in the "
                "model")
    stated = noise is None or noise or problem.noisy_inputs
    return "" if stated else "no noise in the inputs or in the model is stated"


@dataclass(frozen=True, eq=False)
class LikelihoodEnd:
    """Where the likelihood led for one place of the noise."""

    search: Search
    found: ScoringState

    @property
    def penalised(self) -> float:
        """2 L with ln n for each open noise of states and inputs."""
        return 2 * self.found.at.value + self.penalty

    @property
    def preference(self) -> float:
        """What likelihoods that are alike are told apart by: noise on the states needs no question about its place."""
        return float(np.log(max(self.search.setup.measured, 2))) if self.noisy_inputs else 0.0

    @property
    def noisy_inputs(self) -> list[str]:
        return [name for place, name in self.search.setup.terms if place == "input"]

    @property
    def penalty(self) -> float:
        return len(self.search.inner) * float(np.log(max(self.search.setup.measured, 2)))


def _likelihood_end(search: Search, method: PredictionError, tell: Callable[..., object], starts: Sequence[np.ndarray] | None
                    ) -> LikelihoodEnd:
    return LikelihoodEnd(search, search.best(method, tell, starts))


def _verdict(end: LikelihoodEnd, asked: bool) -> tuple[str, bool]:
    """Whether noise in the inputs or in the model explains the record better than output error, and why."""
    search, found, inner = end.search, end.found, ", ".join(end.search.inner)
    if asked:
        return f"noise of {inner} is stated", True
    if not found.converged:
        return f"its residuals are not white, but no likelihood with noise of {inner} has an end", False
    gain = 2 * (search.without_noise().at.value - found.at.value)
    if not gain > end.penalty:
        return f"noise of {inner} explains the record no better (2 dL = {gain:.3g}, not more than {end.penalty:.3g})", False
    better = (f"the residuals of output error are not white, and noise of {inner} explains the record better "
              f"(2 dL = {gain:.3g}, more than {end.penalty:.3g})")
    if not innovations_nearly_white(search.setup, found):
        return f"{better}, but leaves innovations that are not white either: the model lacks something else", False
    if (naive := _better_by_its_own_past(search.setup, found)):
        return f"{better}, but {naive}: the model lacks something else", False
    return better, True


def _better_by_its_own_past(setup: PredictionSetup, found: ScoringState) -> str:
    """Whether an output is foreseen better by an autoregression that knows no model; if so, in words."""
    for e, experiment in enumerate(setup.problem.experiments):
        for name, y in experiment.outputs.items():
            naive = autoregression_std(np.asarray(y, float))
            innovations = found.at.innovations[e].e[:, setup.problem.model.outputs.index(name)]
            own = float(np.sqrt(np.mean(innovations[np.isfinite(y)] ** 2)))
            if own > NAIVE_PREDICTION * naive:
                return f"the past of {name} alone foresees it better (to {naive:.3g}, the model to {own:.3g})"
    return ""


def _unstated_place(end: LikelihoodEnd, ends: Sequence[LikelihoodEnd]) -> tuple[np.ndarray | None, list[str]]:
    """(unknowns,) how far the sensor of an input would move the unknowns if the noise is there, and what a user has to say.

    Only where noise of an input explains the record as well, and moves an unknown by more than does not matter.
    """
    for other in (each for each in ends if each.noisy_inputs and each.found.converged):
        if other.penalised - end.penalised > np.log(max(end.search.setup.measured, 2)):
            continue
        size, name = _attenuation(other.search.setup, other.found)
        noisy = other.noisy_inputs
        if size > ATTENUATION:
            return attenuation_shift(other.search.setup, other.found), [
                f"Nobody says whether {', '.join(noisy)} is measured. If the noise is that of its sensor, {name} is off by "
                f"{size:.2g} standard errors, and the intervals are wide enough for both. State it to narrow them: "
                f"noise={{\"{noisy[0]}\": Gaussian()}} of the experiment for the sensor, process_noise={{\"{noisy[0]}\": "
                "Gaussian()} of the problem for what acts behind it."]
    return None, []


# output error


def _output_error(method: PredictionError, problem: Problem, tell: Callable[..., object]) -> Estimate:
    integrator = method.integrator if method.chooses_integrator else method.simulation_integrator
    shooting = method_from({"kind": "multiple_shooting", "integrator": integrator, "substeps": method.substeps})
    return shooting.identify(problem.with_output_noise_only(), None, tell)


def _as_output_error(method: PredictionError, problem: Problem, first: Estimate, why: str) -> Estimate:
    """Where there is no other noise, answer and cost are those of output error."""
    return replace(first, problem=problem, method=method, criterion=OUTPUT_ERROR,
                   notes=(f"Criterion: output error, because {why}.", *first.notes))


def explained(estimate: Estimate) -> str:
    """What the residuals of output error are, where it explains them without other noise: white, or those of rounding."""
    rounded = quantisers_of(estimate.problem, estimate.residuals)
    outputs = estimate.problem.model.outputs
    coloured = [(e, name) for e, record in enumerate(estimate.residuals) for name, series in record.items()
                if np.any(np.isfinite(series)) and not whiteness(np.asarray(series)).passed]
    if not coloured:
        return "white"
    rounding = all((e, outputs.index(name)) in rounded for e, name in coloured)
    return "no more than what the steps of the sensor make" if rounding else ""


# the likelihood


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
        floor = typical * np.where(outputs, FINEST_OUTPUT, NOISE_VANISHED * LEVELS[0])
        ceiling = typical * np.where(outputs, 10.0, HIGHEST * LEVELS[-1])
        unknowns = setup.problem.unknowns
        lower, upper = (setup.coordinates(np.array([getattr(u, side) for u in unknowns])) for side in ("lower", "upper"))
        lower = np.where([u.log and not u.lower > 0 for u in unknowns], -np.inf, lower)
        values = np.array([first.values[name] for name in setup.problem.names])
        if setup.problem.constraints:
            begin = np.concatenate([setup.coordinates(values), np.log(np.maximum(typical, floor))])
            n, covariance = setup.unknowns, inverse_information(evaluate(setup, begin).information)
            setup = replace(setup, held=FirmConstraints.of(setup.problem, values, covariance[:n, :n]))
        return cls(setup, values, typical, np.concatenate([lower, np.log(floor)]), np.concatenate([upper, np.log(ceiling)]))

    def best(self, method: PredictionError, tell: Callable[..., object], starts: Sequence[np.ndarray] | None = None
             ) -> ScoringState:
        """From where output error ended; where innovations are not white then, also from `starts`, or the smoother's answer."""
        ends = [self._from(self.values, method, tell)]
        if ends[0].converged and innovations_white(self.setup, ends[0]):
            return ends[0]
        ends += [self._from(values, method, tell) for values in (self._smoothed_values() if starts is None else starts)]
        return min(ends, key=lambda state: (not state.converged, state.at.value))

    def _from(self, values: np.ndarray, method: PredictionError, tell: Callable[..., object]) -> ScoringState:
        setup = self.setup
        begin = min(self._grid(values), key=lambda theta: evaluate(setup, theta, derivatives=False).value)
        noises = np.arange(begin.size) >= setup.unknowns
        if np.any(noises):
            begin = minimise(setup, begin, self.lower, self.upper, noises, most=NOISE_STEPS).theta
        moving, most = np.ones(begin.size, bool), -(-method.max_iterations // ROUNDS)
        found = minimise(setup, begin, self.lower, self.upper, moving, most=most, tell=tell)
        for _ in range(ROUNDS - 1):
            if found.converged or found.stalled:
                break
            theta, moving = self._without_invisible(found, moving)
            before, found = found.history, minimise(setup, theta, self.lower, self.upper, moving, most=most, tell=tell)
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
            levels = np.concatenate([np.zeros((len(LEVELS), n)), np.log(np.outer(LEVELS, self.typical))], axis=1)
            begin = min((rule.profiled(np.clip(np.where(gone, level, found.theta), self.lower, self.upper), NOISE_STEPS)
                         for level in levels), key=rule.value)
        end = rule.minimum_from(begin.theta, np.ones(found.theta.size, bool), method.max_iterations, tell)
        return replace(end, at=evaluate(self.setup, end.theta), history=(*found.history, *end.history))

    def _without_invisible(self, found: ScoringState, moving: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Noises that the record hardly shows, held at their floor where the likelihood does not mind.

        There steps in their logarithm lead on and on and change nothing.
        """
        theta, moving = found.theta.copy(), moving.copy()
        for k in range(self.setup.unknowns, theta.size):
            if moving[k] and found.at.information[k, k] < LEAST_INFORMATION:
                without = np.where(np.arange(theta.size) == k, self.lower, theta)
                if evaluate(self.setup, without, derivatives=False).value < found.at.value + NO_WORSE:
                    theta, moving[k] = without, False
        return theta, moving

    def _grid(self, values: np.ndarray) -> list[np.ndarray]:
        outputs = np.array([place == "output" for place, _ in self.setup.open_terms], bool)
        inner = LEVELS if not np.all(outputs) else (1.0,)
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


# where the noise of an input is


def _place(search: Search, method: PredictionError, found: ScoringState, tell: Callable[..., object]
           ) -> tuple[ScoringState, str, list[str]]:
    """The point by the criterion that fits the place of the inputs' noise: a sensor's error asks for total least squares."""
    setup = search.setup
    noisy = [name for place, name in setup.terms if place == "input"]
    if not noisy or not found.converged:
        return found, PREDICTION_ERROR, []
    size, name = _attenuation(setup, found)
    sensors = [name for name in noisy if name in setup.problem.noisy_inputs]
    if not size > ATTENUATION:
        return found, PREDICTION_ERROR, [f"Whether the noise of {', '.join(noisy)} is that of its sensor or acts behind it "
                                         f"moves no unknown by more than {size:.2g} standard errors."]
    if not sensors:
        return found, PREDICTION_ERROR, [
            f"The noise of {', '.join(noisy)} is taken to act behind the input. Were it that of its sensor, {name} would be "
            f"off by {size:.2g} standard errors: then say it in the experiment, noise={{\"{noisy[0]}\": Gaussian(...)}}."]
    moving = np.arange(found.theta.size) < setup.unknowns
    exact = minimise(setup, found.theta, search.lower, search.upper, moving, TOTAL_LEAST_SQUARES, method.max_iterations, tell)
    remark = (f"The error of the sensor of {', '.join(sensors)} matters: treated as a disturbance it would move {name} by "
              f"{size:.2g} standard errors (attenuation), so that the unknowns are those of dynamic total least squares.")
    return replace(exact, history=(*found.history, *exact.history)), ERRORS_IN_VARIABLES, [remark]


def _attenuation(setup: PredictionSetup, found: ScoringState) -> tuple[float, str]:
    """By how many standard errors the place of an input's noise moves an unknown, and which one: the most."""
    n, shift = setup.unknowns, attenuation_shift(setup, found)
    std = np.sqrt(np.maximum(np.diag(inverse_information(found.at.information))[:n], np.finfo(float).tiny))
    worst = int(np.argmax(np.abs(shift) / std))
    return float(abs(shift[worst]) / std[worst]), setup.problem.names[worst]


def attenuation_shift(setup: PredictionSetup, found: ScoringState) -> np.ndarray:
    """(unknowns,) in coordinates: how far the likelihood's optimum lies off where the noise is that of the inputs' sensors."""
    n = setup.unknowns
    return np.asarray(inverse_information(found.at.information[:n, :n]) @ found.at.attenuation[:n])
