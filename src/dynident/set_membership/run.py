"""Run: from a problem and the options to an estimate, by the algorithm that the options ask for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.methods.capabilities import check_supports
from dynident.problem.problem import Problem
from dynident.set_membership.batch import invert_batch
from dynident.set_membership.recursive import make_observer, run_recursive
from dynident.set_membership.result import build_set_estimate
from dynident.set_membership.setup import SetMembershipSetup, make_setup

if TYPE_CHECKING:
    from dynident.set_membership.method import SetMembership


def run(method: SetMembership, problem: Problem) -> Estimate:
    """Smooth models in the batch by set inversion; all others along the record."""
    began = time.perf_counter()
    setup, algorithm = _checked_setup(method, problem)
    smooth = algorithm == "batch" and not setup.model.hybrid
    result = invert_batch(method, setup) if smooth else run_recursive(method, setup, algorithm)
    return build_set_estimate(setup, method, algorithm, result, time.perf_counter() - began)


def check_setup(method: SetMembership, problem: Problem) -> None:
    """Raise what there is to say against the problem before anything is computed."""
    setup, algorithm = _checked_setup(method, problem)
    if algorithm != "batch" or setup.model.hybrid:
        make_observer(method, setup, algorithm)


def _checked_setup(method: SetMembership, problem: Problem) -> tuple[SetMembershipSetup, str]:
    """The setup, and the name of the algorithm."""
    check_supports(problem, method.kind, method.capabilities)
    setup = make_setup(problem, method.input_error, method.rigorous)
    algorithm = "batch" if method.algorithm == "auto" else method.algorithm  # by far the tightest per second
    states = setup.model.states
    if method.velocity and method.velocity not in states:
        raise ProblemError(f"velocity = '{method.velocity}' is not a state.{did_you_mean(method.velocity, states)}")
    if method.reset and algorithm == "batch" and not setup.model.hybrid:
        raise NotSupported("reset needs a model with modes, one of them at rest: this one has none, and its parameters "
                           "stay the same all along. Leave reset out, or cut the record where a parameter changes.")
    if method.max_outliers and algorithm == "paper":
        raise NotSupported("the published algorithm allows no outliers. Use algorithm=\"recursive\" or \"batch\".")
    return setup, algorithm
