"""Is a point that was just run not run again, and one that was left behind run anew?"""

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import Workspace
from dynident.methods.relaxed_start import RelaxedShooting
from dynident.transcription.shooting import Shooting


@pytest.fixture
def shooting() -> Shooting:
    t = np.linspace(0, 2, 41)
    model = di.EquationModel(states={"q": "v", "v": "-k*sin(q) - d*v"}, outputs={"angle": "q"})
    run = di.Experiment(t, outputs={"angle": np.cos(3 * t)}, noise={"angle": di.Gaussian(0.01)})
    problem = di.Problem(model, [run], [di.Parameter("k", 9.0), di.Parameter("d", 0.1)])
    return Shooting(problem, integrator_named("trapezoid"), [4], 1, {})


def moved(point, by):
    return replace(point, unknowns=point.unknowns + by)


def test_slopes_at_a_point_serve_its_cost_too(shooting):
    point = shooting.start()
    linear = shooting.linearize(point)
    assert shooting.evaluate(point).cost == linear.evaluation.cost
    assert shooting.counts == {"simulations": 0, "jacobians": 1}


def test_a_point_that_was_left_behind_is_run_anew(shooting):
    here = shooting.start()
    there = moved(here, 0.1)
    first, second = shooting.evaluate(here).cost, shooting.evaluate(there).cost
    assert shooting.evaluate(here).cost == first != second
    assert shooting.counts["simulations"] == 3


@pytest.mark.parametrize("free_nodes", [False, True])
def test_segments_alone_begin_with_what_is_known(shooting, free_nodes):
    begin = shooting.start()
    cost = shooting.linearize(begin).evaluation.cost
    alone = RelaxedShooting(shooting, begin, free_nodes)
    assert alone.linearize(alone.start()).evaluation.cost == cost
    assert shooting.counts["jacobians"] == 1
    assert alone.linearize(moved(alone.start(), 0.1)).evaluation.cost != cost
    assert alone.linearize(alone.start()).evaluation.cost == cost


# whose memory a linearisation stands in


def test_a_linearisation_is_not_disturbed_by_one_in_another_workspace(shooting):
    here = shooting.start()
    linear = shooting.linearize(here, Workspace())
    kept = linear.chains[0].jacobian.copy()
    there = shooting.linearize(moved(here, 0.1), Workspace())
    assert np.any(there.chains[0].jacobian != kept)
    np.testing.assert_array_equal(linear.chains[0].jacobian, kept)


def test_a_workspace_that_is_given_again_is_written_over(shooting):
    here, workspace = shooting.start(), Workspace()
    before = shooting.linearize(here, workspace)
    after = shooting.linearize(moved(here, 0.1), workspace)
    if compiler() is not None:  # the interpreted march has memory of its own
        assert after.chains[0].jacobian is before.chains[0].jacobian
    again = shooting.linearize(here, workspace)  # what was written over is not taken for known
    assert shooting.counts["jacobians"] == 3
    np.testing.assert_array_equal(again.chains[0].jacobian, shooting.linearize(replace(here)).chains[0].jacobian)


def test_what_is_known_of_a_point_outlasts_the_workspace_that_it_was_made_in(shooting):
    """Handed on to another owner, it is taken out of the workspace, which begins anew."""
    here, first = shooting.start(), Workspace()
    shooting.linearize(here, first)
    taken = shooting.linearize(here, Workspace())
    results = shooting.run(here, True)
    kept = taken.chains[0].jacobian.copy()
    shooting.linearize(moved(here, 0.1), first)
    np.testing.assert_array_equal(taken.chains[0].jacobian, kept)
    np.testing.assert_array_equal(results[0].jacobian, kept)
    assert shooting.counts["jacobians"] == 2
