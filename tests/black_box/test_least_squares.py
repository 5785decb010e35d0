"""Claims about least squares on simulations: steps follow the noise, workers change nothing, a search helps."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import dynident as di
from dynident.black_box.difference_steps import ORDER, relative_noise, relative_steps, shows_noise

MODEL = di.library.mass_spring_damper()
TRUE = {"m": 2.0, "d": 0.5, "k": 3.0}
T = np.linspace(0.0, 10.0, 301)
U = np.sign(np.sin(T))


def problem(start=1.0, noise=1e-3, **bounds):
    clean = di.simulate(MODEL, {**TRUE, "x(0)": 0, "v(0)": 0}, di.Experiment(T, {"F": U})).outputs["position"]
    y = clean + noise * np.random.default_rng(0).normal(size=T.size)
    record = di.Experiment(T, {"F": U}, {"position": y}, {"position": di.Gaussian(noise)}, {"x": 0, "v": 0})
    return di.Problem(MODEL, [record], [di.Parameter(n, start=start, **(bounds or {"lower": 0.01})) for n in TRUE])


def test_it_agrees_with_exact_derivatives():
    exact = di.identify(problem(), di.single_shooting(), progress=False)
    found = di.identify(problem(), di.least_squares(), progress=False)
    for name in TRUE:
        std = exact.uncertainty.std(name)
        assert abs(found.values[name] - exact.values[name]) < 1e-4 * std  # ten times the solver's own tolerance
        assert found.uncertainty.std(name) == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize("level", [1e-13, 1e-9, 1e-6, 1e-4])
def test_noise_is_measured_whatever_its_size(level):
    rng = np.random.default_rng(1)
    t = np.linspace(0, 5, 2000)
    row = [np.sin((2 + 2e-4 * k) * t) * (1 + level * rng.normal(size=t.size)) for k in range(ORDER + 1)]
    assert relative_noise(row) == pytest.approx(level, rel=0.2)


def test_noise_is_told_from_what_is_smooth_and_from_kinks():
    t, rng = np.linspace(0, 5, 2000), np.random.default_rng(1)
    noisy = [np.sin((2 + 2e-4 * k) * t) + 1e-9 * rng.normal(size=t.size) for k in range(ORDER + 1)]
    smooth = [np.sin((2 + 0.02 * k) * t) for k in range(ORDER + 1)]
    kinked = [np.sin((2 + 2e-4 * k) * t) + 1e-3 * max(0, k - 3) * (np.arange(t.size) == 700) for k in range(ORDER + 1)]
    assert shows_noise(noisy) and not shows_noise(smooth) and not shows_noise(kinked)


def test_steps_keep_the_noise_out_of_the_derivative():
    """A derivative by these steps errs by no more than a few times the best that is possible."""
    rng = np.random.default_rng(2)
    t = np.linspace(0, 5, 2000)

    def outputs(p, level):
        return np.sin(p * t) * (1 + level * rng.normal(size=t.size))

    for level in (1e-15, 1e-10, 1e-6):
        (step,), (both,) = relative_steps(level, np.array([1.0]))
        h = 2.0 * step
        back = outputs(2.0 - h, level) if both else outputs(2.0, level)
        slope = (outputs(2.0 + h, level) - back) / (2 * h if both else h)
        error = np.linalg.norm(slope - t * np.cos(2 * t)) / np.linalg.norm(t * np.cos(2 * t))
        best = 3 * level ** (2 / 3) if both else 2 * level**0.5
        assert error < 30 * best


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2)],
                         ids=["threads", "processes"])
def test_workers_change_no_number(make):
    alone = di.identify(problem(), di.least_squares(), progress=False)
    with make() as pool:
        together = di.identify(problem(), di.least_squares(), executor=pool, progress=False)
    assert dict(together.values) == dict(alone.values)


def test_a_search_needs_bounds_and_leads_out_of_a_wrong_valley():
    with pytest.raises(di.ProblemError, match="give lower and upper for m, d, k"):
        di.identify(problem(), di.least_squares(search=100), progress=False)
    wide = {"lower": 0.01, "upper": 40.0}
    found = di.identify(problem(start=39.0, **wide), di.least_squares(search=1500), progress=False)
    assert found.statistics["reduced_chi2"] < 1.2
    assert any("not proved to be the global one" in note for note in found.notes)


def test_a_noisy_simulation_ends_at_its_noise_and_says_so(monkeypatch):
    """A solver with loose tolerances inside: repeatable, but rough in the parameters."""
    from dynident.transcription import simulators

    plain = simulators.EquationRunner.run

    def rough(self, p, x0, grid, states=False):
        outputs, reached = plain(self, p, x0, grid, states)
        seed = abs(hash(p.tobytes())) % 2**32
        return outputs + 1e-6 * np.random.default_rng(seed).normal(size=outputs.shape), reached

    monkeypatch.setattr(simulators.EquationRunner, "run", rough)
    found = di.identify(problem(), di.least_squares(substeps=1), progress=False)
    exact = di.identify(problem(), di.single_shooting(), progress=False)
    for name in TRUE:  # the noise of the simulation is a thousandth of that of the data
        assert abs(found.values[name] - exact.values[name]) < 0.1 * exact.uncertainty.std(name)
        assert found.uncertainty.std(name) == pytest.approx(exact.uncertainty.std(name), rel=0.01)
