"""Bootstrap: agrees with the linearised covariance where that is right, and sees correlation where it is not."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from problems import MACHINES

MACHINE = MACHINES["mass_spring_damper"]


@pytest.fixture(scope="module")
def estimate() -> di.Estimate:
    return di.identify(MACHINE.problem())


@pytest.mark.parametrize("kind", ["parametric", "residual_block"])
def test_bootstrap_scatters_as_the_covariance_says(estimate, kind):
    found = di.bootstrap(estimate, kind, repeats=200)
    for name in estimate.problem.names:
        # 200 repeats know a std to 5 %; blocks of 5 residuals, and the residuals of one record, to another 12 %
        assert found.std(name) == pytest.approx(estimate.uncertainty.std(name), rel=0.15 if kind == "parametric" else 0.4)
        assert found.interval(name)[0] < estimate.values[name] < found.interval(name)[1]


def test_bootstrap_is_the_same_on_an_executor(estimate):
    with ThreadPoolExecutor(2) as pool:
        shared = di.bootstrap(estimate, repeats=40, executor=pool)
    assert np.array_equal(shared.samples, di.bootstrap(estimate, repeats=40).samples)


def test_an_estimate_with_refits_for_its_uncertainty_is_printed_saved_and_loaded(estimate, tmp_path):
    found = di.bootstrap(estimate, "residual_block", repeats=40)
    resampled = replace(estimate, uncertainty=found)
    assert "40 refits" in " ".join(str(resampled).split())
    resampled.save(tmp_path / "result")
    assert "refits to data" in (tmp_path / "result" / "report.html").read_text(encoding="utf-8")
    loaded = di.load(tmp_path / "result").uncertainty
    assert np.array_equal(loaded.samples, found.samples) and loaded.meaning == found.meaning
    assert all(loaded.interval(name) == found.interval(name) for name in estimate.problem.names)


def test_blocks_see_correlated_errors_that_independent_draws_miss():
    rng = np.random.default_rng(5)
    clean = MACHINE.outputs()["position"]
    noise = np.zeros(clean.size)
    for k in range(1, clean.size):
        noise[k] = 0.9 * noise[k - 1] + 0.01 * rng.standard_normal()
    run = MACHINE.record(None, noise_known=False)
    problem = di.Problem(MACHINE.model, [di.Experiment(run.time, run.inputs, {"position": clean + noise})],
                         MACHINE.parameters())
    estimate = di.identify(problem, di.multiple_shooting())  # the default takes slow errors for a disturbance here
    plain = di.bootstrap(estimate, "parametric", repeats=100).std("k")
    blocks = di.bootstrap(estimate, "residual_block", repeats=100).std("k")
    assert blocks > 1.3 * plain


def test_leave_one_out_predicts_each_record():
    records = [MACHINE.record(seed, name=f"run {seed}") for seed in range(3)]
    estimate = di.identify(di.Problem(MACHINE.model, records, MACHINE.parameters()))
    found = di.leave_one_out(estimate)
    assert [part.experiment for part in found.parts] == ["run 0", "run 1", "run 2"]
    assert all(part.validation.fit["position"] > 90 for part in found.parts)
    assert max(abs(s) for s in found.shifts("m").values()) < 4  # a third of the data moves it by about 0.7 std


def test_leave_one_out_of_one_record_is_refused(estimate):
    with pytest.raises(di.ProblemError, match="at least two experiments"):
        di.leave_one_out(estimate)


@pytest.mark.parametrize(("method", "why"), [
    (di.boundary_value(process_noise={"v": 0.1, "k": 1.0}), "lets the model err and k drift"),
    (di.multistart(di.boundary_value(), points=[{"k": 1.5}]), "lets the model err"),
    (di.kalman(), "comes from a filter"),
])
def test_refits_by_another_method_are_refused(method, why):
    """Neither would know of model errors, of what drifts, or of what a filter corrects."""
    e = replace(method.identify(MACHINE.problem(), None, lambda _: None), converged=True)
    for verb in (di.bootstrap, di.profile):
        with pytest.raises(di.NotSupported, match=rf"{verb.__name__} .*{why}.*multiple_shooting\(\)"):
            verb(e)


def test_refits_of_an_estimate_from_many_starts_know_its_loss():
    e = di.identify(MACHINE.problem(), di.multistart(di.single_shooting(loss="huber"), points=[{}]))
    with pytest.raises(di.NotSupported, match="fit with loss"):
        di.bootstrap(e)


def test_a_filter_left_without_a_record_knows_nothing_of_it():
    """What it begins with is part of what is known; the estimate from all records is not."""
    records = [MACHINE.record(seed, name=f"run {seed}") for seed in range(2)]
    problem = di.Problem(MACHINE.model, records, MACHINE.parameters())
    method = di.kalman()
    whole = method.identify(problem, None, lambda _: None)
    found = di.leave_one_out(whole)
    for k, part in enumerate(found.parts):
        alone = method.identify(problem.replace(experiments=[records[1 - k]]), None, lambda _: None)
        if part.estimate is not None:
            assert part.estimate.values == alone.values
    assert any(part.estimate is not None for part in found.parts)
