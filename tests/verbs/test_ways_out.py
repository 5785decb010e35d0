"""Claims: what a verdict, or a finding of `check`, says to do next helps where it is done."""

import numpy as np
import pytest

import dynident as di
from dynident.statistics.diagnostic import DiagnosticCode
from dynident.statistics.verdict import Cause, Grade

TIME = np.linspace(0, 20, 301)
FORCE = np.random.default_rng(0).uniform(-1, 1, 30)[np.minimum((TIME / (TIME[-1] / 29)).astype(int), 29)]
SPRING = di.EquationModel(states={"q": "v", "v": "u - d*v - k*q"}, inputs=["u"], outputs={"q": "q"})
RUBBING = di.EquationModel(states={"q": "v", "v": "u - d*v - k*q - c*tanh(v/0.01)"}, inputs=["u"], outputs={"q": "q"})
STD = 0.002


def record(seed: int = 0, model: di.EquationModel = SPRING, **other: float) -> di.Experiment:
    values = {"d": 0.5, "k": 8.0, "c": 0.15, "q(0)": 0.0, "v(0)": 0.0, **other}
    run = di.simulate(model, {k: v for k, v in values.items() if k.endswith("(0)") or k in model.parameters},
                      di.Experiment(TIME, {"u": FORCE}), substeps=8)
    noise = STD * np.random.default_rng(seed).standard_normal(TIME.size)
    return di.Experiment(TIME, {"u": FORCE}, {"q": run.outputs["q"] + noise}, {"q": di.Gaussian(STD)}, name=f"run {seed}",
                         initial={"q": 0.0, "v": 0.0})


def fitted(records: di.Experiment | list[di.Experiment], method: object = None, *, lower: float = 1e-3, shared: bool = True,
           model: di.EquationModel = SPRING) -> di.Estimate:
    unknowns = [di.Parameter("d", 1.0, lower, 5.0), di.Parameter("k", 10.0, 0.01, shared=shared),
                *([di.Parameter("c", 0.1, 0.0)] if model is RUBBING else [])]
    return di.identify(di.Problem(model, records, unknowns), method or di.multiple_shooting(), progress=False)


# of a fit


def test_a_bound_that_keeps_a_model_from_its_record_is_named_and_widening_it_helps():
    held = fitted(record(), lower=0.8).verdict
    assert held.grade is Grade.ROUGH and "widen the bound of d" in held.sentence
    assert fitted(record(), lower=0.1).verdict.grade is Grade.NOISE
    assert "the bound of d" in fitted(record(), di.automatic(), lower=0.8).verdict.sentence.split("To go on")[0]


def test_a_value_that_differs_between_records_is_suspected_and_one_for_each_helps():
    runs = [record(1), record(2, k=9.0)]
    verdict = fitted(runs, di.automatic()).verdict
    assert verdict.grade in (Grade.ROUGH, Grade.NOT) and "or a value that differs between the records" in verdict.sentence
    assert "fit each record alone" in verdict.sentence
    assert {fitted(run).verdict.grade for run in runs} == {Grade.NOISE}
    assert fitted(runs, shared=False).verdict.grade is Grade.NOISE
    assert "shared=False" not in fitted(runs[0], lower=0.8).verdict.sentence  # one record shares nothing


def test_the_rate_that_lacks_an_effect_is_shown_by_the_method_that_the_verdict_names():
    run = record(3, RUBBING)
    verdict = fitted(run, "single_shooting").verdict
    assert verdict.grade is Grade.ROUGH and "boundary_value() shows which rate errs" in verdict.sentence
    smoothed = fitted(run, "boundary_value")
    assert any("errs most in the rate of v" in note for note in smoothed.notes)
    assert "boundary_value" not in smoothed.verdict.sentence  # it has been done
    assert fitted(run, model=RUBBING).verdict.grade is Grade.NOISE


def test_what_a_prediction_misses_is_followed_by_a_way_out():
    verdict = fitted(record(3, RUBBING), di.prediction_error()).verdict
    assert verdict.cause is Cause.STRUCTURE and "Intervals do not cover that error" in verdict.sentence
    assert "boundary_value() shows which rate errs" in verdict.sentence


# of a validation


def test_a_fit_of_both_records_tells_a_wrong_value_from_a_wrong_model():
    short = record(1)
    poor = di.Experiment(TIME[:25], {"u": 0.02 * FORCE[:25]}, {"q": 0.02 * np.asarray(short.outputs["q"])[:25]},
                         {"q": di.Gaussian(STD)}, initial={"q": 0.0, "v": 0.0}, name="poor")
    first, other = fitted(poor), record(2)
    verdict = first.validate(other).verdict
    assert verdict.grade in (Grade.SMALL_REMAINDER, Grade.ROUGH, Grade.NOT)
    assert verdict.sentence.endswith("Fit both records together: a right model follows both with the same values.")
    assert fitted([poor, other]).verdict.grade is Grade.NOISE
    changed = record(3, k=12.0)
    assert fitted(record(1)).validate(changed).verdict.grade in (Grade.ROUGH, Grade.NOT)
    assert fitted([record(1), changed]).verdict.grade in (Grade.ROUGH, Grade.NOT)


def test_a_validation_of_a_bad_fit_sends_back_to_the_fit():
    verdict = fitted(record(3, RUBBING), "single_shooting").validate(record(4, RUBBING)).verdict
    assert verdict.sentence.endswith("The fit itself was graded C: mend that first.")
    assert fitted(record(1)).validate(record(2)).verdict.sentence.endswith("times the error of the fit.")


# of check


def decay(y: np.ndarray | None = None, time: np.ndarray | None = None, std: float | None = 0.01, u: np.ndarray | None = None,
          **k: object) -> di.Problem:
    t = np.linspace(0, 5, 101) if time is None else time
    y = np.exp(-t / t[-1] * 5) + 0.01 * np.random.default_rng(0).standard_normal(t.size) if y is None else y
    model = di.EquationModel(states={"x": "-k*x" if u is None else "-k*x + u"}, inputs=[] if u is None else ["u"])
    run = di.Experiment(t, {} if u is None else {"u": u}, {"x": y}, {} if std is None else {"x": di.Gaussian(std)})
    return di.Problem(model, [run], [di.Parameter("k", **{"start": 0.5, "lower": 0.0, **k})])


T = np.linspace(0, 5, 101)
COUNT = np.arange(1.0, 102)
CLEAN = np.exp(-T) + 0.01 * np.random.default_rng(0).standard_normal(T.size)
SPIKED = np.where(np.arange(101) == 50, 5.0, CLEAN)
ROUNDED = np.round(CLEAN / 0.1) * 0.1
SWING = np.sin(6 * T) + 0.01 * np.random.default_rng(0).standard_normal(T.size)
CLIPPED = np.minimum(SWING, 0.7)
FOLLOWED = {  # the finding, a problem that has it, and the same with its advice followed
    DiagnosticCode.START_AT_BOUND: (lambda: decay(start=0.0), lambda: decay(start=0.1)),
    DiagnosticCode.NO_SCALE: (lambda: decay(start=0.0, lower=-np.inf), lambda: decay(start=0.0, lower=-np.inf, scale=1.0)),
    DiagnosticCode.SCALE_OFF: (lambda: decay(scale=1e6), lambda: decay(scale=1.0)),
    DiagnosticCode.WIDE_BOUNDS: (lambda: decay(lower=1e-6, upper=1e6), lambda: decay(lower=1e-6, upper=1e6, log=True)),
    DiagnosticCode.FEW_DATA: (lambda: decay(time=np.linspace(0, 5, 3)), decay),
    DiagnosticCode.SHORT_RECORD: (lambda: decay(time=np.linspace(0, 5, 6)), decay),
    DiagnosticCode.SAMPLE_NUMBERS: (lambda: decay(time=COUNT, start=0.01), lambda: decay(time=0.05 * COUNT)),
    DiagnosticCode.MILLISECONDS: (lambda: decay(time=50.0 * np.arange(101), start=1e-3), decay),
    DiagnosticCode.SPIKES: (lambda: decay(SPIKED), lambda: decay(np.where(SPIKED > 2, np.nan, SPIKED))),
    DiagnosticCode.CLIPPED: (lambda: decay(CLIPPED), lambda: decay(np.where(CLIPPED >= 0.7, np.nan, CLIPPED))),
    DiagnosticCode.QUANTISED: (lambda: decay(ROUNDED, std=0.01), lambda: decay(ROUNDED, std=0.03)),
    DiagnosticCode.NOISE_ABOVE_SIGNAL: (lambda: decay(std=10.0), decay),
    DiagnosticCode.CONSTANT_INPUT: (lambda: decay(u=np.ones(101)), lambda: decay(u=np.sin(2 * T) + np.sin(5 * T))),
    DiagnosticCode.SINGLE_STEP: (lambda: decay(u=1.0 * (T > 2)), lambda: decay(u=np.sin(2 * T) + np.sin(5 * T))),
    DiagnosticCode.WEAK_INPUT: (lambda: decay(u=1000 + np.sin(2 * T)), lambda: decay(u=np.sin(2 * T))),
}


@pytest.mark.parametrize("code", FOLLOWED, ids=lambda code: code.value)
def test_advice_of_check_that_is_followed_silences_the_finding(code):
    before, after = (di.check(problem()) for problem in FOLLOWED[code])
    assert code in before.codes and next(f for f in before.findings if f.code is code).advice.endswith(".")
    assert code not in after.codes
