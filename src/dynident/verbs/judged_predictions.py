"""Judged predictions: the verdict on a record that was not fitted, where the criterion of the fit is prediction.

The filter of the fit, with its values and its noises, goes over the record; its innovations are judged, and what it predicts
some samples ahead. A simulation of the whole record may drift away from a right model, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.kalman.prediction_error.other_record import PredictedRecord
from dynident.statistics.prediction_rule import Ahead, PredictedSignal, judge_prediction
from dynident.statistics.verdict import Cause, Verdict, pool_verdicts
from dynident.statistics.verdict_rule import NOISE_GRADES
from dynident.tolerances import INNOVATION_LOG10_P, UNRELATED_LOG10_P
from dynident.verbs.judge import PREDICTION_HORIZON, ahead_of, guessed_noise, innovation_tests, prediction_fits
from dynident.verbs.ways_out import with_way_out_of_validation


def judge_predicted_record(estimate: Estimate, record: PredictedRecord, simulated: Mapping[str, float]) -> Verdict:
    """`simulated`: fit of the simulation per output, in percent."""
    known, guessed = record.estimate, guessed_noise(estimate)
    reached = {name: (error, held) for name, error, held, _ in ahead_of(known)}
    noise = _of_noise(estimate)
    parts = []
    for fit, test in zip(prediction_fits(known)[0], innovation_tests(known), strict=True):
        error, held = reached.get(fit.subject, (np.nan, np.nan))
        swing = fit.statistics.signal_std
        of_noise = noise.get(fit.subject, np.nan) / swing if swing > 0 else np.nan
        parts.append(judge_prediction(PredictedSignal(
            fit, ((fit.model_error, UNRELATED_LOG10_P), (test, INNOVATION_LOG10_P)), record.unsure.get(fit.subject, 0.0),
            Ahead(PREDICTION_HORIZON, error, of_noise, held), 1 - simulated.get(fit.subject, np.nan) / 100,
            estimate.verdict.grade, estimate.verdict.cause is Cause.STRUCTURE, guessed)))
    verdict = pool_verdicts(parts)
    return with_way_out_of_validation(verdict, estimate.verdict) if verdict.exceeds_noise else verdict


def _of_noise(estimate: Estimate) -> dict[str, float]:
    """Per output the error some samples ahead on the fitted records, in its unit, where these were described to the noise."""
    if estimate.verdict.grade not in NOISE_GRADES and not guessed_noise(estimate):
        return {}
    squares: dict[str, list[float]] = {}
    for name, error, _, spread in ahead_of(estimate):
        squares.setdefault(name, []).append((error * spread) ** 2)
    return {name: float(np.sqrt(np.mean(each))) for name, each in squares.items()}
