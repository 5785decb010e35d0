"""What a filter is told is what it does: priors, noise, holds and starts, in a batch, online and after saving."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di

MODEL = di.EquationModel(states={"x": "-a*x+b*u"}, inputs=["u"], outputs={"y": "x"})
FALL = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "x"})
TWO = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "x", "z": "2*x"})
TIME = 0.05 * np.arange(400)
INPUT = np.sin(TIME)
STILL = di.kalman(process_noise={})
BOTH = [di.Parameter("a", 0.8, 0.01, 10), di.Parameter("b", 1.5)]


def record(samples=400, std=0.01, hold="zero", x0=0.0, seed=0, b=2.0, known=True, **more):
    when, force = TIME[:samples], INPUT[:samples]
    quiet = di.Experiment(when, {"u": force}, initial={"x": x0}, hold=hold)
    y = di.simulate(MODEL, {"a": 1.0, "b": b}, quiet).outputs["y"]
    measured = y + std * np.random.default_rng(seed).standard_normal(samples)
    return di.Experiment(when, {"u": force}, {"y": measured}, {"y": di.Gaussian(std)},
                         initial={"x": x0} if known else {}, hold=hold, **more)


def fall(start=0.0, **more):
    """x = 3 exp(-t), first measured after a second."""
    when = 1 + TIME[:100]
    y = 3 * np.exp(-when) + 0.01 * np.random.default_rng(5).standard_normal(100)
    return di.Experiment(when, {}, {"y": y}, **{"noise": {"y": di.Gaussian(0.01)}, "start": start, **more})


@pytest.mark.parametrize("method", [STILL, di.moving_horizon(process_noise={}), di.kalman(process_noise={}, passes=3)])
@pytest.mark.parametrize("log", [False, True])
def test_filter_begins_at_the_mean_of_a_prior_and_not_at_the_start(method, log):
    problem = di.Problem(MODEL, [record(3)], [di.Parameter("a", 1.0, free=False),
                                              di.Parameter("b", 1.5, log=log, prior=di.Prior(5.0, 0.01))])
    batch = di.identify(problem, di.single_shooting())
    assert di.identify(problem, method).values["b"] == pytest.approx(batch.values["b"], abs=0.1 * 0.01)


def test_initial_state_with_a_prior_begins_at_its_mean():
    fixed = [di.Parameter("a", 1.0, free=False), di.Parameter("b", 2.0, free=False)]
    problem = di.Problem(MODEL, [record(50, known=False)], [*fixed, di.InitialState("x", 1.0, prior=di.Prior(0.02, 0.01))])
    estimate = di.identify(problem, di.kalman(process_noise={}, smoother=True))
    batch = di.identify(problem, di.single_shooting())
    assert estimate.values["x(0)"] == pytest.approx(batch.values["x(0)"], abs=0.1 * 0.01)


def test_prior_outside_of_the_bounds_is_refused():
    problem = di.Problem(MODEL, [record(30)], [BOTH[0], di.Parameter("b", 1.5, 0, 2, prior=di.Prior(5, 1))])
    with pytest.raises(di.NotSupported, match="'b': the prior's mean 5 lies outside of its bounds"):
        di.identify(problem, STILL)


def test_no_process_noise_stays_none_after_saving(tmp_path):
    estimate = di.identify(di.Problem(MODEL, [record(100)], BOTH), STILL)
    assert STILL.options()["process_noise"] == {}
    assert di.load(estimate.save(tmp_path / "results")).method == estimate.method


@pytest.mark.parametrize("options", [
    {"process_noise": 5.0}, {"process_noise": [1]}, {"process_noise": {"x": None}}, {"process_noise": {"x": [1.0, 2.0]}},
    {"initial_std": {"a": None}}, {"initial_std": 0.1}, {"gate": "3"}, {"gate": True}])
def test_options_that_are_no_numbers_are_refused(options):
    with pytest.raises(di.ProblemError, match=next(iter(options))):
        di.kalman(**options)


def test_online_filter_begins_where_the_initial_state_holds():
    problem = di.Problem(FALL, [fall(initial={"x": 3.0})], [di.Parameter("a", 0.8)])
    batch, online = di.identify(problem, STILL), STILL.start(problem)
    run, e = STILL.start(problem).run(problem.experiments[0]), problem.experiments[0]
    for t, y in zip(e.time, e.outputs["y"], strict=True):
        known = online.update(t, [], [y])
    assert known.parameters["a"] == pytest.approx(batch.values["a"], rel=1e-12)
    assert run.values[-1, 1] == pytest.approx(batch.values["a"], rel=1e-12)
    with pytest.raises(di.ProblemError, match="where the initial state"):
        STILL.start(problem).update(-1.0, [], [3.0])


def test_smoothed_initial_state_is_the_one_at_the_start():
    problem = di.Problem(FALL, [fall()], [di.Parameter("a", 1.0, free=False), di.InitialState("x", 2.5)])
    batch = di.identify(problem, di.single_shooting())
    estimate = di.identify(problem, di.kalman(process_noise={}, smoother=True, initial_std={"x": 10.0}))
    assert estimate.values["x(0)"] == pytest.approx(batch.values["x(0)"], abs=0.05 * estimate.uncertainty.std("x(0)"))
    assert estimate.uncertainty.std("x(0)") == pytest.approx(batch.uncertainty.std("x(0)"), rel=0.01)


def per_sample_problem():
    one = record()
    std = np.where(TIME < 10, 0.01, 1.0)
    noisy = replace(one, outputs={"y": np.asarray(one.outputs["y"]) + (TIME >= 10) * np.cos(9 * TIME)},
                    noise={"y": di.Gaussian(std)})
    return di.Problem(MODEL, [noisy], BOTH)


def test_standard_deviations_per_sample_are_used_by_run_and_refused_by_update_and_export(tmp_path):
    from dynident.kalman.export_c import export_filter

    problem = per_sample_problem()
    batch, e = di.identify(problem, STILL), problem.experiments[0]
    assert STILL.start(problem).run(e).values[-1, 1:] == pytest.approx([batch.values["a"], batch.values["b"]], rel=1e-12)
    with pytest.raises(di.NotSupported, match=r"run\(experiment\)"):
        STILL.start(problem).update(0.0, {"u": 0.0}, {"y": 0.0})
    with pytest.raises(di.NotSupported, match="standard deviation per sample"):
        export_filter(batch, tmp_path)
    early = di.identify(di.Problem(FALL, [fall(initial={"x": 3.0})], [di.Parameter("a", 0.8)]), STILL)
    with pytest.raises(di.NotSupported, match="first sample sets the time"):
        export_filter(early, tmp_path)


def test_run_takes_the_noise_of_its_record_and_refuses_what_does_not_fit():
    problem = di.Problem(MODEL, [record()], BOTH)
    rough = replace(record(), noise={"y": di.Gaussian(0.1)})
    assert STILL.start(problem).run(rough).std[-1] == pytest.approx(
        di.identify(di.Problem(MODEL, [rough], BOTH), STILL).filtered.records[0].std[-1], rel=1e-9)
    open_noise = replace(record(), noise={})
    assert STILL.start(problem).run(open_noise).std[-1] == pytest.approx(STILL.start(problem).run(record()).std[-1])
    with pytest.raises(di.ProblemError, match="'yy' is not an output of the model"):
        STILL.start(problem).run(di.Experiment(TIME, {"u": INPUT}, {"yy": INPUT}))
    with pytest.raises(di.ProblemError, match="hold=\"linear\""):
        STILL.start(problem).run(replace(record(), hold="linear"))
    with pytest.raises(di.ProblemError, match="Bounded"):
        STILL.start(problem).run(replace(record(), noise={"y": di.Bounded(0.1)}))


def test_output_without_a_known_size_of_its_errors_is_not_taken():
    problem = di.Problem(TWO, [fall(initial={"x": 3.0}, start=None)], [di.Parameter("a", 0.8)])
    online = STILL.start(problem)
    online.update(0.0, [], {"y": 3.0})
    with pytest.raises(di.ProblemError, match="does not measure 'z'"):
        online.update(0.1, [], {"y": 3.0, "z": 6.0})
    with pytest.raises(di.ProblemError, match="how large the errors of 'z'"):
        online.run(di.Experiment([1.0], {}, {"z": [6.0]}))
    online.run(di.Experiment([1.0], {}, {"z": [6.0]}, {"z": di.Gaussian(0.1)}))


@pytest.mark.parametrize("method", [STILL, di.moving_horizon(process_noise={}, horizon=3),
                                    di.kalman("unscented", process_noise={})])
def test_each_record_moves_its_inputs_as_it_says(method):
    """Linear inputs sampled as densely as the filter steps are those held; the second record alone says the truth."""
    sparse = slice(0, 400, 8)
    late = di.Experiment(TIME[sparse], {"u": INPUT[sparse]}, hold="linear", initial={"x": 0.0})
    y = di.simulate(MODEL, {"a": 1.0, "b": 2.0}, late).outputs["y"]
    late = replace(late, outputs={"y": y}, noise={"y": di.Gaussian(1e-3)}, name="B")
    quick = record(3, std=1.0, name="A")  # says hardly anything
    for records in ([quick, late], [late, quick]):
        estimate = di.identify(di.Problem(MODEL, records, BOTH), method)
        assert estimate.values["a"] == pytest.approx(1.0, abs=3 * estimate.uncertainty.std("a"))
        alone = di.identify(di.Problem(MODEL, [late], BOTH), method)
        assert estimate.values["a"] == pytest.approx(alone.values["a"], abs=alone.uncertainty.std("a"))


def own_b(smoother, order=1):
    records = [record(60, 0.05, name="A"), record(std=0.001, seed=2, b=3.0, name="B")][::order]
    problem = di.Problem(MODEL, records, [BOTH[0], di.Parameter("b", 1.5, shared=False)])
    return problem, di.identify(problem, di.kalman(process_noise={}, smoother=smoother))


@pytest.mark.parametrize("smoother", [False, True])
def test_covariance_of_shared_and_own_parameters_is_possible(smoother):
    _, estimate = own_b(smoother)
    assert np.linalg.eigvalsh(estimate.uncertainty.matrix).min() > 0
    names = estimate.uncertainty.names
    correlation = estimate.uncertainty.correlation()
    assert correlation[names.index("a"), names.index("b[A]")] == 0  # known at different times
    assert correlation[names.index("a"), names.index("b[B]")] > 0.1


def test_smoother_reaches_the_own_parameter_of_an_earlier_record():
    problem, estimate = own_b(smoother=True)
    batch = di.identify(problem, di.single_shooting())
    for name in ("b[A]", "b[B]"):
        std = estimate.uncertainty.std(name)
        assert estimate.values[name] == pytest.approx(batch.values[name], abs=0.3 * std)
        assert std == pytest.approx(batch.uncertainty.std(name), rel=0.2)
    assert estimate.values["b[A]"] == pytest.approx(estimate.filtered.records[0].smoothed[-1, 2], rel=1e-9)


def test_one_initial_state_for_several_records_is_refused():
    records = [record(50, known=False, name="A"), record(50, known=False, name="B")]
    problem = di.Problem(MODEL, records, [*BOTH, di.InitialState("x", shared=True)])
    with pytest.raises(di.NotSupported, match="shared=False"):
        di.identify(problem, STILL)
    alone = di.Problem(MODEL, records[:1], [*BOTH, di.InitialState("x", shared=True)])
    assert di.identify(alone, STILL).converged


def test_initial_state_outside_of_its_bounds_is_said():
    fixed = [di.Parameter("a", 1.0, free=False), di.Parameter("b", 2.0, free=False)]
    method = di.kalman(process_noise={}, smoother=True)

    def smoothed(x0):
        problem = di.Problem(MODEL, [record(x0=x0, known=False)],
                             [*fixed, di.InitialState("x", start=1.5, lower=1.4, upper=2)])
        return di.identify(problem, method)

    outside, inside = smoothed(1.0), smoothed(1.7)
    assert outside.uncertainty.remark("x(0)") == "outside of its bounds"
    assert any("outside of its bounds" in note for note in outside.notes)
    assert inside.uncertainty.remark("x(0)") == "" and not any("bounds" in note for note in inside.notes)
    assert inside.filtered.initial_std["x"] == pytest.approx(0.25 * 0.6)  # a quarter of their distance


@pytest.mark.parametrize("other", [
    {"process_noise": {"x": 0.1}}, {"substeps": 3}, {"gate": 4.0}, {"process_noise_unit": "sample"}])
def test_saved_state_of_other_options_is_refused(other, tmp_path):
    problem = di.Problem(MODEL, [record(50)], BOTH)
    online = STILL.start(problem)
    online.update(0.0, [0.0], [0.0])
    online.save(tmp_path / "state.npz")
    STILL.start(problem).resume(tmp_path / "state.npz")
    with pytest.raises(di.ProblemError, match="with other options"):
        replace(STILL, **other).start(problem).resume(tmp_path / "state.npz")


def test_saved_state_of_other_held_values_is_refused(tmp_path):
    def online(b):
        return STILL.start(di.Problem(MODEL, [record(50)], [BOTH[0], di.Parameter("b", b, free=False)]))

    online(1.0).save(tmp_path / "state.npz")
    with pytest.raises(di.ProblemError, match="with other options"):
        online(2.0).resume(tmp_path / "state.npz")


def test_update_refuses_what_is_no_finite_number():
    online = STILL.start(di.Problem(MODEL, [record(50)], BOTH))
    for t in (np.inf, np.nan, "x", None):
        with pytest.raises(di.ProblemError, match="give a finite number"):
            online.update(t, [0.0], [0.0])
    for y in (np.inf, np.float64(-np.inf), "hi", None, [1.0, 2.0]):
        with pytest.raises(di.ProblemError, match="output 'y'"):
            online.update(0.0, {"u": 0.0}, {"y": y})
    with pytest.raises(di.ProblemError, match="input 'u'"):
        online.update(0.0, {"u": "hi"}, {"y": 0.0})
    assert np.isnan(online.update(0.0, {"u": 0.0}, {"y": np.nan}).whitened_innovations["y"])  # missing
    assert np.isfinite(online.update(0.1, {"u": np.array(0.0)}, {"y": np.array(0.1)}).whitened_innovations["y"])


def test_start_names_the_experiments_there_are():
    problem = di.Problem(MODEL, [record(50)], BOTH)
    for wrong in (3, -1, "A", 0.5):
        with pytest.raises(di.ProblemError, match="numbered from 0 to 0"):
            STILL.start(problem, wrong)


def test_file_that_holds_no_state_is_refused(tmp_path):
    online = STILL.start(di.Problem(MODEL, [record(50)], BOTH))
    with pytest.raises(di.ProblemError, match="cannot be read"):
        online.resume(tmp_path / "missing.npz")
    online.save(tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    np.savez(tmp_path / "other.npz", memory=np.zeros(3))
    for name, text in (("text", b"t,u,y\n"), ("empty", b""), ("half", whole[:len(whole) // 2]), ("array", b"")):
        (tmp_path / name).write_bytes(text)
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("text", "empty", "half", "other.npz", "array.npy"):
        with pytest.raises(di.ProblemError, match="not the saved state"):
            online.resume(tmp_path / name)


def test_way_out_of_a_lost_covariance_is_one_that_the_filter_takes():
    from dynident.kalman.backend import FilterStopped

    said = {kind: str(FilterStopped(2, 0, 0.0, "run", di.kalman(filter=kind))) for kind in ("extended", "unscented")}
    assert 'covariance_update="square_root"' in said["extended"]
    assert "square_root" not in said["unscented"] and 'filter="extended"' in said["unscented"]
    assert "square_root" not in str(FilterStopped(2, 0, 0.0, "run", di.kalman(covariance_update="square_root")))


def spring(integrator, substeps=1):
    """A free vibration, well sampled, from a good start: all that can err is the discretization."""
    model = di.EquationModel(states={"q": "v", "v": "-k*q - d*v"}, outputs={"y": "q"})
    start = {"initial": {"q": 1.0, "v": 0.0}}
    y = di.simulate(model, {"k": 20.0, "d": 0.2}, di.Experiment(TIME[:200], **start)).outputs["y"]
    noisy = y + 0.02 * np.random.default_rng(7).standard_normal(200)
    problem = di.Problem(model, [di.Experiment(TIME[:200], {}, {"y": noisy}, {"y": di.Gaussian(0.02)}, **start)],
                         [di.Parameter("k", 20.2), di.Parameter("d", 0.25)])
    return di.identify(problem, di.kalman(process_noise={}, integrator=integrator, substeps=substeps))


def test_bias_of_the_discretization_is_said_although_the_innovations_look_right():
    coarse, fine, accurate = spring("heun"), spring("heun", 16), spring("runge_kutta")
    said = [note for note in coarse.notes if "steps half as long" in note]
    assert coarse.filtered.consistent
    assert abs(coarse.values["k"] - 20.0) > 3 * coarse.uncertainty.std("k")  # what the note is about
    assert len(said) == 1 and "k by " in said[0] and "substeps=2" in said[0]
    for good in (fine, accurate):
        assert abs(good.values["k"] - 20.0) < 3 * good.uncertainty.std("k")
        assert not any("steps half as long" in note for note in good.notes)
