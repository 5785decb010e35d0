"""Claims about Ctrl-C while an FMU is simulated: it is the session that is meant, and it ends soon with what it has."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from fmu_makers import exported, needs_compiler, tampered

import dynident as di
from dynident.fmu.process import IsolatedSimulator
from dynident.integrators.grid import grid_of

pytestmark = [needs_compiler, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]
T = np.linspace(0.0, 5.0, 51)
EXPERIMENT = di.Experiment(T, {"u": np.sin(3 * T)})
RATE = "model_rate(M, M->v[AT_T], M->v, dx);"


def simulator(path):
    model = di.FmuModel(path)
    made, grid = model.simulator(("gain",)), grid_of(model, EXPERIMENT, 1, True)
    return made, lambda gain: made.run(np.array([gain]), grid)[0]


def problem():
    y = di.simulate(di.FmuModel(exported(), outputs=["y"]), {}, EXPERIMENT).outputs["y"]
    record = di.Experiment(T, EXPERIMENT.inputs, {"y": y + 0.01 * np.random.default_rng(0).normal(size=T.size)})
    return di.Problem(di.FmuModel(exported(), outputs=["y"]), [record],
                      [di.Parameter("gain", start=1.0), di.Parameter("tau", start=1.0)])


def test_a_simulation_goes_on_when_its_process_is_interrupted():
    made, run = simulator(tampered("slow", {RATE: f"usleep(2000); {RATE}"}))
    run(1.0)
    process = made.pool.idle[0].worker.process
    assert os.getpgid(process.pid) != os.getpgrp()  # a terminal interrupts groups
    threading.Timer(0.1, os.kill, (process.pid, signal.SIGINT)).start()
    assert np.array_equal(run(2.0), simulator(exported())[1](2.0)) and process.poll() is None


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(monkeypatch):
    _made, run = simulator(exported())
    wanted = {gain: run(gain) for gain in (1.0, 2.0, 3.0)}
    receive = IsolatedSimulator._receive

    def interrupted(*told):
        monkeypatch.setattr(IsolatedSimulator, "_receive", receive)
        raise KeyboardInterrupt

    monkeypatch.setattr(IsolatedSimulator, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(3.0)
    time.sleep(0.2)
    assert np.array_equal(run(1.0), wanted[1.0]) and np.array_equal(run(2.0), wanted[2.0])


def test_an_interrupted_fit_simulates_its_best_point_once_and_no_more(monkeypatch):
    after = []
    run = IsolatedSimulator._run
    asked = problem()

    def watch(page):
        if page.number == 2:
            monkeypatch.setattr(IsolatedSimulator, "_run", lambda it, *told: (after.append(told[0]), run(it, *told))[1])
            raise KeyboardInterrupt

    with pytest.raises(di.NotConverged) as stopped:
        di.identify(asked, progress=watch)
    assert stopped.value.estimate.status.code == "interrupted"
    estimate = stopped.value.estimate
    assert len(after) == 1 and np.array_equal(after[0], [estimate.values["gain"], estimate.values["tau"]])
    assert np.all(np.isfinite([estimate.uncertainty.std(n) for n in ("gain", "tau")]))


def test_before_the_first_derivatives_there_is_nothing_to_keep(monkeypatch):
    asked, after = problem(), []
    run = IsolatedSimulator._run

    def counted(it, *told):
        after.append(told)
        if len(after) == 4:  # sub-steps are found, noise is being measured
            raise KeyboardInterrupt
        return run(it, *told)

    monkeypatch.setattr(IsolatedSimulator, "_run", counted)
    with pytest.raises(KeyboardInterrupt):
        di.identify(asked, progress=False)
    assert len(after) == 4
