"""Claims about isolation: whatever an FMU does, the trial fails with a sentence and the work goes on."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from fmu_makers import LAG, LAG_VALUES, exported, needs_compiler, tampered

import dynident as di
from dynident.fmu.process import MAX_WARM, warm_workers
from dynident.fmu.simulator import FmuBroken, SimulatorPool
from dynident.integrators.grid import grid_of

pytestmark = needs_compiler
T = np.linspace(0.0, 4.0, 81)
EXPERIMENT = di.Experiment(T, {"u": np.sin(3 * T)}, hold="linear")
HEAD = "static void model_rate(Model *m, double t, const double *x, double *dx) {"
DEEDS = {"crash": ("*(volatile int *)0 = 1;", r"crashed \(Segmentation fault\)"),
         "abort": ("abort();", r"crashed \(Aborted\)"),
         "exit": ("exit(3);", r"ended its process \(exit code 3\)"),
         "hang": ("for (;;) { volatile int a = 0; (void)a; }", "did not answer within 1 s")}


def bad_above(gain, deed):
    return tampered("bad", {HEAD: f"{HEAD}\n  if (m->v[AT_P] > {gain}) {{ {deed} }}"})


def simulator(path, limit=1.0):
    model = di.FmuModel(path, time_limit=limit)
    grid = grid_of(model, EXPERIMENT, 1, True)
    made = model.simulator(("gain",))
    return lambda gain: made.run(np.array([gain]), grid)[0]


@pytest.mark.parametrize("deed", DEEDS)
def test_whatever_it_does_the_trial_fails_with_a_sentence_and_the_next_succeeds(deed):
    code, sentence = DEEDS[deed]
    run = simulator(bad_above(10, code))
    before = run(2.0)
    with pytest.raises(di.DynidentError, match=sentence):
        run(11.0)
    assert np.array_equal(run(2.0), before)


def test_a_fit_goes_on_after_crashes_on_the_way(monkeypatch):
    """The first steps from the start leave the region in which the FMU works."""
    y = di.simulate(LAG, {"gain": 4.0, "tau": 0.5, "x(0)": 0}, EXPERIMENT).outputs["y"]
    record = di.Experiment(T, EXPERIMENT.inputs, {"y": y + 0.01 * np.random.default_rng(2).normal(size=T.size)},
                           {"y": di.Gaussian(0.01)}, hold="linear")
    path = tampered("bad", {HEAD: f"{HEAD}\n  if (m->v[AT_P + 1] < 0.3) {{ {DEEDS['crash'][0]} }}"})
    problem = di.Problem(di.FmuModel(path), [record], [di.Parameter("gain", start=4.0, free=False),
                                                       di.Parameter("tau", start=3.0, lower=0.01)])
    crashes = []
    count = SimulatorPool._count
    monkeypatch.setattr(SimulatorPool, "_count", lambda pool, *told: (crashes.append(told), count(pool, *told)))
    estimate = di.identify(problem, di.least_squares(), progress=False)
    low, high = estimate.uncertainty.interval("tau", 0.9999)
    assert crashes and low < 0.5 < high


def test_three_crashes_at_different_points_end_it():
    run = simulator(bad_above(10, DEEDS["crash"][0]))
    for gain in (11.0, 12.0):
        with pytest.raises(di.DynidentError):
            run(gain)
    with pytest.raises(FmuBroken, match="failed at 3 different points"):
        run(13.0)


def test_an_error_status_is_a_failed_trial():
    run = simulator(tampered("sad", {"  model_rate(M, M->v[AT_T], M->v, dx);\n": """
  if (M->v[AT_P] > 10) return ERROR;
  model_rate(M, M->v[AT_T], M->v, dx);
"""}))
    with pytest.raises(di.DynidentError, match="computing the rates returned 'error'"):
        run(11.0)
    assert np.all(np.isfinite(run(2.0)))


def test_a_banner_on_stdout_disturbs_nothing(capfd):
    loud = tampered("loud", {"EXPORT int fmi2EnterInitializationMode(Instance c) { (void)c; return OK; }": """
EXPORT int fmi2EnterInitializationMode(Instance c) { puts("*** BANNER ***"); fflush(stdout); (void)c; return OK; }"""})
    assert np.array_equal(simulator(loud)(2.0), simulator(exported())(2.0))
    assert "BANNER" not in capfd.readouterr().out


def test_an_fmu_that_dies_in_reset_gets_a_fresh_instance_each_time():
    fragile = tampered("fragile", {"EXPORT int fmi2Reset(Instance c) { model_reset(M); return OK; }":
                                   "EXPORT int fmi2Reset(Instance c) { abort(); }"})
    run, honest = simulator(fragile), simulator(exported())
    for gain in (2.0, 3.0, 2.0):
        assert np.array_equal(run(gain), honest(gain))


def test_code_that_cannot_be_loaded_is_said_at_once(tmp_path):
    """A library that needs another one which is not there, as with a missing runtime of the tool that made it."""
    honest = exported()
    with zipfile.ZipFile(honest) as archive, zipfile.ZipFile(tmp_path / "broken.fmu", "w") as made:
        for entry in archive.namelist():
            made.writestr(entry, b"no code" if entry.startswith("binaries/") else archive.read(entry))
    for trusted in (True, False):
        with pytest.raises(FmuBroken, match=r"broken.fmu cannot be loaded.*may be missing"):
            di.simulate(di.FmuModel(tmp_path / "broken.fmu", trusted=trusted), {}, EXPERIMENT)


def test_isolated_and_trusted_give_the_same_bits():
    grid = grid_of(LAG, EXPERIMENT, 2, True)
    both = [di.FmuModel(exported(), trusted=t).simulator(()).run(np.zeros(0), grid)[0] for t in (True, False)]
    assert both[0].tobytes() == both[1].tobytes() and LAG_VALUES


def process_after(model):
    """The process that a simulation used, after its simulator is gone."""
    made = model.simulator(())
    made.run(np.zeros(0), grid_of(model, EXPERIMENT, 1, True))
    return made.pool.idle[0].worker.process


def test_a_process_is_kept_warm_for_the_next_simulation_of_the_same_fmu():
    model = di.FmuModel(exported())
    first, second = process_after(model), process_after(model)
    assert first is second and first.poll() is None
    assert process_after(di.FmuModel(exported(version="3.0"))) is not first  # no process runs the code of two FMUs


def test_few_processes_are_kept_and_none_beyond_the_session():
    """As many simulators of one FMU at once as would need twelve processes; then the end of the session."""
    model = di.FmuModel(exported())
    grid, made = grid_of(model, EXPERIMENT, 1, True), [model.simulator(()) for _ in range(MAX_WARM + 2)]
    for one in made:
        one.run(np.zeros(0), grid)
    processes = [one.pool.idle[0].worker.process for one in made]
    del made, one
    alive = [p for p in processes if p.poll() is None]
    assert len(alive) <= MAX_WARM
    warm_workers.close()
    assert all(p.poll() is not None for p in processes)
    warm_workers.closed = False  # as at the begin of a session


def test_a_process_that_has_died_meanwhile_is_not_used():
    model = di.FmuModel(exported())
    process = process_after(model)
    process.kill()
    process.wait()
    assert process_after(model) is not process
