"""Judge: from an estimate, or from a validation, to the verdict on it.

Open-loop residuals are judged: one simulation of each record from its first state. Where the criterion is prediction, the
innovations are, and what the model predicts several samples ahead: a simulation may drift there without being wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate, Validation
from dynident.kalman.prediction_error.k_step import fit_ahead
from dynident.kalman.prediction_error.setup import fed_through
from dynident.kalman.prediction_error.shared_errors import MovedRecord, moved_records
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import stated_bound
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem, stated_std
from dynident.statistics.linear_reference import linear_reference_rms
from dynident.statistics.model_error_model import NO_TEST, ModelErrorTest, SharedError, delayed, innovation_test
from dynident.statistics.verdict import Cause, Grade, Verdict, pool_verdicts
from dynident.statistics.verdict_rule import NOISE_GRADES, NoiseOfFit, SignalFit, rule_numbers
from dynident.statistics.verdict_sentences import ROBUST, amount, judge_signal, judge_validation, percent
from dynident.tolerances import (
    AHEAD_WORSE,
    INNOVATION_LOG10_P,
    LEARNING_SHARE,
    LINEAR_TO_INNOVATIONS,
    SIMULATED_TO_INNOVATIONS,
    SMALL_REMAINDER,
    SMOOTHED_LIMIT,
    UNRELATED_LOG10_P,
)
from dynident.verbs.judged_signals import (
    fitted_unknowns,
    pool_signals,
    signal_fits,
    simulated_or_none,
    simulated_outputs,
)
from dynident.verbs.ways_out import suspects, with_way_out, with_way_out_of_validation

ROUTES_TELL = 2  # independent routes to one end: a wrong minimum draws fewer
PLAIN = "Leave them out (NaN), if you know why they do"  # filters take no robust loss
PREDICTION_HORIZON = 10  # samples over which a prediction has to be better than the last value held


def judge_estimate(estimate: Estimate) -> Verdict:
    """The verdict on a fit: one for all signals, with one for each in `parts`."""
    with single_thread():
        if math.isnan(estimate.cost):
            verdict = judge_proof(estimate)
        elif estimate.filtered is not None:
            verdict = with_way_out(estimate, judge_predictions(estimate))
        else:
            verdict = with_origin(estimate, pool_signals(estimate, simulated_outputs(estimate)))
            verdict = with_way_out(estimate, verdict)
    return verdict if estimate.converged else replace(verdict, optimum=False, sentence=(
        f"At the best point found, which is no optimum: {verdict.sentence[0].lower()}{verdict.sentence[1:]}"))


# minimum or structure


def with_origin(estimate: Estimate, verdict: Verdict) -> Verdict:
    """With what the way to the minimum says about a remainder: the model's structure, or perhaps a wrong minimum."""
    if verdict.cause not in (Cause.STRUCTURE_OR_MINIMUM, Cause.STRUCTURE, Cause.DIVERGES):
        return verdict
    if estimate.believed and estimate.arrived_by == "smoother":
        return replace(verdict, grade=Grade.SMALL_REMAINDER, cause=Cause.STRUCTURE, sentence=(
            "Follows the record from sample to sample, where the model may err a little; no simulation of a whole record does: "
            "there is noise in the model or in its inputs, or chaos."))
    routes = round(estimate.statistics.get("routes", 0))
    follows = estimate.statistics.get("smoothed_chi_square", np.inf) <= SMOOTHED_LIMIT
    tried = len(estimate.stages) > 1
    if routes >= ROUTES_TELL or follows or verdict.cause is Cause.STRUCTURE:
        said = [f"{routes} independent routes ended at these values"] if routes >= ROUTES_TELL else []
        said += ["where the model may err, it follows the record to the noise"] if follows else []
        unasked = follows and "unasked_rows" in estimate.statistics  # a model that is right follows noisy inputs like that, too
        what = "the structure of the model, or noise in its inputs, which nobody asked for" if unasked else (
            "the structure of the model")
        why = f" {_capital('; '.join(said))}: it is {', or '.join([what, *suspects(estimate)])}." if said else ""
        return replace(verdict, cause=Cause.STRUCTURE, sentence=verdict.sentence + why)
    if tried and not estimate.believed:
        worse = Grade.ROUGH if verdict.grade is Grade.SMALL_REMAINDER else verdict.grade
        return replace(verdict, grade=worse, sentence=verdict.sentence + (
            " No second route ended at these values: a wrong minimum, or "
            f"{', or '.join(['the structure of the model', *suspects(estimate)])}."))
    if not tried:
        return replace(verdict, sentence=verdict.sentence + (
            " Whether another minimum fits better was not tried; automatic() does."))
    return verdict


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


# predictions


def judge_predictions(estimate: Estimate) -> Verdict:
    """By innovations, and by what is predicted some samples ahead where the criterion is prediction."""
    fits, simulated = prediction_fits(estimate)
    tests = innovation_tests(estimate)
    parts = [_of_prediction(fit, _later(fit, _begin_of_test(estimate, fit.time.size)).model_error, test)
             for fit, test in zip(fits, tests, strict=True)]
    guessed = guessed_noise(estimate)
    if estimate.criterion != "prediction error":
        return pool_verdicts([_on_guessed_noise(part, guessed) for part in parts])
    needless = [_without_process_noise(fit, other) for fit, other in zip(fits, simulated, strict=True)]
    parts = [part if other is None else other for part, other in zip(parts, needless, strict=True)]
    return with_ahead(pool_verdicts([_on_guessed_noise(part, guessed) for part in parts]), ahead_of(estimate))


def prediction_fits(estimate: Estimate) -> tuple[list[SignalFit], list[SignalFit]]:
    """One per signal: of predictions from one sample to the next, and of one simulation of each record."""
    assert estimate.filtered is not None
    predicted = [{name: np.asarray(e.outputs[name], float) - r for name, r in own.items()}
                 for e, own in zip(estimate.problem.experiments, estimate.residuals, strict=True)]
    foreseen = [{name: foreseen_std(own[name], record.whitened[:, record.outputs.index(name)]) for name in own
                 if name in record.outputs and len(record.whitened) == own[name].size}
                for own, record in zip(estimate.residuals, estimate.filtered.records, strict=True)]
    fits = signal_fits(estimate, predicted, [{} for _ in foreseen] if estimate.filtered.estimated else foreseen)
    simulated = signal_fits(estimate, simulated_or_none(estimate))
    courses = [own.get(name) for own, e in zip(foreseen, estimate.problem.experiments, strict=True)
               for name, y in e.outputs.items() if np.any(np.isfinite(np.asarray(y, float)))]
    fits = [replace(fit, motion=delayed(other.model, 1), foreseen=course, inputs=[delayed(u, 1) for u in fit.inputs],
                    shared=bool(estimate.input_noise))  # delayed: in a loop what is measured at a sample moves its input
            for fit, other, course in zip(fits, simulated, courses, strict=True)]
    return fits, simulated


def guessed_noise(estimate: Estimate) -> list[str]:
    """States and inputs with noise that the search looked for by itself, and found, where nobody states any."""
    stated = estimate.problem.process_noise or estimate.problem.noisy_inputs
    if stated or estimate.method.options().get("process_noise") is not None or estimate.filtered is None:
        return []
    return [name for name, std in (estimate.process_noise or estimate.filtered.process_noise).items() if std > 0]


def _on_guessed_noise(verdict: Verdict, names: Sequence[str]) -> Verdict:
    """No green by it: noise explains from one sample to the next what the model may lack."""
    if not names or verdict.grade not in (Grade.NOISE, Grade.SLOW_NOISE):
        return verdict
    listed = ", ".join(f'"{name}": Gaussian()' for name in names)
    return replace(verdict, grade=Grade.SLOW_REMAINDER, cause=Cause.NOISE_GUESSED, sentence=(
        f"{verdict.sentence} That rests on noise in {' and '.join(names)}, which nobody stated and the search found: an error "
        f"of the model may hide in it. If the noise is real, state it (process_noise={{{listed}}} of the problem); another "
        "record tells."))


def innovation_tests(estimate: Estimate) -> list[ModelErrorTest]:
    """Per signal, in the order of `signal_fits`, whether innovations follow what was known before them.

    Of a filter that learns parameters on its way they do until these are known, whatever the model: what comes later is asked,
    and about states alone, since a course that was made of past innovations is no regressor.
    """
    assert estimate.filtered is not None
    unknowns, found = fitted_unknowns(estimate) / max(estimate.problem.measured_values, 1), []
    model = estimate.problem.model
    felt = fed_through(model) if isinstance(model, EquationModel) and not model.hybrid else set()
    for experiment, record, moved in zip(estimate.problem.experiments, estimate.filtered.records, moved_records(estimate),
                                         strict=True):
        begin = _begin_of_test(estimate, experiment.samples)
        inputs = [np.asarray(u, float)[begin:] for u in experiment.inputs.values()]
        states = record.values[begin:, [each not in estimate.filtered.parameters for each in record.names]]
        at_once = [experiment.hold[name] == "linear" or name in felt for name in experiment.inputs]
        for name, values in experiment.outputs.items():
            if not np.any(np.isfinite(np.asarray(values, float))):
                continue
            if name not in record.outputs or len(record.values) != experiment.samples:
                found.append(NO_TEST)  # there is nothing to ask
                continue
            j = record.outputs.index(name)
            white = record.whitened[begin:, j]
            found.append(innovation_test(white, (states, inputs), unknowns * float(np.sum(np.isfinite(white))), at_once,
                                         [_shared(up, down, j) for up, down in moved]))
    return found


def _shared(up: MovedRecord, down: MovedRecord, output: int) -> SharedError:
    return SharedError(up.whitened[:, output], down.whitened[:, output], (up.states, up.inputs), (down.states, down.inputs))


def _begin_of_test(estimate: Estimate, samples: int) -> int:
    """The first sample at which a filter that learns is asked about the model."""
    return int(LEARNING_SHARE * samples) if estimate.filtered is not None and estimate.filtered.parameters else 0


def _later(fit: SignalFit, begin: int) -> SignalFit:
    """The same from a sample on."""
    return replace(fit, time=fit.time[begin:], measured=fit.measured[begin:], model=fit.model[begin:],
                   inputs=[u[begin:] for u in fit.inputs], std=None if fit.std is None else fit.std[begin:],
                   foreseen=None if fit.foreseen is None else fit.foreseen[begin:],
                   motion=None if fit.motion is None else fit.motion[begin:])


def _without_process_noise(fit: SignalFit, simulated: SignalFit) -> Verdict | None:
    """The verdict on the simulation, where a linear black box needs no noise in the model to follow the record as closely.

    Noise in a model moves away from every simulation; what a simulation follows is no such noise, but an effect that this model
    misses. Where simulations err little more than predictions, as of what forgets within a sample or two, a black box that is
    fitted comes as near whatever the reason, and nothing is said.
    """
    if not simulated.rms >= SIMULATED_TO_INNOVATIONS * fit.rms:
        return None
    share = fit.rms / fit.statistics.signal_std if fit.statistics.signal_std > 0 else np.inf
    verdict = judge_signal(simulated)
    dynamic = fit.order > 0 and fit.evenly_sampled
    linear = linear_reference_rms(fit.measured, simulated.inputs, fit.order, free_response=True) if dynamic else np.inf
    if verdict.grade in (*NOISE_GRADES, Grade.UNJUDGED) or not linear <= LINEAR_TO_INNOVATIONS * fit.rms:
        return None
    numbers = {**verdict.numbers, "linear_rms": linear, "innovation_rms": fit.rms}
    return replace(verdict, cause=Cause.STRUCTURE, numbers=numbers, sentence=(
        f"{verdict.sentence} Noise in the model is not the reason, though predictions from sample to sample err by "
        f"{percent(share)} of the signal only: a linear black box of the same order simulates the record as closely, rms "
        f"{amount(linear, fit.unit)}. It is the structure of the model."))


def foreseen_std(innovations: np.ndarray, whitened: np.ndarray) -> np.ndarray:
    """(samples,) by which innovations were divided to whiten them; their median where one is exactly zero or missing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        std = np.abs(innovations / whitened)
    known = std[np.isfinite(std) & (std > 0)]
    return np.where(np.isfinite(std) & (std > 0), std, np.median(known) if known.size else 1.0)


def _of_prediction(fit: SignalFit, earlier: ModelErrorTest, test: ModelErrorTest) -> Verdict:
    """The same words about predictions from one sample to the next.

    A filter makes up for what the model misses, so that innovations may be white and small all the same: they are asked whether
    they follow input or motion.
    """
    verdict = judge_signal(fit)
    follows = [each.log10_p for each, limit in ((earlier, UNRELATED_LOG10_P), (test, INNOVATION_LOG10_P))
               if each.log10_p <= limit]
    if follows and verdict.grade in (*NOISE_GRADES, Grade.SLOW_REMAINDER, Grade.SMALL_REMAINDER):
        share = fit.rms / fit.statistics.signal_std
        numbers = {**rule_numbers(fit), "innovation_log10_p": test.log10_p}
        return replace(verdict, grade=Grade.SMALL_REMAINDER, cause=Cause.STRUCTURE, numbers=numbers, sentence=(
            f"Predicts the record from sample to sample within {percent(share)} of the signal, but the errors follow the input "
            f"or the motion (F test, p = 1e{min(follows):.0f}): the model misses an effect, for which the filter makes up. "
            "Intervals do not cover that error."))
    said = verdict.sentence.replace("Describes the record", "Predicts the record from sample to sample").replace(
        "Does NOT describe the record", "Does NOT predict the record from sample to sample").replace(ROBUST, PLAIN)
    return replace(verdict, sentence=said)


def ahead_of(estimate: Estimate) -> list[tuple[str, float, float, float]]:
    """Per signal its name, the error some samples ahead and that of the last value held, over the signal's std, and that."""
    model, found = estimate.problem.model, []
    if not isinstance(model, EquationModel) or model.hybrid or not model.states or estimate.problem.filtered_outputs:
        return []
    for e, experiment in enumerate(estimate.problem.experiments):
        held = [Parameter(p.name, start=_value(estimate, p.name, experiment.name), free=False)
                for p in estimate.problem.parameters if isinstance(p, Parameter)]
        known = np.column_stack([estimate.trajectories[e].states[name] for name in model.states])
        alone = Problem(model, [experiment.without_input_noise()], held)
        try:
            fits = fit_ahead(alone, known, estimate.method.simulation_integrator, int(estimate.counts.get("substeps", 1)))
        except DynidentError:
            continue
        for name, fit in fits.get(PREDICTION_HORIZON, {}).items():
            measured = np.asarray(experiment.outputs[name], float)
            found.append((name, 1 - fit / 100, _held_error(measured), float(np.nanstd(measured[PREDICTION_HORIZON:]))))
    return found


def _value(estimate: Estimate, name: str, experiment: str) -> float:
    """A parameter's value in one experiment."""
    return float(estimate.values[name if name in estimate.values else f"{name}[{experiment}]"])


def _held_error(measured: np.ndarray) -> float:
    later, before = measured[PREDICTION_HORIZON:], measured[:-PREDICTION_HORIZON]
    both = np.isfinite(later) & np.isfinite(before)
    swing = float(np.linalg.norm(later[both] - np.mean(later[both]))) if np.any(both) else 0.0
    return float(np.linalg.norm(later[both] - before[both])) / swing if swing > 0 else np.nan


def with_ahead(verdict: Verdict, ahead: Sequence[tuple[str, float, float, float]]) -> Verdict:
    """With what is predicted some samples ahead: no better than the last value held is no prediction."""
    if not ahead:
        return verdict
    name, error, held, _ = max(ahead, key=lambda each: each[1] / each[2] if each[2] > 0 else 0.0)
    numbers = {**verdict.numbers, "ahead_samples": float(PREDICTION_HORIZON), "ahead_share": error, "held_share": held}
    said = (f"{PREDICTION_HORIZON} samples ahead {name} is predicted within {percent(error)} of the signal; "
            f"the last value held errs by {percent(held)}.")
    if verdict.cause is Cause.STRUCTURE and verdict.grade is Grade.SMALL_REMAINDER and error > SMALL_REMAINDER:
        return replace(verdict, grade=Grade.ROUGH, numbers=numbers, sentence=f"{verdict.sentence} {said}")
    if error > AHEAD_WORSE * held and verdict.severity < 6:
        return replace(verdict, grade=Grade.ROUGH, cause=Cause.NO_PREDICTION, numbers=numbers, sentence=(
            f"Predicts from one sample to the next only: {said}"))
    return replace(verdict, numbers=numbers, sentence=f"{verdict.sentence} {said}")


# proofs


def judge_proof(estimate: Estimate) -> Verdict:
    """Guaranteed bounds: refuted, or within the bounds of the errors at the values printed."""
    if estimate.uncertainty.status_word:
        return Verdict(Grade.NOT, f"Does NOT describe the record, and that is proved. {estimate.status}", Cause.REFUTED)
    outside, count = 0, 0
    for experiment, own in zip(estimate.problem.experiments, estimate.residuals, strict=True):
        for name, r in own.items():
            bound = stated_bound(experiment.noise[name])
            there = np.isfinite(r) & np.isfinite(np.asarray(experiment.outputs[name], float))
            if bound is not None:
                outside += int(np.sum(np.abs(r[there]) > np.broadcast_to(bound, r.shape)[there]))
                count += int(np.sum(there))
    numbers = {"samples": float(count), "beyond_bounds": float(outside)}
    if count and not outside:
        return Verdict(Grade.NOISE, "Describes the record within the guaranteed bounds of its errors: at the values printed no "
                                    f"sample of {count} lies beyond.", Cause.WITHIN_BOUNDS, numbers)
    return Verdict(Grade.UNJUDGED, "Not refuted: values within the bounds below may describe the record. At the middle of the "
                                   f"bounds {outside} of {count} samples lie beyond the bounds of their errors.", Cause.NONE,
                   numbers)


# validations


def judge_record(estimate: Estimate, experiment: Experiment, validation: Validation) -> Verdict:
    """The verdict on a record that was not fitted, beside that on the fit."""
    labels, run = [e.label for e in estimate.problem.experiments], validation.trajectory
    parts = []
    for name, residuals in validation.residuals.items():
        model = np.asarray(run.outputs[name], float)
        if not np.any(np.isfinite(residuals)):
            continue
        given = name in experiment.outputs and experiment.samples == model.size  # else the method compares signals of its own
        fit = SignalFit(name, np.asarray(run.time, float), model + residuals, model,
                        [np.asarray(u, float) for u in experiment.inputs.values()] if given else (),
                        stated_std(experiment, name) if given else None, order=len(estimate.problem.model.states),
                        unit=experiment.units.get(name) or estimate.problem.model.units.get(name, ""), fitted=False)
        fitted = [part for part in estimate.verdict.parts if part.subject in (name, *(f"{name} of {it}" for it in labels))]
        parts.append(judge_validation(fit, noise_of_fit(fitted, estimate.noise_std.get(name))))
    return with_way_out_of_validation(pool_verdicts(parts), estimate.verdict)


def noise_of_fit(parts: Sequence[Verdict], std: float | None) -> NoiseOfFit:
    """What the fit says about the noise of an output: all that it left over where that is noise, else its white part."""
    known = [part for part in parts if "rms" in part.numbers]
    if not known:
        return NoiseOfFit(std, np.nan if std is None else std, Grade.UNJUDGED)
    worst = max(known, key=lambda part: part.severity)
    rms = float(np.sqrt(np.mean([part.numbers["rms"] ** 2 for part in known])))
    noise_like = worst.grade in (*NOISE_GRADES, Grade.SLOW_REMAINDER, Grade.UNJUDGED)
    white = float(np.sqrt(np.mean([part.numbers.get("white_std", np.nan) ** 2 for part in known])))
    return NoiseOfFit(rms if noise_like or not np.isfinite(white) else white, rms, worst.grade, worst.cause)
