"""Run: output error first, then the likelihood of the innovations, then total least squares where a sensor of an input errs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.codegen import compiler
from dynident.errors import NotSupported
from dynident.estimate.estimate import Estimate
from dynident.kalman.method import ESTIMATE
from dynident.kalman.prediction_error.method import PredictionError
from dynident.kalman.prediction_error.other_ends import rivals
from dynident.kalman.prediction_error.result import build_prediction_estimate
from dynident.kalman.prediction_error.scoring import TOTAL_LEAST_SQUARES, ScoringState, inverse_information, minimise
from dynident.kalman.prediction_error.search import Search, innovations_nearly_white
from dynident.kalman.prediction_error.setup import PredictionSetup, build_prediction
from dynident.kalman.step_choice import prediction_steps
from dynident.methods.presets import method_from
from dynident.models.augmented import disturbed_states
from dynident.problem.problem import Problem
from dynident.statistics.quantisation import quantisers_of
from dynident.statistics.residual_statistics import autoregression_std
from dynident.statistics.residual_tests import whiteness
from dynident.status import StatusCode
from dynident.tolerances import ATTENUATION, NAIVE_PREDICTION

OUTPUT_ERROR, PREDICTION_ERROR, ERRORS_IN_VARIABLES = "output error", "prediction error", "errors in variables"


@dataclass(frozen=True)
class SearchLimits:
    """What a search may cost where nobody asked for it."""

    rows: float  # samples times sub-steps; with more it is not begun
    passes: float  # of the filter with derivatives, for each place of the noise; then it ends where it is


class TooManyRows(NotSupported):
    """A search that was limited would pass through more samples times sub-steps than it may."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"{rows:,} samples times sub-steps are more than this search was given.")
        self.rows = rows


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
                       starts: Sequence[np.ndarray] | None = None, most: SearchLimits | None = None) -> Estimate:
    """The same where output error ended at `first`; `starts` are values to begin at instead of the smoother's."""
    began, compiled = time.perf_counter(), compiler.seconds_compiling
    noise = stated_noise(method, problem)
    if first.status.code is StatusCode.INFEASIBLE_CONSTRAINTS:
        return _as_output_error(method, problem, first, "no point was found that meets all constraints")
    if enough := _output_error_is_enough(problem, noise, first):
        return _as_output_error(method, problem, first, enough)
    method, stiff, ends = _likelihood_ends(method, problem, first, noise, tell, starts, most)
    first = _with_passes(first, [each.search.setup.passes for each in ends])
    end = _likeliest(ends)
    why, better = _verdict(end, asked=noise is not None)
    if noise is None and not better:
        return _as_output_error(method, problem, first, why)
    search = replace(end.search, setup=replace(end.search.setup, most_passes=np.inf))  # what was found is brought to its end
    found = search.restricted(end.found, method, tell)
    if first.converged and found.converged and search.all_vanished(found.theta):
        return _as_output_error(method, problem, first, f"maximum likelihood finds no noise in {', '.join(search.inner)}")
    found, criterion, place = _place(search, method, found, tell)
    remarks = [*stiff, *(f"Maximum likelihood finds no noise in '{name}'." for _, name in search.vanished(found.theta))]
    remarks += search.hardly_known(found)
    shifts, said = _unstated_place(end, ends) if noise is None else ([], [])
    why = why if said or not place else f"{why}; {place}"  # where the noise of an input is, is said once
    elsewhere, rival = rivals(search.setup, end.found, end.others)
    compiling = compiler.seconds_compiling - compiled
    times = {"compile": compiling, "solve": time.perf_counter() - began - compiling}
    return build_prediction_estimate(search.setup, method, found, search.lower, search.upper, criterion, why,
                                     (*said, *rival, *remarks), times, first.counts, (*shifts, *elsewhere))


def what_noise_does_not_explain(method: PredictionError, part: Problem, first: Estimate, tell: Callable[..., object],
                                starts: Sequence[np.ndarray] | None, most: SearchLimits) -> tuple[str, Mapping[str, int]]:
    """Of a part of a record: why noise of states or inputs is not all that its model lacks, empty where it may be; the passes.

    What the model lacks in a part it lacks in the whole; a part that noise explains says nothing of the rest.
    """
    if stated_noise(method, part) is not None or _output_error_is_enough(part, None, first):
        return "", {}
    method, _, ends = _likelihood_ends(method, part, first, None, tell, starts, most)
    end = _likeliest(ends)
    passes = [each.search.setup.passes for each in ends]
    return (_lack(end) if end.found.converged and end.gain > end.penalty else ""), {
        key: sum(own[key] for own in passes) for key in ("simulations", "jacobians")}


def _likelihood_ends(method: PredictionError, problem: Problem, first: Estimate, noise: Mapping[str, float | None] | None,
                     tell: Callable[..., object], starts: Sequence[np.ndarray] | None, most: SearchLimits | None
                     ) -> tuple[PredictionError, list[str], list[LikelihoodEnd]]:
    """Where the likelihood leads for each place of the noise, with the method as it integrates, and what to say of that."""
    method, substeps, stiff = prediction_steps(method, problem, first)
    rows = sum(experiment.samples for experiment in problem.experiments) * substeps  # all outputs of a sample in one pass
    if most is not None and rows > most.rows:
        raise TooManyRows(rows)
    passes = np.inf if most is None else most.passes
    setups = [replace(build_prediction(problem, each, method.integrator, substeps), most_passes=passes)
              for each in ([noise] if noise is not None else noise_candidates(problem))]
    return method, list(stiff), [_likelihood_end(Search.of(each, first), method, tell, starts) for each in setups]


def _likeliest(ends: Sequence[LikelihoodEnd]) -> LikelihoodEnd:
    return min(ends, key=lambda each: (not each.found.converged, each.penalised + each.preference))


def noise_candidates(problem: Problem) -> list[dict[str, float | None]]:
    """Where noise is looked for when nobody says: on the velocities (all states without them), and behind the inputs."""
    moving = [name for name in problem.model.inputs if any(np.ptp(e.inputs[name]) > 0 for e in problem.experiments)]
    return [dict.fromkeys(names) for names in (disturbed_states(problem.model), moving) if names]


def _output_error_is_enough(problem: Problem, noise: Mapping[str, float | None] | None, first: Estimate) -> str:
    """Why nothing else than output error is asked for; empty where something is."""
    if noise is None and first.converged and explained(first):
        return (f"the residuals of output error {explained(first)}, so that nothing asks for noise in the inputs or in the "
                "model")
    if noise is None and not noise_candidates(problem):
        return "there is neither a state nor an input that moves, on which other noise could act"
    stated = noise is None or noise or problem.noisy_inputs
    return "" if stated else "no noise in the inputs or in the model is stated"


@dataclass(frozen=True, eq=False)
class LikelihoodEnd:
    """Where the likelihood led for one place of the noise."""

    search: Search
    found: ScoringState
    others: Sequence[ScoringState]  # ends elsewhere

    @property
    def penalised(self) -> float:
        """2 L with ln n for each open noise of states and inputs."""
        return 2 * self.found.at.value + self.penalty

    @property
    def preference(self) -> float:
        """What likelihoods that are alike are told apart by: noise on the states needs no question about its place."""
        return float(np.log(max(self.search.setup.measured, 2))) if self.noisy_inputs else 0.0

    @property
    def gain(self) -> float:
        """Twice the logarithm of likelihood that the noise brings."""
        return 2 * (self.search.without_noise().at.value - self.found.at.value)

    @property
    def noisy_inputs(self) -> list[str]:
        return [name for place, name in self.search.setup.terms if place == "input"]

    @property
    def penalty(self) -> float:
        return len(self.search.inner) * float(np.log(max(self.search.setup.measured, 2)))


def _likelihood_end(search: Search, method: PredictionError, tell: Callable[..., object], starts: Sequence[np.ndarray] | None
                    ) -> LikelihoodEnd:
    found, *others = search.ends(method, tell, starts)
    return LikelihoodEnd(search, found, others)


def _verdict(end: LikelihoodEnd, asked: bool) -> tuple[str, bool]:
    """Whether noise in the inputs or in the model explains the record better than output error, and why."""
    search, found, inner = end.search, end.found, ", ".join(end.search.inner)
    if asked:
        return f"noise of {inner} is stated", True
    if not found.converged and search.setup.spent:
        return (f"its residuals are not white, but the search for noise of {inner} was ended after "
                f"{search.setup.most_passes:.0f} passes of the filter with derivatives, before it had an end: "
                "prediction_error() goes on to it"), False
    if not found.converged:
        return f"its residuals are not white, but no likelihood with noise of {inner} has an end", False
    if not (gain := end.gain) > end.penalty:
        return f"noise of {inner} explains the record no better (2 dL = {gain:.3g}, not more than {end.penalty:.3g})", False
    better = (f"the residuals of output error are not white, and noise of {inner} explains the record better "
              f"(2 dL = {gain:.3g}, more than {end.penalty:.3g})")
    lack = _lack(end)
    return (f"{better}, but {lack}", False) if lack else (better, True)


def _lack(end: LikelihoodEnd) -> str:
    """What shows that the model lacks something else than noise, in words; empty where nothing does."""
    if not innovations_nearly_white(end.search.setup, end.found):
        return "leaves innovations that are not white either: the model lacks something else"
    naive = _better_by_its_own_past(end.search.setup, end.found)
    return f"{naive}: the model lacks something else" if naive else ""


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


def _unstated_place(end: LikelihoodEnd, ends: Sequence[LikelihoodEnd]) -> tuple[list[np.ndarray], list[str]]:
    """(unknowns,) how far the sensor of an input would move the unknowns if the noise is there, and what a user has to say.

    Only where noise of an input explains the record as well, and moves an unknown by more than does not matter.
    """
    for other in (each for each in ends if each.noisy_inputs and each.found.converged):
        if other.penalised - end.penalised > np.log(max(end.search.setup.measured, 2)):
            continue
        size, name = _attenuation(other.search.setup, other.found)
        noisy = other.noisy_inputs
        if size > ATTENUATION:
            return [attenuation_shift(other.search.setup, other.found)], [
                f"Nobody says whether {', '.join(noisy)} is measured. If the noise is that of its sensor, {name} is off by "
                f"{_standard_errors(size)}, and the intervals are wide enough for both. State it to narrow them: "
                f"noise={{\"{noisy[0]}\": Gaussian()}} of the experiment for the sensor, process_noise={{\"{noisy[0]}\": "
                "Gaussian()} of the problem for what acts behind it."]
    return [], []


# output error


def _output_error(method: PredictionError, problem: Problem, tell: Callable[..., object]) -> Estimate:
    integrator = method.integrator if method.chooses_integrator else method.simulation_integrator
    shooting = method_from({"kind": "multiple_shooting", "integrator": integrator, "substeps": method.substeps})
    return shooting.identify(problem.with_output_noise_only(), None, tell)


def _with_passes(first: Estimate, passes: Sequence[Mapping[str, int]]) -> Estimate:
    """Output error's estimate with what the searches of all places of the noise took, in the counts."""
    counts = {key: first.counts.get(key, 0) + sum(own[key] for own in passes) for key in ("simulations", "jacobians")}
    return replace(first, counts={**first.counts, **counts})


def _as_output_error(method: PredictionError, problem: Problem, first: Estimate, why: str) -> Estimate:
    """Where there is no other noise, answer and cost are those of output error."""
    return replace(first, problem=problem, method=method, criterion=OUTPUT_ERROR,
                   notes=(f"Criterion: output error, because {why}.", *first.notes))


def _standard_errors(size: float) -> str:
    return f"{size:.2g} standard error{'' if f'{size:.2g}' == '1' else 's'}"


def explained(estimate: Estimate) -> str:
    """How the residuals of output error look, where it explains them without other noise: white, or like rounding."""
    rounded = quantisers_of(estimate.problem, estimate.residuals)
    outputs = estimate.problem.model.outputs
    coloured = [(e, name) for e, record in enumerate(estimate.residuals) for name, series in record.items()
                if np.any(np.isfinite(series)) and not whiteness(np.asarray(series)).passed]
    if not coloured:
        return "show no correlation in time"
    rounding = all((e, outputs.index(name)) in rounded for e, name in coloured)
    return "are no more than what the steps of the sensor make" if rounding else ""


# where the noise of an input is


def _place(search: Search, method: PredictionError, found: ScoringState, tell: Callable[..., object]
           ) -> tuple[ScoringState, str, str]:
    """The point by the criterion that fits the place of the inputs' noise, and what to say of that place, if anything.

    A sensor's error asks for total least squares.
    """
    setup = search.setup
    noisy = [name for place, name in setup.terms if place == "input"]
    if not noisy or not found.converged:
        return found, PREDICTION_ERROR, ""
    size, name = _attenuation(setup, found)
    sensors = [name for name in noisy if name in setup.problem.noisy_inputs]
    if not size > ATTENUATION:
        return found, PREDICTION_ERROR, (f"whether that of {', '.join(noisy)} is in its sensor or acts behind it moves no "
                                         f"unknown by more than {size:.2g} standard errors")
    if not sensors:
        return found, PREDICTION_ERROR, (
            f"that of {', '.join(noisy)} is taken to act behind the input; were it that of its sensor, {name} would be "
            f"off by {size:.2g} standard errors: then say it in the experiment, noise={{\"{noisy[0]}\": Gaussian(...)}}")
    moving = np.arange(found.theta.size) < setup.unknowns
    exact = minimise(setup, found.theta, search.lower, search.upper, moving, TOTAL_LEAST_SQUARES, method.max_iterations, tell)
    place = (f"that of the sensor of {', '.join(sensors)}, treated as a disturbance, would move {name} by {size:.2g} standard "
             "errors (attenuation), so that the unknowns are those of dynamic total least squares")
    return replace(exact, history=(*found.history, *exact.history)), ERRORS_IN_VARIABLES, place


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
