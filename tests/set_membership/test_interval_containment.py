"""Interval operations never lose a value: each function of the grammar against 120 bits (python-flint)."""

import casadi as ca
import numpy as np
import pytest

from dynident import maths
from dynident.set_membership.intervals import make_interval_kernel

flint = pytest.importorskip("flint")

QUICK, FULL = 4_000, 45_000  # cases per function; the full run makes more than a million
NASTY = np.array([0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-300, -1e-300, 1.0, -1.0, 1.0 + 2**-52, 1 - 2**-53,
                  np.pi, -np.pi, np.pi / 2, 3 * np.pi / 2, 2.0, 0.5, 709.0, -745.0, 1e16, 1e22, -1e22, 1e300, -1e300,
                  1.7976931348623157e308, -1.7976931348623157e308, 3.0, 20.0, 1e-8, 100.0])

UNARY = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "sign")
BINARY = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
          "minimum": maths.minimum, "maximum": maths.maximum, "atan2": maths.atan2, "pow": lambda a, b: a**b}
POWERS = (2, 3, 4, 5, -1, -2, -3, 0.5, 1.5, -0.7, 7)
EXACT = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
         "minimum": lambda a, b: a.min(b), "maximum": lambda a, b: a.max(b),
         "abs": abs, "sign": lambda x: x.sgn()}


def points(rng, count):
    """Numbers of every size and kind."""
    sizes = 10.0 ** rng.uniform(-320, 300, count)
    mixed = np.concatenate([rng.standard_normal(count), rng.standard_normal(count) * sizes,
                            rng.uniform(-12, 12, count), rng.choice(NASTY, count)])
    return rng.choice(mixed, count)


def boxes(rng, count):
    """Intervals with a member each: thin, narrow, wide, ending at nasty numbers, unbounded."""
    x = points(rng, count)
    reach = np.where(rng.random((2, count)) < 0.3, 0, np.abs(points(rng, 2 * count)).reshape(2, count))
    with np.errstate(over="ignore"):
        lo, hi = x - reach[0], x + reach[1]
    other = points(rng, count)
    swap = rng.random(count) < 0.3
    return np.where(swap, np.minimum(x, other), lo), np.where(swap, np.maximum(x, other), hi), x


def exact(name, *arguments):
    """The value at points as an enclosure of 120 bits; None where the function is not defined there."""
    with flint.ctx.workprec(120):
        values = [flint.arb(float(a)) for a in arguments]
        if name == "atan2":
            return flint.arb.atan2(*values) if any(float(a) for a in arguments) else flint.arb(0)
        if name == "div" and not float(arguments[1]):
            return None
        if name == "pow":
            return power(*values, *(float(a) for a in arguments))
        value = EXACT[name](*values) if name in EXACT else getattr(values[0], name)()
        return value if value.is_finite() else None


def power(a, b, x, n):
    if x == 0:
        return flint.arb(0) if n > 0 else flint.arb(1) if n == 0 else None
    if x < 0 and n != int(n):
        return None
    value = a**int(n) if n == int(n) and abs(n) < 1e6 else a**b
    return value if value.is_finite() else None


def inside(value, lo, hi):
    """Is an enclosure of the exact value compatible with lying in [lo, hi]? Its radius is far below an ulp."""
    above = np.isneginf(lo) or not bool(value < flint.arb(float(lo)))
    below = np.isposinf(hi) or not bool(value > flint.arb(float(hi)))
    return above and below


def check(kernel, name, arguments, count, rng, extra=()):
    drawn = [boxes(rng, count) for _ in range(arguments)]
    lo, hi = kernel.evaluate(np.array([d[0] for d in drawn]), np.array([d[1] for d in drawn]))
    lost = []
    for k in range(count):
        at = [d[2][k] for d in drawn]
        value = exact(name, *at, *extra)
        if value is not None and not inside(value, lo[0, k], hi[0, k]):
            lost.append((at, [(d[0][k], d[1][k]) for d in drawn], (lo[0, k], hi[0, k]), str(value)))
    assert not lost, f"{name}: {len(lost)} of {count} lost, first {lost[0]}"


def unary(name):
    x = ca.SX.sym("x")
    return ca.Function("f", [x], [getattr(maths, name)(x)])


def binary(name):
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    return ca.Function("f", [x, y], [BINARY[name](x, y)])


COUNTS = [QUICK, pytest.param(FULL, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument_never_lose_a_value(name, count):
    check(make_interval_kernel(unary(name)), name, 1, count, np.random.default_rng(UNARY.index(name)))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", BINARY)
def test_operations_of_two_arguments_never_lose_a_value(name, count):
    check(make_interval_kernel(binary(name)), name, 2, count, np.random.default_rng(count))


@pytest.mark.parametrize("count", [QUICK // 4, pytest.param(FULL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("exponent", POWERS)
def test_constant_powers_never_lose_a_value(exponent, count):
    x = ca.SX.sym("x")
    kernel = make_interval_kernel(ca.Function("f", [x], [x**exponent]))
    check(kernel, "pow", 1, count, np.random.default_rng(count), extra=(exponent,))


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_correctly_rounded_kernel_never_loses_a_value(name):
    pytest.importorskip("ival")
    from dynident.set_membership.intervals.kernel import build_tape
    from dynident.set_membership.intervals.tape_interpreted import CrivalKernel

    function = binary(name) if name in BINARY else unary(name)
    check(CrivalKernel(build_tape(function)), name, 2 if name in BINARY else 1, QUICK, np.random.default_rng(3))


def correctly_rounded(function):
    pytest.importorskip("ival")
    from dynident.set_membership.intervals.kernel import build_tape
    from dynident.set_membership.intervals.tape_interpreted import CrivalKernel

    return CrivalKernel(build_tape(function))


@pytest.mark.parametrize("make", [make_interval_kernel, correctly_rounded])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_backward_contraction_never_loses_a_point(name, make):
    """Given f(x) in a box around f at a member, the member survives."""
    rng = np.random.default_rng(11)
    arguments = 2 if name in BINARY else 1
    function = binary(name) if arguments == 2 else unary(name)
    kernel = make(function)
    drawn = [boxes(rng, QUICK) for _ in range(arguments)]
    lo, hi = np.array([d[0] for d in drawn]), np.array([d[1] for d in drawn])
    x = np.array([d[2] for d in drawn])
    at_lo, at_hi = kernel.evaluate(x, x)
    defined = np.isfinite(at_lo[0]) & np.isfinite(at_hi[0])
    at_lo[0, ~defined] = at_hi[0, ~defined] = 0
    slack = rng.choice([0, 1e-12, 0.1], QUICK) * (1 + np.abs(at_lo[0]))
    with np.errstate(over="ignore", invalid="ignore"):
        narrow_lo, narrow_hi = kernel.contract(lo, hi, at_lo - slack, at_hi + slack, passes=2)
    kept = np.all((narrow_lo <= x) & (x <= narrow_hi), axis=0)
    assert np.all(kept[defined]), (name, np.flatnonzero(defined & ~kept)[:5])


@pytest.mark.parametrize("make", [make_interval_kernel, correctly_rounded])
def test_branches_not_taken_narrow_nothing(make):
    x = ca.SX.sym("x")
    kernel = make(ca.Function("f", [x], [maths.where(x > 0, maths.sqrt(x), 2.0)]))
    lo, hi = kernel.contract(np.array([[-1.0]]), np.array([[1.0]]), np.array([[-5.0]]), np.array([[5.0]]))
    assert (lo[0, 0], hi[0, 0]) == (-1.0, 1.0)


def test_division_by_zero_empty_and_infinite_intervals():
    kernel = make_interval_kernel(binary("div"))
    inf = np.inf
    lo = np.array([[1.0, 0.0, 1.0, 1.0, 2.0, np.nan], [0.0, -1.0, -1.0, 0.0, 1.0, 1.0]])
    hi = np.array([[2.0, 0.0, 2.0, 2.0, inf, np.nan], [0.0, 1.0, 1.0, 4.0, inf, 1.0]])
    got_lo, got_hi = kernel.evaluate(lo, hi)
    assert np.isnan(got_lo[0, 0]) and np.isnan(got_hi[0, 5])  # 1/[0, 0] and anything with the empty one: empty
    assert (got_lo[0, 1], got_hi[0, 1]) == (0, 0)
    assert (got_lo[0, 2], got_hi[0, 2]) == (-inf, inf)
    assert got_lo[0, 3] == pytest.approx(0.25) and got_lo[0, 3] <= 0.25 and got_hi[0, 3] == inf
    assert (got_lo[0, 4], got_hi[0, 4]) == (0, inf)


def test_rounding_mode_is_nearest_after_a_call():
    kernel = make_interval_kernel(unary("exp"))
    kernel.evaluate(np.zeros((1, 3)), np.ones((1, 3)))
    assert 1.0 + 2**-53 == 1.0 and -1.0 - 2**-53 == -1.0 and float("0.3") == 0.3


def test_enclosures_are_a_few_units_wide():
    """Soundness alone could be had by [-inf, inf]: thin arguments give results within 18 units in the last place."""
    x = np.random.default_rng(2).uniform(-1, 1, (1, 2000)) * 0.9
    for name in UNARY:
        lo, hi = make_interval_kernel(unary(name)).evaluate(np.abs(x), np.abs(x))
        assert np.all(hi - lo <= 18 * np.spacing(np.maximum(np.abs(lo), np.abs(hi)))), name
