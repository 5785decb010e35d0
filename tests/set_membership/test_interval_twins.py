"""Every interpreted twin against its compiled loop: the same sets, up to the rounding that one of them avoids."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from rigs import random_rig, rig_problem

from dynident import maths
from dynident.set_membership.flows.boxes import Boxes
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.flows.mode_flow import FlowOptions
from dynident.set_membership.intervals import arithmetic, make_interval_kernel
from dynident.set_membership.intervals.kernel import CompiledIntervalKernel, build_tape, load_interval_library
from dynident.set_membership.setup import make_setup

needs_compiler = pytest.mark.skipif(load_interval_library() is None, reason="there is no C compiler")
OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
FUNCTIONS = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "sign")
CASES = 4000


def both_kernels(function):
    """tape.c, and tape_interpreted.py."""
    pytest.importorskip("ival")
    from dynident.set_membership.intervals.tape_interpreted import CrivalKernel

    compiled = make_interval_kernel(function)
    assert isinstance(compiled, CompiledIntervalKernel)
    return compiled, CrivalKernel(build_tape(function))


def intervals(rng):
    """Of every size, some thin, some that end at zero or nowhere."""
    lo = rng.standard_normal(CASES) * 10.0 ** rng.uniform(-300, 150, CASES)
    hi = lo + np.abs(rng.standard_normal(CASES)) * 10.0 ** rng.uniform(-300, 150, CASES) * rng.choice([0, 1], CASES)
    kind = rng.integers(0, 8, CASES)
    lo, hi = np.where(kind == 0, 0.0, np.minimum(lo, hi)), np.where(kind == 1, np.inf, np.maximum(lo, hi))
    return lo, np.where(kind == 0, np.abs(hi), hi)


@needs_compiler
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_of_arrays_rounds_as_the_compiled_one(name):
    rng = np.random.default_rng(5)
    a, b, (x, y) = intervals(rng), intervals(rng), (ca.SX.sym("x"), ca.SX.sym("y"))
    kernel = make_interval_kernel(ca.Function("f", [x, y], [OPERATIONS[name](x, y)]))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = getattr(arithmetic, name)(a, b)
    found = kernel.evaluate(np.array([a[0], b[0]]), np.array([a[1], b[1]]))
    assert np.array_equal(found[0][0], expected[0], equal_nan=True) and np.array_equal(found[1][0], expected[1], equal_nan=True)


@needs_compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_interpreted_tape_is_within_the_compiled_enclosure_and_hardly_narrower(name):
    rng = np.random.default_rng(6)
    x = ca.SX.sym("x")
    lo = rng.uniform(0.01 if name in ("log", "sqrt") else -0.9, 0.9, (1, CASES))
    hi = np.minimum(lo + rng.uniform(0, 0.5, (1, CASES)) * rng.choice([0, 1], (1, CASES)), 1.0)
    ours, theirs = (kernel.evaluate(lo, hi) for kernel in both_kernels(ca.Function("f", [x], [getattr(maths, name)(x)])))
    unit = np.spacing(np.maximum(np.abs(ours[0]), np.abs(ours[1])))
    assert np.all(theirs[0] >= ours[0]) and np.all(theirs[1] <= ours[1])
    assert np.all(theirs[0] - ours[0] <= 9 * unit) and np.all(ours[1] - theirs[1] <= 9 * unit)  # libm's margin, twice over


@needs_compiler
def test_crival_contractor_leaves_what_the_compiled_one_leaves():
    """Both kernels leave the same up to rounding; crival sometimes less, where a divisor holds zero."""
    z = ca.SX.sym("z", 3)
    function = ca.Function("f", [z], [z[0] * z[1] - maths.exp(z[2]) / 2])
    rng = np.random.default_rng(4)
    lo = rng.uniform(-2, 2, (3, 500))
    hi = lo + rng.uniform(0, 2, (3, 500))
    want = np.full((1, 1), 0.3), np.full((1, 1), 0.5)
    ours, theirs = (kernel.contract(lo, hi, *want, passes=3) for kernel in both_kernels(function))
    assert np.array_equal(np.isnan(ours[0]), np.isnan(theirs[0]))
    left = ~np.isnan(ours[0])
    assert np.all((theirs[0] >= ours[0] - 1e-12)[left]) and np.all((theirs[1] <= ours[1] + 1e-12)[left])
    assert np.mean(np.isclose(ours[0], theirs[0], rtol=1e-12)[left]) > 0.9
    assert np.nanmax(hi - lo - (theirs[1] - theirs[0])) > 0.5


@needs_compiler
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fused_step_leaves_what_the_arrays_leave(seed):
    setup = make_setup(rig_problem(random_rig(seed)), {}, False)
    record = setup.records[0]
    compiled, arrays = (HybridStep(setup.automaton, FlowOptions(3), compiled) for compiled in (True, False))
    assert compiled.fused_steps[0] is not None and arrays.fused_steps[0] is None
    lo, hi = setup.box(0, setup.low, setup.high)
    rng = np.random.default_rng(seed)
    boxes = compiled.start(Boxes(lo[:, None], hi[:, None], np.zeros(1, int)), record.steps[0])
    for k in range(1, 60):
        cuts = rng.random((5, boxes.count))
        width = (boxes.hi - boxes.lo) * rng.choice([1.0, 0.3], 5)[:, None]
        boxes = Boxes(boxes.lo + cuts * (boxes.hi - boxes.lo - width), boxes.hi - (1 - cuts) * (
            boxes.hi - boxes.lo - width), boxes.mode)
        boxes = boxes.select(np.all(boxes.lo <= boxes.hi, axis=0))
        ways = [step.advance(boxes, record.steps[k - 1], record.sample(k), True) for step in (compiled, arrays)]
        assert ways[0][1] == ways[1][1]
        same = [np.concatenate([b.lo, b.hi, b.mode[None]])[:, np.lexsort(np.concatenate([b.lo.round(9), b.mode[None]]))]
                for b, _ in ways]
        assert same[0].shape == same[1].shape
        assert np.allclose(*same, rtol=1e-14, atol=1e-16)  # terms are added in another order
        boxes = ways[0][0] if 0 < ways[0][0].count < 200 else compiled.start(
            Boxes(lo[:, None], hi[:, None], np.zeros(1, int)), record.steps[k])
