"""Before a fit: each odd thing is found and named, and a sound problem is left in peace."""

from __future__ import annotations

import numpy as np
import pytest
from regression import Names, linearized

from dynident.linalg.finite_problem import ResidualJacobian
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.statistics.diagnostic import SEVERITIES, TEMPLATES, Check, Diagnostic, DiagnosticCode
from dynident.statistics.diagnostics import diagnose, record_findings
from dynident.statistics.quantisation import quantisation_step

RNG = np.random.default_rng(1)
T = 0.01 * np.arange(500)
U = np.sign(np.sin(1.7 * T * 3)) + 0.5 * np.sin(5 * T)
X = np.stack([np.ones(500), U], axis=1)
Y = X @ [1.0, 2.0] + 0.05 * RNG.normal(size=500)


def check(y=Y, u=U, t=T, x=X, std=0.05, parameters=None, states=("x",)) -> Check:
    run = Experiment(t, inputs={"u": u}, outputs={"y": y}, noise={"y": Gaussian(std)}, name="run")
    parameters = parameters or [Parameter("a", 1.0), Parameter("b", 2.0)]
    problem = Problem(Names(tuple(p.name for p in parameters), inputs=("u",), states=states), [run],
                      [*parameters, *(InitialState(state, 0.0, free=False) for state in states)])
    start = np.array([p.start for p in parameters])
    return diagnose(problem, linearized(problem, [x[: np.size(y)]], start, std or 1.0))


def found(result: Check, code: DiagnosticCode) -> Diagnostic | None:
    return next((finding for finding in result.findings if finding.code is code), None)


def test_a_sound_problem_is_left_in_peace():
    result = check()
    assert result.ok and result.findings == (), str(result)
    assert "Nothing stands in the way" in str(result)


@pytest.mark.parametrize(("code", "changes"), [
    (DiagnosticCode.CONSTANT_INPUT, {"u": np.ones(500)}),
    (DiagnosticCode.WEAK_INPUT, {"u": 100 + 0.1 * U}),
    (DiagnosticCode.SINGLE_STEP, {"u": (T > 1).astype(float)}),
    (DiagnosticCode.CONSTANT_OUTPUT, {"y": np.full(500, 3.0)}),
    (DiagnosticCode.SAMPLE_NUMBERS, {"t": np.arange(500.0)}),
    (DiagnosticCode.MILLISECONDS, {"t": 10.0 * np.arange(500)}),
    (DiagnosticCode.TIME_GAPS, {"t": np.where(T > 2, T + 3, T)}),
    (DiagnosticCode.MISSING_SAMPLES, {"y": np.where(T < 1, np.nan, Y)}),
    (DiagnosticCode.NOISE_ABOVE_SIGNAL, {"std": 50.0}),
    (DiagnosticCode.QUANTISED, {"y": 0.05 * np.round(Y / 0.05), "std": 1e-4}),
    (DiagnosticCode.SPIKES, {"y": np.where(np.arange(500) == 77, Y + 30, Y)}),
    (DiagnosticCode.COARSE_SAMPLING, {"y": Y + 20 * np.sin(np.pi / 2 * np.arange(500) + 0.3)}),
    (DiagnosticCode.FAR_START, {"parameters": [Parameter("a", 1.0), Parameter("b", 900.0)]}),
    (DiagnosticCode.START_AT_BOUND, {"parameters": [Parameter("a", 1.0, lower=1.0), Parameter("b", 2.0)]}),
    (DiagnosticCode.NO_SCALE, {"parameters": [Parameter("a", 0.0), Parameter("b", 2.0)]}),
    (DiagnosticCode.SCALE_OFF, {"parameters": [Parameter("a", 1.0, scale=1e7), Parameter("b", 2.0)]}),
    (DiagnosticCode.WIDE_BOUNDS, {"parameters": [Parameter("a", 1.0, lower=1e-5, upper=1e5), Parameter("b", 2.0)]}),
])
def test_each_oddity_is_found(code, changes):
    result = check(**changes)
    assert code in result.codes, str(result)


@pytest.mark.parametrize("changes", [{"t": np.arange(500.0)}, {"t": 10.0 * np.arange(500)}, {"t": np.where(T > 2, T + 3, T)},
                                     {"u": (T > 1).astype(float)}])
def test_a_model_without_states_is_told_nothing_about_time(changes):
    assert check(**changes).findings
    assert check(**changes, states=()).findings == ()


def test_uneven_sampling_is_told():
    t = T + 0.002 * np.random.default_rng(2).random(500)
    assert found(check(t=t), DiagnosticCode.UNEVEN_SAMPLING)


def test_undetermined_sum_stops_the_check():
    result = check(x=np.stack([U, U], axis=1), parameters=[Parameter("m1", 1.0), Parameter("m2", 2.3)])
    assert not result.ok and result.codes[0] is DiagnosticCode.UNIDENTIFIABLE and result.findings[0].names == ("m1", "m2")
    assert "m1, m2: only m1 + m2 is determined" in str(result)


def test_near_collinear_pair_is_a_warning_by_name():
    result = check(x=np.stack([U, U + 0.02 * T], axis=1))
    pair = found(result, DiagnosticCode.COLLINEAR)
    assert result.ok and pair is not None and pair.names == ("a", "b") and pair.numbers["index"] > 10


def test_weak_parameter_is_told_only_when_the_noise_is_known():
    x = np.stack([np.ones(500), 1e-4 * U], axis=1)
    assert found(check(x=x, y=x @ [1.0, 2.0] + 0.05 * RNG.normal(size=500)), DiagnosticCode.POORLY_DETERMINED)
    assert not found(check(x=x, std=None), DiagnosticCode.POORLY_DETERMINED)


def test_few_data_and_a_short_record():
    result = check(y=Y[:8], u=U[:8], t=T[:8])
    few, short = found(result, DiagnosticCode.FEW_DATA), found(result, DiagnosticCode.SHORT_RECORD)
    assert few is not None and few.numbers == {"data": 8, "unknowns": 2} and short is not None and short.numbers["samples"] == 8


def test_quantisation_is_found_only_where_it_is():
    y = np.sin(np.linspace(0, 20, 3000))
    assert quantisation_step(5e-8 * np.round(y / 5e-8)) is None  # finer than the samples can show
    assert quantisation_step(0.01 * np.round(y / 0.01)) == pytest.approx(0.01)
    assert quantisation_step(y) is None


def test_no_unknowns_is_normal():
    run = Experiment(T, inputs={"u": U}, outputs={"y": Y}, noise={"y": Gaussian(0.05)}, name="run")
    problem = Problem(Names((), inputs=("u",)), [run], [])
    lin = linearized(problem, [np.zeros((500, 0))], np.zeros(0), 0.05)
    assert isinstance(lin, ResidualJacobian) and diagnose(problem, lin).ok


WAVE = 2 * np.sin(T * 20 / T[-1]) + 0.02 * np.random.default_rng(4).standard_normal(T.size)


@pytest.mark.parametrize(("low", "high", "limits"), [(-1, 1, [1.0, -1.0]), (-9, 1, [1.0]), (-9, 9, [])])
def test_a_clipped_signal_is_called_one_and_its_corners_are_no_spikes(low, high, limits):
    told = record_findings(Experiment(T, outputs={"y": np.clip(WAVE, low, high)}))
    assert [f.numbers["limit"] for f in told if f.code is DiagnosticCode.CLIPPED] == limits
    assert DiagnosticCode.SPIKES not in [f.code for f in told]


@pytest.mark.parametrize("y", [np.round(WAVE, 1), np.sign(WAVE), np.maximum.accumulate(WAVE),
                               np.clip(WAVE, -9, 1) + 1e-3 * WAVE])
def test_what_stands_elsewhere_too_or_once_is_not_called_clipped(y):
    assert DiagnosticCode.CLIPPED not in [f.code for f in record_findings(Experiment(T, outputs={"y": y}))]


def test_every_code_has_a_severity_a_sentence_and_advice():
    assert set(TEMPLATES) == set(DiagnosticCode)
    for severity, sentence, advice in TEMPLATES.values():
        assert severity in SEVERITIES and sentence and advice.endswith((".", "}"))


def test_numbers_of_the_sentence_are_numbers():
    gap = found(check(t=np.where(T > 2, T + 3, T)), DiagnosticCode.TIME_GAPS)
    assert gap is not None and gap.numbers["longest"] == pytest.approx(3.01)
    assert gap.sentence.startswith("1 gap; the largest lasts 3.01")
