"""Points of a hybrid record that are said to fit: do they, in a simulation that shares nothing with the enclosure?"""

import numpy as np
import pytest
from rigs import rig_problem

import dynident as di
from dynident.papers.drive_train import RigTruth, drive_train_record
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.flows.mode_flow import FlowOptions
from dynident.set_membership.hybrid_points import HybridFits, enclose_points
from dynident.set_membership.setup import make_setup

TRUTH = (-4.5, 65.0, 0.12)
RADIUS = 2e-3
NARROW = {"alpha": (-4.6, -4.4), "beta": (64.0, 66.0), "T_Fs": (0.115, 0.125)}
pytestmark = pytest.mark.compiled


def rig(seed=0):
    """Forward, to rest and backward within 2.4 s, so that three modes are passed; errors of nine tenths of their bound."""
    time = np.arange(121) * 0.02
    torque = np.where(time < 0.6, 0.3, np.where(time < 1.4, 0.05, -0.25)) + 0.01 * np.sin(7 * time)
    noise = 0.9 * RADIUS * np.random.default_rng(seed).uniform(-1, 1, time.size)
    return drive_train_record(time, torque, RigTruth(*TRUTH[:2], TRUTH[2:]), radius=RADIUS, noise=noise)


def errors_at(made, point):
    """Of the angle, in radii, where the rig has these values: events located, modes in closed form."""
    alpha, beta, breakaway, *first = point
    run = made.experiment
    angle = drive_train_record(run.time, run.inputs["torque"], RigTruth(alpha, beta, (breakaway,))).angle + sum(first)
    return np.abs(angle - run.outputs["angle"]) / RADIUS


def fits_of(made):
    setup = make_setup(rig_problem(made, NARROW), {}, False)
    return setup, HybridFits(setup, HybridStep(setup.automaton, FlowOptions(5)), setup.high - setup.low)


@pytest.mark.parametrize("algorithm", ["recursive", "batch"])
def test_an_answer_about_a_hybrid_record_shows_points_that_fit_beside_its_bounds(algorithm):
    made = rig()
    problem = rig_problem(made, NARROW)
    found = di.identify(problem, di.set_membership(algorithm=algorithm, max_boxes=40), progress=False).uncertainty
    assert found.feasible.shape[1] >= 5
    assert "points inside fit, as the enclosure of their solutions proves" in found.meaning
    for point in found.feasible.T:
        assert errors_at(made, point).max() <= 1 + 1e-9
    for name in problem.names:
        (low, high), (inner_low, inner_high) = found.interval(name), found.feasible_interval(name)
        assert low <= inner_low <= inner_high <= high
    inner = found.feasible_interval("beta")
    assert inner[1] - inner[0] > 0.02  # ends were looked for, not a point alone


def test_points_are_said_to_fit_where_a_simulation_fits_and_where_it_does_not_they_are_not():
    made = rig()
    setup, fits = fits_of(made)
    near = np.array([*TRUTH, *[0.0] * (setup.low.size - 3)])[:, None]
    points = near + 0.02 * (setup.high - setup.low)[:, None] * np.random.default_rng(1).uniform(-1, 1, (setup.low.size, 60))
    said, errors = fits.linearize(points)[3], np.array([errors_at(made, point).max() for point in points.T])
    assert 5 <= said.sum() <= 55
    assert np.all(errors[said] <= 1 + 1e-9)
    assert np.all(said[errors < 0.98])  # enclosures are this narrow, though modes change within steps


def test_points_with_the_same_parameters_are_told_apart_by_where_they_begin():
    made = rig()
    setup, fits = fits_of(made)
    boxes = np.array([[0.0, 1e-3, 0.0], [0.0, 0.0, 0.0], *[[value, value, value] for value in TRUTH]])
    boxes[3, 2] = 66.0
    low, high = enclose_points(fits.step, setup.records[0], boxes)
    middle = 0.5 * (low + high)[:, 0]
    assert np.allclose(middle[:, 1] - middle[:, 0], 1e-3, atol=1e-6)
    assert np.abs(middle[:, 2] - middle[:, 0]).max() > 1e-2


def test_where_a_parameter_may_change_at_rest_no_points_are_spoken_of():
    found = di.identify(rig_problem(rig(), NARROW), di.set_membership(max_boxes=20, reset={"T_Fs": "speed"}), progress=False)
    assert not found.uncertainty.feasible.size and not found.uncertainty.feasible_sentence
