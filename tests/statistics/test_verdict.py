"""Claims: a grade says what the residuals are, and its sentence says the numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dynident.statistics.linear_reference import linear_reference_rms
from dynident.statistics.model_error_model import error_regressors, filtered, model_error_test, whitening_filter
from dynident.statistics.residual_statistics import hidden_error
from dynident.statistics.verdict import COLOURS, SEVERITY, Cause, Grade, Verdict, pool_verdicts
from dynident.statistics.verdict_rule import NoiseOfFit, SignalFit, grade_signal, grade_validation
from dynident.statistics.verdict_sentences import FITTED, judge_signal, judge_validation

SAMPLES = 400
TIME = np.linspace(0, 20, SAMPLES)
INPUT = np.sign(np.sin(1.3 * TIME) + 0.3 * np.sin(4.1 * TIME))


def response(pole: float = 0.9) -> np.ndarray:
    """A first order lag of the input."""
    y = np.zeros(SAMPLES)
    for k in range(1, SAMPLES):
        y[k] = pole * y[k - 1] + (1 - pole) * INPUT[k - 1]
    return y


def white(std: float = 0.02, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, std, SAMPLES)


def autoregressive(std: float, pole: float, seed: int = 0) -> np.ndarray:
    e, drive = np.zeros(SAMPLES), white(std * np.sqrt(1 - pole**2), seed)
    for k in range(1, SAMPLES):
        e[k] = pole * e[k - 1] + drive[k]
    return e


def fit(error: np.ndarray, std: float | None = None, **others) -> SignalFit:
    """A signal of which the model leaves `error`."""
    y = response()
    given = None if std is None else np.full(SAMPLES, std)
    return SignalFit("y", TIME, y + error, y, [INPUT], given, 2.0, 1, **others)


def test_white_residuals_of_the_given_size_are_noise():
    judged = judge_signal(fit(white(0.02), 0.02))
    assert judged.grade is Grade.NOISE and judged.cause is Cause.NONE and judged.colour == "green"
    assert "given std 0.02 lets expect (reduced chi-square 0." in judged.sentence or "chi-square 1." in judged.sentence


def test_without_a_std_white_residuals_are_the_noise():
    assert grade_signal(fit(white())) == (Grade.NOISE, Cause.NONE)


@pytest.mark.parametrize(("factor", "judged"), [(5, (Grade.OTHER_NOISE, Cause.NOISE_TOO_SMALL)),
                                                (0.2, (Grade.NOISE, Cause.NOISE_TOO_LARGE))])
def test_noise_that_was_given_wrong_is_told_with_its_factor(factor, judged):
    """FINDINGS B6: given five times too small."""
    verdict = judge_signal(fit(white(0.02), 0.02 / factor))
    assert (verdict.grade, verdict.cause) == judged
    assert ("4.9 times the given std" in verdict.sentence or "5 times the given std" in verdict.sentence
            ) if factor > 1 else " times smaller than given" in verdict.sentence


def test_slow_noise_of_the_given_size_is_not_called_an_error_of_the_model():
    verdict = judge_signal(fit(autoregressive(0.03, 0.9), 0.03))
    assert verdict.grade is Grade.SLOW_NOISE and verdict.cause is Cause.SLOW_NOISE


def test_outliers_are_named():
    error = white()
    error[::40] += 0.5
    assert judge_signal(fit(error, 0.02)).cause is Cause.OUTLIERS


def test_a_remainder_that_follows_the_motion_is_systematic():
    verdict = judge_signal(fit(0.03 * response() ** 2 + white(0.002), 0.002))
    assert verdict.grade is Grade.SMALL_REMAINDER and verdict.colour == "amber"
    assert "it follows the input or the motion" in verdict.sentence


def test_size_grades_what_is_no_noise():
    drift = np.sin(0.4 * TIME)
    grades = [judge_signal(fit(size * np.std(response()) * drift * np.sqrt(2) + white(1e-3), 1e-3)).grade
              for size in (0.05, 0.2, 0.6)]
    assert grades == [Grade.SMALL_REMAINDER, Grade.ROUGH, Grade.NOT]


def test_a_model_that_is_no_better_than_a_line_describes_nothing():
    y = response()
    still = SignalFit("y", TIME, y + white(0.002), np.zeros(SAMPLES), [INPUT], np.full(SAMPLES, 0.002), 2.0)
    verdict = judge_signal(still)
    assert verdict.grade is Grade.NOT and verdict.exit_code() == 4 and "a straight line errs by" in verdict.sentence


def decaying(end: float, samples: int, slow: bool = False, std: float | None = None, seed: int = 0) -> SignalFit:
    """A right model of a decay that is seen for a part of its time constant."""
    time, rng = np.linspace(0, end, samples), np.random.default_rng(seed)
    noise = rng.normal(0, 0.01, samples) if not slow else 0.01 / 0.02 * autoregressive(0.02, 0.9, seed)[:samples]
    given = None if std is None else np.full(samples, std)
    return SignalFit("x", time, np.exp(-time) + noise, np.exp(-time), [], given, 2.0, 1)


def test_a_right_model_is_not_refuted_by_a_record_that_a_straight_line_follows_as_well():
    """All were a D: a record of a third of a time constant bends less than its noise."""
    for seed in range(20):
        assert grade_signal(decaying(0.3, 200, seed=seed)) == (Grade.NOISE, Cause.NONE)
        assert grade_signal(decaying(0.3, 200, std=0.001, seed=seed)) == (Grade.OTHER_NOISE, Cause.NOISE_TOO_SMALL)
        verdict = judge_signal(decaying(0.01, 200, seed=seed))
        assert (verdict.grade, verdict.cause) == (Grade.UNJUDGED, Cause.STRAIGHT_LINE)
        assert "straight line in noise" in verdict.sentence
        slow = grade_signal(decaying(0.3, 200, slow=True, seed=seed))[0]
        assert slow in (Grade.SLOW_REMAINDER, Grade.SMALL_REMAINDER, Grade.ROUGH)


@pytest.mark.parametrize(("share", "said"), [(0.0, "too small to be sized"), (0.02, "of 2 % of the signal")])
def test_a_slow_remainder_without_a_size_is_not_called_0_percent(monkeypatch, share, said):
    monkeypatch.setattr(SignalFit, "systematic_share", share)
    sentence = FITTED[Grade.SLOW_REMAINDER](decaying(0.3, 200, slow=True))
    assert said in sentence and " 0 %" not in sentence


def test_a_line_is_no_excuse_for_what_the_record_shows_beyond_it():
    y = response()
    assert grade_signal(SignalFit("y", TIME, y + white(0.01), np.full(SAMPLES, np.mean(y)), [INPUT], None, 2.0))[0] is Grade.NOT
    direct = white(1.0, 7)  # a white input that acts at once: what is left is white, and follows it
    assert grade_signal(SignalFit("y", TIME, direct + white(0.1), 0.01 * direct, [direct], None, 2.0))[0] is Grade.NOT


def test_a_simulation_that_runs_away_describes_nothing():
    y = response()
    assert grade_signal(SignalFit("y", TIME, y, np.full(SAMPLES, np.nan))) == (Grade.NOT, Cause.DIVERGES)


def test_few_samples_are_not_judged():
    y = response()[:7]
    verdict = judge_signal(SignalFit("y", TIME[:7], y, y + 0.01, [], None, 2.0))
    assert verdict.grade is Grade.UNJUDGED and "7 samples for 2 unknowns" in verdict.sentence and verdict.exit_code() == 0


def shorter(samples: int, error: np.ndarray, std: float | None) -> SignalFit:
    y = response()[:samples]
    given = None if std is None else np.full(samples, std)
    return SignalFit("y", TIME[:samples], y + error[:samples], y, [INPUT[:samples]], given, 2.0, 1)


def test_hidden_error_is_what_a_record_of_this_length_shows_in_nineteen_of_twenty():
    """By simulation: an error of that size leaves less than was left in one of twenty records."""
    rng = np.random.default_rng(5)
    for samples, chi in ((20, 1.0), (45, 0.9), (200, 1.1)):
        error = hidden_error(chi, samples, samples)
        assert error > 0
        left = np.mean((rng.normal(size=(20_000, samples)) + error * np.resize([1.0, -1.0], samples)) ** 2, axis=1)
        assert np.mean(left <= chi) == pytest.approx(0.05, abs=0.008)
    assert hidden_error(0.2, 40, 38) == 0.0  # noise alone hardly leaves as little


def test_what_so_few_samples_do_not_tell_from_slow_noise_is_not_called_systematic_alone():
    slow = autoregressive(0.02, 0.9, 1)
    short, long = judge_signal(shorter(50, slow, 0.002)), judge_signal(fit(0.03 * response() ** 2 + white(0.002), 0.002))
    assert short.grade is Grade.SMALL_REMAINDER and "slow noise or chance" in short.sentence
    assert "which is systematic" in long.sentence


def test_a_short_record_that_would_hide_an_error_of_the_noises_size_is_not_called_to_the_noise():
    error = white(0.02)
    error *= 0.02 / np.sqrt(np.mean(error[:25] ** 2))
    verdict = judge_signal(shorter(25, error, 0.02))
    assert verdict.grade is Grade.UNJUDGED and verdict.cause is Cause.FEW_DATA and verdict.exit_code() == 0
    assert verdict.sentence.startswith("Cannot be told from the noise: ")
    assert "25 samples for 2 unknowns would hide" in verdict.sentence
    hidden = float(verdict.sentence.split("up to ")[1].split(" times")[0])
    assert hidden == pytest.approx(hidden_error(25 / 23, 25, 23), rel=0.05) and hidden > 0.7
    uncorrelated = white(0.02, 4)
    uncorrelated *= 0.018 / np.sqrt(np.mean(uncorrelated[:55] ** 2))
    assert judge_signal(shorter(55, uncorrelated, 0.02)).grade is Grade.NOISE


def test_short_records_that_are_judged_together_are_white_by_the_measure_of_short_ones():
    """A lag-one correlation of 0.15 over 105 samples is more than chance, and less than long records need."""
    for seed in range(400):
        error = white(0.02, seed)[:105]
        together = replace(shorter(105, error, None), unknowns=9.0)
        if 0.15 <= together.statistics.lag_one <= 0.2 and together.statistics.memory <= 0.1:
            break
    assert grade_signal(together) == (Grade.NOISE, Cause.NONE)
    assert grade_signal(replace(together, pooled=True)) == (Grade.UNJUDGED, Cause.FEW_DATA)


def test_rounding_is_no_resolution_where_few_samples_would_hide_an_error_of_its_size():
    y = np.arange(SAMPLES) * 0.0731

    def grade(samples: int) -> tuple[Grade, Cause]:
        return grade_signal(SignalFit("y", TIME[:samples], np.round(y[:samples], 1), y[:samples], [], None, 2.0))

    assert grade(20) == (Grade.UNJUDGED, Cause.FEW_DATA) and grade(100) == (Grade.NOISE, Cause.RESOLUTION)


def test_a_signal_that_stands_still_is_not_judged():
    flat = np.ones(SAMPLES)
    assert grade_signal(SignalFit("y", TIME, flat, flat + white())) == (Grade.UNJUDGED, Cause.STANDS_STILL)


def test_a_signal_that_stands_still_refutes_a_model_that_moves():
    for std in (None, 1e-3):
        given = None if std is None else np.full(SAMPLES, std)
        verdict = judge_signal(SignalFit("y", TIME, np.zeros(SAMPLES), response(), [INPUT], given, 2.0))
        assert verdict.grade is Grade.NOT and verdict.cause is Cause.STANDS_STILL and "never moves" in verdict.sentence
        near = judge_signal(SignalFit("y", TIME, np.ones(SAMPLES), np.ones(SAMPLES) + 1e-6, [INPUT], given, 2.0))
        assert near.grade is Grade.UNJUDGED


def test_rounding_of_the_record_is_its_resolution():
    y = response()
    assert grade_signal(SignalFit("y", TIME, np.round(y, 1), y)) == (Grade.NOISE, Cause.RESOLUTION)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-100, 1e-30, 1e100])
def test_the_unit_of_a_signal_changes_no_grade(size):
    for error in (white(0.02), 0.3 * response() ** 2 + white(0.002)):
        y = response()
        grades = {grade_signal(SignalFit("y", TIME, each * (y + error), each * y, [INPUT], None, 2.0)) for each in (1.0, size)}
        assert len(grades) == 1


def test_missing_samples_change_no_grade():
    whole = fit(white(0.02), 0.02)
    holes = whole.measured.copy()
    holes[::7] = np.nan
    assert grade_signal(SignalFit("y", TIME, holes, whole.model, [INPUT], whole.std, 2.0)) == grade_signal(whole)


def test_a_linear_black_box_shows_what_a_model_misses():
    """As the servo axis EMPS without its Coulomb friction: a linear black box of the same order leaves no more."""
    rate = np.gradient(response(), TIME)
    y = response() + 0.12 * np.std(response()) * np.sign(rate)
    verdict = judge_signal(SignalFit("y", TIME, y, response(), [INPUT], None, 2.0, 1))
    assert verdict.grade is Grade.ROUGH and verdict.cause is Cause.STRUCTURE
    assert "linear black box" in verdict.sentence


# what tells slow noise from an error of the model


def test_whitening_makes_an_autoregression_white():
    from dynident.statistics.residual_statistics import memory

    slow = autoregressive(1.0, 0.95)
    assert memory(slow) > 0.8 and memory(filtered(whitening_filter(slow), slow)) < 0.1


def test_slow_noise_follows_neither_input_nor_motion_and_a_missing_effect_does():
    noise = [model_error_test(autoregressive(1.0, 0.9, seed), response(), TIME, [INPUT]).log10_p for seed in range(40)]
    assert np.mean(np.array(noise) < -2) <= 0.1  # one in a hundred is expected
    missing = autoregressive(1.0, 0.9) + 2 * response() ** 3
    assert model_error_test(missing, response(), TIME, [INPUT]).log10_p < -4


def test_regressors_that_stand_still_are_left_out():
    columns = error_regressors(response(), TIME, [np.ones(SAMPLES)])
    assert np.all(np.isfinite(columns)) and np.all(np.std(columns, axis=0) > 0.99)


def test_linear_reference_finds_a_linear_system():
    y = response() + white(0.01)
    assert linear_reference_rms(y, [INPUT], 1) == pytest.approx(0.01, rel=0.1)


def test_linear_reference_needs_an_input_that_moves_and_no_gaps():
    y = response()
    assert np.isnan(linear_reference_rms(y, [], 2)) and np.isnan(linear_reference_rms(y, [np.ones(SAMPLES)], 2))
    y[5] = np.nan
    assert np.isnan(linear_reference_rms(y, [INPUT], 2))


NOWHERE = np.full(SAMPLES, np.nan)  # a model that diverges


def test_the_way_out_of_a_wrong_std_is_true():
    left = white(0.02)
    verdict = judge_signal(fit(left, 0.004))
    assert verdict.sentence.endswith("State that std, or none.")
    for std in (verdict.numbers["rms"], None):
        assert judge_signal(fit(left, std)).grade is Grade.NOISE


@pytest.mark.parametrize(("judged", "way_out"), [
    (lambda: judge_signal(fit(white(), 10.0)), "Correct the std, or give a record that moves more."),
    (lambda: judge_signal(SignalFit("y", TIME, response(), NOWHERE, [INPUT])), "or choose other start values."),
    (lambda: judge_signal(SignalFit("y", TIME, np.ones(SAMPLES), np.ones(SAMPLES), [])), "Give a record in which it does."),
    (lambda: judge_validation(fit(white()), NoiseOfFit(1.0, 1.0, Grade.NOISE)), "Give one that moves more.")])
@pytest.mark.filterwarnings("error")  # a model that diverges let a warning of NumPy out
def test_what_cannot_be_judged_says_what_would_help(judged, way_out):
    assert judged().sentence.endswith(way_out)


# pooling, colours, exit codes


def test_the_worst_that_can_be_judged_decides():
    parts = [Verdict(grade, f"{grade}.", subject=f"y{k}") for k, grade in enumerate((Grade.NOISE, Grade.ROUGH, Grade.UNJUDGED))]
    whole = pool_verdicts(parts)
    assert whole.grade is Grade.ROUGH and whole.parts == tuple(parts)
    assert whole.sentence == "C. That is y1, the worst of 3 signals; 1 could not be judged."
    assert pool_verdicts(parts[2:]).grade is Grade.UNJUDGED and pool_verdicts([]).grade is Grade.UNJUDGED


def test_exit_codes_are_those_of_the_manual():
    codes = {grade: Verdict(grade, "").exit_code() for grade in Grade}
    assert codes == {"A": 0, "A~": 0, "A!": 0, "B~": 0, "B": 0, "C": 3, "D": 4, "?": 0}
    strict = {grade: Verdict(grade, "").exit_code(strict=True) for grade in Grade}
    assert strict == {**codes, "A!": 3, "B~": 3, "B": 3}
    assert set(SEVERITY) == set(COLOURS) == set(Grade)


def test_what_is_no_optimum_is_never_green():
    assert Verdict(Grade.NOISE, "", optimum=False).colour == "amber"


# validation


KNOWN = NoiseOfFit(0.02, 0.02, Grade.NOISE)


def test_a_new_record_to_the_noise_and_one_that_is_not_predicted_differ():
    """FINDINGS B7, J5: both failed the same tests."""
    good, bad = judge_validation(fit(white(0.022)), KNOWN), judge_validation(fit(0.9 * response()), KNOWN)
    assert good.grade is Grade.NOISE and "Predicts this record to the noise" in good.sentence
    assert bad.grade is Grade.NOT and bad.cause is Cause.NOT_CARRIED_OVER and "Does NOT predict" in bad.sentence


def test_a_new_record_is_graded_by_size():
    drift = np.std(response()) * np.sqrt(2) * np.sin(0.4 * TIME)
    assert [grade_validation(fit(size * drift), KNOWN)[0] for size in (0.09, 0.2)] == [Grade.SMALL_REMAINDER, Grade.ROUGH]


def test_an_effect_that_the_fit_missed_is_missed_on_a_new_record_as_well():
    """As EMPS without Coulomb friction, which was validated like EMPS with it: no smaller error than a linear black box's."""
    y = response() + 0.12 * np.std(response()) * np.sign(np.gradient(response(), TIME))
    left = y - response()
    left *= 0.08 * np.std(y) / np.std(left)  # small by its size
    new = SignalFit("y", TIME, response() + left, response(), [INPUT], fitted=False)
    fitted_well = NoiseOfFit(0.01, 0.08, Grade.SMALL_REMAINDER, Cause.STRUCTURE)
    assert grade_validation(new, fitted_well)[0] is Grade.SMALL_REMAINDER
    verdict = judge_validation(new, NoiseOfFit(0.01, 0.08, Grade.ROUGH, Cause.STRUCTURE))
    assert verdict.grade is Grade.ROUGH and verdict.cause is Cause.STRUCTURE and verdict.exit_code() == 3
    assert "misses an effect: as in the fit, graded C" in verdict.sentence and "linear black box" in verdict.sentence
    unrelated = fit(0.08 * np.std(response()) * white(1.0), fitted=False)
    assert grade_validation(unrelated, NoiseOfFit(0.01, 0.08, Grade.ROUGH, Cause.STRUCTURE))[0] is Grade.SMALL_REMAINDER


def test_a_new_record_that_hardly_moves_tells_nothing():
    assert grade_validation(fit(white()), NoiseOfFit(1.0, 1.0, Grade.NOISE)) == (Grade.UNJUDGED, Cause.NOISE_ABOVE_SIGNAL)


def test_numbers_that_a_sentence_compares_have_one_unit():
    """1.87 mm beside 0.02 m: the prefix of each by its own size."""
    def units(verdict: Verdict) -> list[str]:
        return re.findall(r"\d (µm|mm|m|km)\b", verdict.sentence)

    scaled = response()
    for fitted, given in ((0.002, 0.02), (0.02, 0.002), (0.02, 0.004)):
        error = white(fitted)
        std = np.full(SAMPLES, given)
        said = units(judge_signal(SignalFit("y", TIME, scaled + error, scaled, [INPUT], std, 2.0, 1, unit="m")))
        assert len(said) == 2 and len(set(said)) == 1, said
    small = 5e-3 * INPUT
    drowned = judge_signal(SignalFit("y", TIME, small, 0.9 * small, [INPUT], np.full(SAMPLES, 0.05), 2.0, 1, unit="m"))
    assert drowned.cause is Cause.NOISE_ABOVE_SIGNAL and units(drowned) == ["mm", "mm"]
