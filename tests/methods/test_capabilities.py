"""Is every cell of the table of capabilities true: does a method fit what it says that it takes, and refuse the rest?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest

import dynident as di
from dynident.methods.capabilities import Capabilities, Support
from dynident.methods.presets import METHODS, method_class

T = np.linspace(0, 2, 41)
RUN = {"outputs": {"y": np.exp(-T) + 0.01 * np.sin(40 * T)}, "initial": {"x": 1.0}}
DECAY = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "x"})
OTHERS = ("multistart", "inverse_dynamics")  # takes what its inner method takes; takes robots, and equations never
KINDS = [kind for kind in METHODS if kind not in OTHERS]
FEATURES = [f.name for f in fields(Capabilities) if f.type == "Support"]


def problem(kind: str, model: di.EquationModel = DECAY, runs: int = 1, noise=None, record=None, parameter=None, **changes
            ) -> di.Problem:
    """A decay that every method fits: with a bound on its errors for set membership, with their std for all others."""
    usual = di.Bounded(0.05) if kind == "set_membership" else di.Gaussian(0.01)
    data = {**RUN, **(record or {})}
    records = [di.Experiment(T, noise={"y": noise or usual}, name=f"run {k}", **data) for k in range(runs)]
    return di.Problem(model, records, [di.Parameter("a", **{"start": 1.1, "lower": 0.5, "upper": 2.0, **(parameter or {})})],
                      **changes)


def hybrid(kind: str) -> di.Problem:
    model = di.EquationModel(modes={"up": di.Mode({"x": "a"}), "down": di.Mode({"x": "-a"})},
                             transitions=[di.Transition("up", "down", when="x > 0.5")], states=["x"], outputs={"y": "x"})
    noise = di.Bounded(0.1) if kind == "set_membership" else di.Gaussian(0.01)
    t = np.linspace(0, 1, 11)
    record = di.Experiment(t, outputs={"y": 0.5 - abs(t - 0.5)}, noise={"y": noise}, initial={"x": 0}, mode="up")
    return di.Problem(model, [record], [di.Parameter("a", start=1.1, lower=0.8, upper=1.2)])


def without_states(kind: str) -> di.Problem:
    model = di.EquationModel(states={}, outputs={"y": "exp(-a*u)"}, inputs=["u"])
    return problem(kind, model, record={"inputs": {"u": T}, "initial": {}})


def with_a_gap(kind: str) -> di.Problem:
    y = RUN["outputs"]["y"].copy()
    y[7:9] = np.nan
    return problem(kind, record={"outputs": {"y": y}})


def with_a_noisy_input(kind: str) -> di.Problem:
    model = di.EquationModel(states={"x": "-a*x + u"}, outputs={"y": "x"}, inputs=["u"])
    return problem(kind, model, record={"inputs": {"u": 0.001 * np.sin(T)}}, process_noise={"u": di.Gaussian(0.02)})


def with_a_filter(kind: str) -> di.Problem:
    asked = problem(kind, noise=di.Gaussian(0.01))
    return asked.replace(experiments=[run.prepared([di.lowpass(3)]) for run in asked.experiments])


def algebraic(kind: str, equation: str) -> di.Problem:
    return problem(kind, di.EquationModel(states={"x": "z"}, algebraic={"z": equation}, outputs={"y": "x"}))


def with_a_dead_time(kind: str) -> di.Problem:
    model = di.EquationModel(states={"x": "-a*x + delay(u, 0.1)"}, outputs={"y": "x"}, inputs=["u"])
    return problem(kind, model, record={"inputs": {"u": 0.001 * np.sin(T)}})


def in_discrete_time(kind: str) -> di.Problem:
    step = float(T[1] - T[0])
    return problem(kind, di.EquationModel(next={"x": f"x - {step!r}*a*x"}, sample_time=step, outputs={"y": "x"}))


def with_constants(kind: str) -> di.Problem:
    """Twice the rate in the second run, which a constant says."""
    model = di.EquationModel(states={"x": "-a*f*x"}, outputs={"y": "x"})
    noise = di.Bounded(0.05) if kind == "set_membership" else di.Gaussian(0.01)
    runs = [di.Experiment(T, outputs={"y": np.exp(-f * T)}, noise={"y": noise}, initial={"x": 1.0}, constants={"f": f},
                          name=f"run {f}") for f in (1.0, 2.0)]
    return di.Problem(model, runs, [di.Parameter("a", start=1.1, lower=0.5, upper=2.0)])


def with_repeats(kind: str) -> di.Problem:
    twice = np.repeat(T[::2], 2)
    noise = di.Bounded(0.05) if kind == "set_membership" else di.Gaussian(0.01)
    record = di.Experiment(twice, outputs={"y": np.exp(-twice) + 0.01 * np.sin(40 * np.arange(twice.size))}, noise={"y": noise},
                           initial={"x": 1.0})
    return di.Problem(DECAY, [record], [di.Parameter("a", start=1.1, lower=0.5, upper=2.0)])


WITH: dict[str, Callable[[str], di.Problem]] = {
    "bounds": problem, "priors": lambda kind: problem(kind, parameter={"prior": di.Prior(1.0, 0.1)}),
    "missing_values": with_a_gap, "several_experiments": lambda kind: problem(kind, runs=2),
    "gaussian_noise": lambda kind: problem(kind, noise=di.Gaussian(0.01)),
    "estimated_noise": lambda kind: problem(kind, noise=di.Gaussian()),
    "bounded_noise": lambda kind: problem(kind, noise=di.Bounded(0.05)), "hybrid_models": hybrid,
    "dead_times": with_a_dead_time, "discrete_time": in_discrete_time,
    "models_without_states": without_states, "constraints": lambda kind: problem(kind, constraints=["a <= 1.5"]),
    "state_bounds": lambda kind: problem(kind, constraints=["x <= 3"]),
    "process_noise": lambda kind: problem(kind, process_noise={"x": di.Gaussian(0.02)}), "input_noise": with_a_noisy_input,
    "uncertain_times": lambda kind: problem(kind, record={"time_radius": 0.01}),
    "filtered_outputs": with_a_filter,
    "algebraic_variables": lambda kind: algebraic(kind, "z + a*x"),
    "experiment_constants": with_constants, "repeated_times": with_repeats,
    "initial_formulas": lambda kind: problem(kind, record={"initial": {"x": "a/a"}}),
    "noise_formulas": lambda kind: problem(kind, noise=di.Gaussian("0.01*a")),
    "log_normal_noise": lambda kind: problem(kind, noise=di.LogNormal(0.02)),
    "priors_on_logarithms": lambda kind: problem(kind, parameter={"prior": di.Prior(0.0, 0.1, on="ln")}),
    "nonlinear_algebraic_variables": lambda kind: algebraic(kind, "z + z**3 + a*x + (a*x)**3")}


@pytest.mark.parametrize("feature", WITH)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_method_says_of_a_feature_is_what_it_does(kind: str, feature: str):
    method, asked = method_class(kind)(), WITH[feature](kind)
    if getattr(method.capabilities, feature) is Support.NO:
        with pytest.raises((di.NotSupported, di.ProblemError)):
            method.check_supports(asked)
        return
    method.check_supports(asked)
    try:
        estimate = di.identify(asked, method, progress=False)
    except di.NotConverged as end:  # a filter on a few samples may say so
        estimate = end.estimate
    assert np.isfinite(estimate.values["a"])


@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_process_noise_are_options_where_the_table_says_so(kind: str):
    options, takes = {f.name for f in fields(method_class(kind))}, method_class(kind)().capabilities
    assert ("loss" in options) == (takes.robust_losses is Support.YES)
    hands_on = kind == "automatic"  # to a method that has the option
    assert ("process_noise" in options or hands_on) == (takes.process_noise is Support.YES)


def test_only_least_squares_takes_a_model_without_equations_and_the_ladder_that_begins_with_it():
    assert [kind for kind in KINDS if method_class(kind)().capabilities.black_boxes is Support.YES] == [
        "automatic", "least_squares"]


def test_methods_that_begin_simulations_with_states_of_their_own_take_fmus_whose_state_can_be_set():
    """Tried on FMUs in tests/fmu/test_fmu_states.py."""
    assert [kind for kind in KINDS if method_class(kind)().capabilities.settable_states is Support.YES] == [
        "automatic", "single_shooting", "multiple_shooting", "least_squares", "kalman", "moving_horizon"]


def test_what_is_ignored_changes_nothing():
    bounds = [di.identify(asked("set_membership"), di.set_membership(), progress=False).uncertainty.interval("a")
              for asked in (problem, WITH["priors"])]
    assert bounds[0] == bounds[1]


def test_every_feature_is_tried():
    assert set(FEATURES) == {*WITH, "black_boxes", "settable_states", "robust_losses"}


def test_multistart_takes_what_its_method_takes():
    assert di.multistart(di.kalman()).capabilities == di.kalman().capabilities


FAMILIES = ("black_box", "kalman", "boundary", "set_membership", "inverse_dynamics", "automatic", "fmu", "robots", "papers",
            "fleet", "design", "workbench", "cli", "demo")
LOADED = {  # what a fit by each method loads of these: its own family, and no other but to begin from
    "di.single_shooting()": "", "di.multiple_shooting()": "", "di.full_discretization()": "",
    "di.least_squares()": "black_box", "di.kalman()": "kalman",
    "di.prediction_error()": "boundary|kalman",  # a search may begin from it
    "di.boundary_value()": "boundary", "di.set_membership()": "set_membership", "None": "automatic"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process forks for each method, so that the package is loaded once")
def test_a_fit_loads_no_module_of_another_family():
    script = ("import os, sys, numpy as np, dynident as di\n"
              "t = np.linspace(0, 2, 41)\n"
              "def problem(noise, **bounds):\n"
              "    run = di.Experiment(t, outputs={'y': np.exp(-t)}, noise={'y': noise}, initial={'x': 1.0})\n"
              "    model = di.EquationModel(states={'x': '-a*x'}, outputs={'y': 'x'})\n"
              "    return di.Problem(model, [run], [di.Parameter('a', start=0.9, **bounds)])\n"
              f"for name in {list(LOADED)}:\n"
              "    if (child := os.fork()) == 0:\n"
              "        proved = name == 'di.set_membership()'\n"
              "        asked = problem(di.Bounded(0.01), lower=0.5, upper=2.0) if proved else problem(di.Gaussian(0.01))\n"
              "        di.identify(asked, eval(name), progress=False)\n"
              f"        seen = {{m.split('.')[1] for m in sys.modules if m.startswith('dynident.')}} & set({FAMILIES})\n"
              "        print(name, *sorted(seen), sep='|', flush=True)\n"
              "        os._exit(0)\n"
              "    assert os.waitpid(child, 0)[1] == 0, name\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {line.partition("|")[0]: line.partition("|")[2] for line in done.stdout.split()}
    assert found == LOADED
