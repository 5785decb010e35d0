"""What filters promise beyond the textbook: bounds, gates, several records, and sentences when they fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from linear_oracle import oscillator

import dynident as di

KNOWN = {"process_noise": {"v": 0.3}, "integrator": "heun"}
WIDE = {"k": 4.0, "d": 2.0, "q": 0.2, "v": 0.1}


def rough(problem, **fields):
    return problem.replace(experiments=[replace(problem.experiments[0], notes=(), **fields)])


def test_parameters_stay_within_their_bounds_and_it_is_counted():
    problem, *_ = oscillator(600, seed=41, free=("k", "d"))
    initial = [p for p in problem.parameters if isinstance(p, di.InitialState)]
    tight = problem.replace(parameters=[di.Parameter("k", start=6, lower=5), di.Parameter("d", start=0.5, lower=0),
                                        *initial])  # the truth, k = 4, lies outside
    for method in (di.kalman(**KNOWN), di.moving_horizon(**KNOWN), di.kalman(**KNOWN, covariance_update="square_root")):
        estimate = di.identify(tight, method)
        assert np.min(estimate.filtered.records[0].values[:, 2]) >= 5
        assert estimate.counts["projections"] > 0 and any("bound" in note for note in estimate.notes)


def test_transformed_parameters_cannot_leave_and_agree_with_plain_ones():
    problem, *_ = oscillator(3000, seed=43, process=0.05, free=("k", "d"))
    initial = [p for p in problem.parameters if isinstance(p, di.InitialState)]
    noise = {"process_noise": {"v": 0.05}, "integrator": "heun", "initial_std": {"k": 1.0, "d": 0.4}}
    close = problem.replace(parameters=[di.Parameter("k", start=4.5, lower=0, upper=20),
                                        di.Parameter("d", start=0.5, lower=0), *initial])
    plain = di.identify(close, di.kalman(**noise))
    for other in (di.identify(close, di.kalman(**noise, bound_handling="transform")),
                  di.identify(close.replace(parameters=[replace(p, log=True) if isinstance(p, di.Parameter) else p
                                                        for p in close.parameters]), di.kalman(**noise))):
        for name in ("k", "d"):
            std = plain.uncertainty.std(name)
            assert other.values[name] == pytest.approx(plain.values[name], abs=std)
            assert other.uncertainty.std(name) == pytest.approx(std, rel=0.3)
            low, high = other.uncertainty.interval(name)
            assert 0 < low < other.values[name] < high


def test_gate_leaves_out_outliers_only():
    problem, *_ = oscillator(800, seed=47)
    y = np.array(problem.experiments[0].outputs["position"])
    hit = np.arange(50, 800, 97)
    y[hit] += 2.0
    spoiled = rough(problem, outputs={"position": y})
    open_filter = di.identify(spoiled, di.kalman(**KNOWN, initial_std={"q": 0.2, "v": 0.1}))
    gated = di.identify(spoiled, di.kalman(**KNOWN, initial_std={"q": 0.2, "v": 0.1}, gate=5.0))
    assert not open_filter.filtered.consistent and gated.filtered.consistent
    assert set(np.flatnonzero(gated.filtered.records[0].left_out[:, 0])) == set(hit)
    assert any("left out" in note for note in gated.notes)


def test_several_records_carry_shared_parameters_and_begin_states_anew():
    """Two records one after another give what one pass over twice the data gives, and the smoother reaches back."""
    first, *_ = oscillator(1500, seed=51, process=0.1, free=("k", "d"))
    second, *_ = oscillator(1500, seed=52, process=0.1, free=("k", "d"))
    records = [e.with_name(f"run {i + 1}") for i, p in enumerate((first, second)) for e in p.experiments]
    both = di.Problem(first.model, records, first.parameters)
    noise = {"process_noise": {"v": 0.1}, "integrator": "heun", "initial_std": WIDE}
    alone = di.identify(first, di.kalman(**noise))
    estimate = di.identify(both, di.kalman(**noise, smoother=True))
    carried = estimate.filtered.records
    assert carried[0].values == pytest.approx(alone.filtered.records[0].values, rel=1e-12)
    assert carried[1].std[0, 2] == pytest.approx(carried[0].std[-1, 2], rel=0.05)
    assert estimate.uncertainty.std("k") < 0.85 * alone.uncertainty.std("k")
    assert carried[0].smoothed[:, 2] == pytest.approx(np.full(1500, estimate.values["k"]), rel=1e-6)
    assert "q(0)[run 2]" in estimate.values


def test_own_parameters_of_each_record_begin_anew():
    first, *_ = oscillator(400, seed=53, free=("k",))
    records = [e.with_name(f"run {i}") for i in (1, 2) for e in first.experiments]
    own = [replace(p, shared=False) if isinstance(p, di.Parameter) and p.free else p for p in first.parameters]
    estimate = di.identify(di.Problem(first.model, records, own), di.kalman(**KNOWN))
    assert estimate.values["k[run 1]"] == pytest.approx(estimate.values["k[run 2]"], rel=1e-9)
    assert estimate.uncertainty.std("k[run 1]") == pytest.approx(estimate.uncertainty.std("k[run 2]"), rel=1e-6)


def test_filter_that_blows_up_stops_with_the_time_and_is_not_converged():
    model = di.EquationModel(states={"x": "-a*x*x*x"}, parameters=["a"])
    t = np.arange(50) * 1.0
    x = np.where((t > 3) & (t < 40), np.nan, 1 / np.sqrt(1 + 2 * t))  # nothing measured for long enough
    run = di.Experiment(t, outputs={"x": x}, noise={"x": di.Gaussian(1e-3)})
    problem = di.Problem(model, [run], [di.Parameter("a", start=60.0), di.InitialState("x", start=3.0)])
    with pytest.raises(di.NotConverged, match="At t = ") as stop:
        di.identify(problem, di.kalman(integrator="euler", process_noise={}, initial_std={"x": 1e-9, "a": 1e-9}))
    assert not stop.value.estimate.converged


def test_unstable_and_inaccurate_steps_are_warned_of():
    problem, *_ = oscillator(400, seed=57)
    stiff = problem.replace(parameters=[di.Parameter("k", start=900.0, free=False), *problem.parameters[1:]])
    stretched = di.identify(stiff, di.kalman(integrator="euler", process_noise={"v": 0.3}))  # measurements hold it
    assert any("euler is unstable at this sampling time" in note for note in stretched.notes)
    crude = di.identify(problem, di.kalman(integrator="euler", process_noise={"v": 0.01},
                                           initial_std={"q": 0.2, "v": 0.1}))
    assert any("One step of euler errs by" in note for note in crude.notes)
    fine = di.identify(problem, di.kalman(process_noise={"v": 0.3}, initial_std={"q": 0.2, "v": 0.1}))
    assert not any("One step" in note or "unstable" in note for note in fine.notes)


def test_wrong_words_are_all_said_at_once():
    with pytest.raises(di.ProblemError) as error:
        di.kalman(filter="extnded", covariance_update="josef", substeps=0, gate=-1, process_noise={"v": -1})
    assert len(error.value.faults) == 5 and "Did you mean 'extended'" in str(error.value)
    problem, *_ = oscillator(50, seed=59)
    with pytest.raises(di.ProblemError, match="neither a state nor a free parameter"):
        di.identify(problem, di.kalman(process_noise={"w": 1.0}))
    with pytest.raises(di.NotSupported, match="formula for one step"):
        di.kalman(integrator="radau")
    filter = di.kalman(**KNOWN).start(problem)
    filter.update(0.0, [1.0], [0.1])
    with pytest.raises(di.ProblemError, match="is not after the last"):
        filter.update(0.0, [1.0], [0.1])
    with pytest.raises(di.ProblemError, match="must be known everywhere"):
        filter.update(0.1, [np.nan], [0.1])
    with pytest.raises(di.ProblemError, match="'positon' is not an output"):
        filter.update(0.1, {"F": 1.0}, {"positon": 0.1})


def test_saved_filter_goes_on_where_it_was(tmp_path):
    problem, *_ = oscillator(200, seed=61, free=("k",))
    e = problem.experiments[0]

    def feed(filter, rows):
        for k in rows:
            known = filter.update(e.time[k], [e.inputs["F"][k]], [e.outputs["position"][k]])
        return known

    for method in (di.kalman(**KNOWN), di.moving_horizon(horizon=5, **KNOWN)):
        straight = feed(method.start(problem), range(200))
        half = method.start(problem)
        feed(half, range(100))
        half.save(tmp_path / "state.npz")
        resumed = method.start(problem)
        resumed.resume(tmp_path / "state.npz")
        assert feed(resumed, range(100, 200)).parameters == straight.parameters
    with pytest.raises(di.ProblemError, match="another model or with other options"):
        di.kalman(**KNOWN, covariance_update="square_root").start(problem).resume(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as saved:
        np.savez(tmp_path / "elsewhere.npz", **{**saved, "memory": saved["memory"][:-1]})
    with pytest.raises(di.ProblemError, match="another kind of machine"):
        method.start(problem).resume(tmp_path / "elsewhere.npz")


def test_result_and_its_histories_survive_saving(tmp_path):
    problem, *_ = oscillator(300, seed=63, free=("k", "d"))
    estimate = di.identify(problem, di.kalman(**KNOWN, smoother=True))
    again = di.load(estimate.save(tmp_path / "results"))
    assert again.method == estimate.method and again.values == estimate.values
    assert again.uncertainty.interval("k") == estimate.uncertainty.interval("k")
    assert np.array_equal(again.filtered.records[0].smoothed_std, estimate.filtered.records[0].smoothed_std)
    assert again.filtered.tests == estimate.filtered.tests
    page = (tmp_path / "results" / "report.html").read_text()
    assert "What the filter knew" in page
