"""Claims about the solver inside of a Co-Simulation FMU: its error does not move the estimate, or the estimate says so."""

from __future__ import annotations

import numpy as np
import pytest
import reference_fmus as made
from fmu_makers import needs_compiler
from reference_fmus import reference_fmu

import dynident as di
from dynident.solvers.stopping import noise_floor

pytestmark = needs_compiler
T = np.linspace(0.0, 6.0, 201)
TRUE = {"inertia": 1.0, "friction": 0.3}


def record(version=2, noise=1e-3):
    clean = di.simulate(di.FmuModel(reference_fmu(made.PENDULUM, version)), {}, di.Experiment(T)).outputs["angle"]
    y = clean + noise * np.random.default_rng(8).normal(size=T.size)
    return di.Experiment(T, {}, {"angle": y}, {"angle": di.Gaussian(noise)})


def fitted(experiment, version=2, **options):
    model = di.FmuModel(reference_fmu(made.PENDULUM, version), outputs=["angle"], **options)
    unknowns = [di.Parameter(name, start=1.3 * value, lower=0.0) for name, value in TRUE.items()]
    return di.identify(di.Problem(model, [experiment], unknowns), di.least_squares(), progress=False)


def difference(one, other):
    """In standard errors, the largest."""
    return max(abs(one.values[n] - other.values[n]) / other.uncertainty.std(n) for n in TRUE)


@pytest.mark.parametrize("version", [2, 3])
def test_both_interfaces_agree_within_a_tenth_of_a_standard_error(version):
    """Noise of 1e-5, for which the first tolerance of 1e-6 is not tight enough: it is tightened, and that is said."""
    experiment = record(version, noise=1e-5)
    ours, inside = (fitted(experiment, version, kind=kind) for kind in ("model_exchange", "co_simulation"))
    assert ours.converged and inside.converged
    assert difference(inside, ours) < 0.1
    assert any("was tightened" in note for note in inside.notes) and not any("tightened" in note for note in ours.notes)


def test_a_tolerance_that_is_given_is_kept_and_judged():
    experiment = record()
    rough = fitted(experiment, kind="co_simulation", tolerance=1e-4)
    assert difference(rough, fitted(experiment, kind="model_exchange")) > 1
    assert any("A tenth of the given tolerance would move the estimate" in note for note in rough.notes)
    assert any("By Model Exchange, which the FMU offers too" in note for note in rough.notes)


def test_a_tolerance_that_is_tight_enough_is_not_spoken_of():
    """Where noise is a tenth of the signal, 1e-6 moves nothing."""
    quiet = fitted(record(noise=0.1), kind="co_simulation")
    assert quiet.converged and not any("toleranc" in note or "By Model Exchange" in note for note in quiet.notes)


def decay_by_euler(**options):
    """A decay of 1 by an FMU with Euler's steps of 0.1 s inside, which alone makes 0.952 of it."""
    t = np.arange(0, 3.001, 0.1)
    y = np.exp(-t) + 2e-3 * np.random.default_rng(11).normal(size=t.size)
    model = di.FmuModel(reference_fmu(made.DAHLQUIST, 2), **options)
    problem = di.Problem(model, [di.Experiment(t, {}, {"x": y}, {"x": di.Gaussian(2e-3)})], [di.Parameter("k", start=0.5)])
    return di.identify(problem, di.least_squares(), progress=False)


def test_what_no_tolerance_mends_is_fitted_by_model_exchange():
    """Residuals and whatever else is asked of the result later are those of Model Exchange too."""
    ours, inside = (decay_by_euler(kind=kind) for kind in ("model_exchange", "co_simulation"))
    assert inside.converged and abs(inside.values["k"] - ours.values["k"]) < 0.1 * ours.uncertainty.std("k")
    assert any("the fit was repeated by Model Exchange" in note for note in inside.notes)
    assert inside.problem.model.kind == "model_exchange"
    assert np.allclose(inside.residuals[0]["x"], ours.residuals[0]["x"], atol=2e-4)  # a tenth of the noise


def test_a_given_tolerance_keeps_a_hidden_solver_of_fixed_steps_and_it_is_found_out():
    kept = decay_by_euler(kind="co_simulation", tolerance=1e-6)
    assert kept.problem.model.kind == "co_simulation" and abs(kept.values["k"] - 0.952) < 4 * kept.uncertainty.std("k")
    assert any("the solver inside of its Co-Simulation errs by that much" in note for note in kept.notes)


def test_halved_steps_do_not_chase_the_noise_of_a_solver_inside():
    """Its steps are its own; how often it is asked changes what it answers by its tolerance, and by no less."""
    model = di.FmuModel(reference_fmu(made.PENDULUM, 2), kind="co_simulation", outputs=["angle"], tolerance=1e-4)
    found = di.identify(di.Problem(model, [record(noise=1e-4)], [di.Parameter("inertia", start=1.1)]),
                        di.least_squares(), progress=False)
    assert found.counts["substeps"] <= 4


class Finite:
    """As much of a finite problem as the stopping rule asks."""

    rounding_cost, names = 0.0, ("k",)

    def __init__(self, samples, noise):
        self.residual_count, self.simulation_noise = samples, noise


def test_the_steps_that_noise_hides_are_those_that_it_does_hide():
    """A cost |r + J x|^2 for one unknown with residuals of one std, and noise of a given length on each evaluation: steps
    whose gain is the scatter of the cost by noise are hidden, whatever the number of samples is."""
    draw = np.random.default_rng(2)
    for samples in (100, 10_000):
        r, length = draw.normal(size=samples), 1e-2
        costs = [np.sum((r + length * e / np.linalg.norm(e)) ** 2) for e in draw.normal(size=(400, samples))]
        cost = float(np.sum(r**2))
        hidden = noise_floor(cost, Finite(samples, length)) ** 2 * cost / (samples - 1)  # as a gain
        assert 0.5 < hidden / np.std(costs) < 2
