"""Right-hand sides as users write them, beyond those of a first collection: three states, one input, three parameters."""

import functools
import math

import numpy as np
from numpy import array, cos, dot, sin, zeros
from numpy.linalg import norm as length

K = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 2.0]])
GRID, VALUES = np.linspace(-2, 2, 9), np.cos(np.linspace(-2, 2, 9))
LIMITS = {"low": -0.4, "high": 0.6}
cases = {}  # must be traced exactly
refused = {}  # must be refused, with the line


def case(f):
    cases[f.__name__] = f
    return f


def refusal(f):
    refused[f.__name__] = f
    return f


def saturate(v, low, high):
    if v < low:
        return low
    if v > high:
        return high
    return v


def friction(v, p):
    return p[0] * math.tanh(v / 0.1) + p[1] * v


class Plant:
    def __init__(self, gain):
        self.gain = gain

    def rate(self, t, x, u, p):
        return np.array([x[1], -self.gain * np.sin(x[0]) + u[0], friction(x[2], p)])

    def __call__(self, t, x, u, p):
        return self.gain * np.flip(x)


@case
def unpacked(t, x, u, p):
    q, v, w = x
    k, d, c = p
    return [v, -k * q - d * v + u[0], -c * w]


@case
def imported_by_name(t, x, u, p):
    dx = zeros(3)
    dx[:2] = array([cos(x[0]), sin(x[1])])
    dx[2] = dot(x, p) / length(p)
    return dx


@case
def helper_with_branches(t, x, u, p):
    return np.array([saturate(v, -0.5, 0.5) for v in x])


@case
def helper_with_math(t, x, u, p):
    return [friction(v, p) for v in x]


@case
def nested_function(t, x, u, p):
    def spring(q, k):
        return -k * q if abs(q) > 0.3 else 0.0

    return [spring(x[0], p[0]), spring(x[1], p[1]), 0.0]


@case
def comprehension_over_matrix(t, x, u, p):
    return [sum(K[i, j] * x[j] for j in range(3)) for i in range(3)]


@case
def loop_with_index(t, x, u, p):
    n = len(x)
    dx = np.zeros(n)
    for i in range(n):
        dx[i] = -p[i] * x[i]
        if i > 0:
            dx[i] += x[i - 1]
        if i < n - 1:
            dx[i] += x[i + 1]
    return dx


@case
def builtin_max(t, x, u, p):
    return [max(x[0], 0), min(x[1], p[0], 1.0), max(x) - min(x)]


@case
def elif_chain(t, x, u, p):
    if x[0] > 1:
        f = 1.0
    elif x[0] > 0:
        f = x[0]
    else:
        f = p[0] * x[0] ** 2
    return np.array([f, x[1], x[2]])


@case
def and_or_not(t, x, u, p):
    moving = abs(x[1]) > 0.1 and not (x[0] > 1 or x[0] < -1)
    return [x[1] if moving else 0.0, -x[0], x[2]]


@case
def ternary_sign(t, x, u, p):
    s = 1 if x[1] >= 0 else -1
    return [x[1], -p[0] * s * x[1] ** 2, 0]


@case
def mask_with_values(t, x, u, p):
    y = np.sin(x)
    negative = x < 0
    y[negative] = -x[negative]
    return y


@case
def clip_limits(t, x, u, p):
    return np.clip(p * x, LIMITS["low"], LIMITS["high"]) + np.clip(u, None, 1.0)


@case
def linear_algebra(t, x, u, p):
    M = np.eye(3) + np.outer(x, x)
    return np.linalg.inv(M) @ p + np.linalg.det(M) * x


@case
def four_by_four(t, x, u, p):
    M = np.diag([2.0, 3.0, 4.0, 5.0])
    M[0, 1:] = x
    M[1:, 0] = x
    return np.linalg.solve(M, np.append(p, u[0]))[:3]


@case
def solve_matrix_right_side(t, x, u, p):
    M = np.array([[3.0, x[0]], [x[0], 4.0]])
    X = np.linalg.solve(M, np.array([[1.0, x[1]], [p[0], x[2]]]))
    return X.ravel()[:3]


@case
def einsums(t, x, u, p):
    return np.einsum("ij,j->i", K, x) + np.einsum("i,i->", x, p) * np.einsum("i,j->ij", x, p)[0]


@case
def look_up(t, x, u, p):
    return np.interp(x, GRID, VALUES) + np.interp(x[0], GRID, VALUES, left=0.0, right=7.0)


@case
def cross_and_dot(t, x, u, p):
    return np.cross(x, p) + np.dot(x, p) + np.inner(x, p) + np.vdot(x, p)


@case
def stacked(t, x, u, p):
    return np.concatenate([x[1:], [u[0] - p @ x]]) + np.vstack([x, p])[1] + np.column_stack([x, p])[:, 0]


@case
def reductions(t, x, u, p):
    A = np.vstack([x, p])
    return A.sum(axis=0) + A.mean(axis=1, keepdims=True)[0] + A.max(axis=0) + np.min(A) + np.prod(p) + x.std()


@case
def cumulative(t, x, u, p):
    return np.cumsum(x) + np.diff(np.append(x, 0.0)) + np.cumprod(p)


@case
def reshaped(t, x, u, p):
    A = np.tile(x, (2, 1)).T.reshape(2, 3)
    return A[0] * A[1] + A.T.flatten()[:3] + np.repeat(x[:1], 3) + x[::-1]


@case
def where_with_or(t, x, u, p):
    return np.where((x < -1) | (x > 1) & ~(p > 0), np.sqrt(np.abs(x)), np.tanh(x * p))


@case
def logical_functions(t, x, u, p):
    return np.where(np.logical_and(x > 0, np.logical_not(p > 0)), 1.0, np.logical_or(x > 1, x < -1) * 2.0)


@case
def any_and_all(t, x, u, p):
    if np.all(x > -1) or (x > 2).any():
        return x
    return -x


@case
def other_ufuncs(t, x, u, p):
    powers = np.log1p(x**2) + np.expm1(p) + np.cbrt(x) + np.exp2(x) + np.log2(1 + x**2)
    return powers + np.arcsinh(p) + np.deg2rad(p) + np.sinc(x)


@case
def math_functions(t, x, u, p):
    return [math.hypot(x[0], x[1]) + math.atan2(x[1], p[0]), math.pow(abs(x[2]), 1.5) + math.log(1 + x[0]**2, 10),
            math.copysign(p[0], x[0]) + math.radians(x[1]) + math.exp(-x[2]**2) + math.fabs(p[1])]


@case
def divide_where(t, x, u, p):
    out = np.zeros_like(x)
    np.divide(p, x, out=out, where=np.abs(x) > 0.2)
    return out


@case
def float_of_values(t, x, u, p):
    a, b = float(x[0]), np.float64(p[0])
    return np.array([a * b, float(u[0]), 1.0], dtype=np.float64)


@case
def local_import(t, x, u, p):
    from math import tanh

    import numpy as numpy_again
    y = numpy_again.zeros(3)
    y[0] = tanh(x[0])
    return y + numpy_again.sqrt(p**2)


@case
def polynomials(t, x, u, p):
    return np.polyval(p, x) + np.polyval([1.0, 2.0], x) + p[0] * x**3


@case
def heat_equation(t, x, u, p):
    y = np.empty(5)
    y[0], y[-1] = u[0], 0.0
    y[1:-1] = x
    return p[0] * (y[2:] - 2 * y[1:-1] + y[:-2]) / 0.1**2


@case
def broadcasting(t, x, u, p):
    r = x[:, None] - x[None, :]
    return -np.sum(p[None, :] * r / (r**2 + 0.01) ** 1.5, axis=1)


@case
def matrix_power_and_transpose(t, x, u, p):
    M = K * p[0] + np.diag(x)
    return (M.T @ M @ x) + M.diagonal() + np.trace(M) + np.linalg.matrix_power(M, 2)[0]


@case
def select_cases(t, x, u, p):
    return np.select([x < -1, x < 0, x < 1], [p, x * p, x**2]) + np.heaviside(x, 1.0)


@case
def padded(t, x, u, p):
    y = np.pad(x, (1, 1), mode="edge")
    return y[2:] - y[:-2]


@case
def norms(t, x, u, p):
    return np.linalg.norm(x, 1) * p + np.linalg.norm(np.vstack([x, p]), axis=0) + np.linalg.norm(x, np.inf)


@case
def keyword_default(t, x, u, p, gain=3.0, *, offset=0.5):
    return gain * x + offset


@case
def early_return(t, x, u, p):
    if t < 0:
        return np.zeros(3)
    return -p * x


@case
def sorted_values(t, x, u, p):
    return np.sort(x) + x[np.argmax(x)] + sorted(p)[0]


@case
def masked_sum(t, x, u, p):
    return np.array([x[x > 0].sum(), np.sum(np.where(p > 0, p, 0)), np.count_nonzero(x > 0) * 1.0])


@case
def while_with_counter(t, x, u, p):
    y, k = x, 0
    while k < 3:
        y, k = y - 0.1 * y**3, k + 1
    return y


@case
def quaternion_like(t, x, u, p):
    skew = np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])
    return 0.5 * skew @ p + np.kron(x, [1.0])


@case
def in_place_operators(t, x, u, p):
    y = np.array(x)
    y[0] *= 2
    y[1:] -= p[1:]
    y /= 1 + p**2
    y **= 2
    return y


cases["bound_method"] = Plant(9.81).rate
cases["callable_object"] = Plant(2.0)
cases["partial"] = functools.partial(keyword_default, gain=5.0)
cases["lambda"] = lambda t, x, u, p: [x[1], -p[0] * x[0] + u[0] * np.cos(t), x[2]]


@refusal
def endless_question(t, x, u, p):
    y = x[0]
    while y > 0.1:
        y = y * p[0]
    return [y, 0, 0]


@refusal
def random_disturbance(t, x, u, p):
    return -x + np.random.normal(size=3)


@refusal
def eigenvalues(t, x, u, p):
    return np.linalg.eigvals(K * p[0]).real + x


@refusal
def whole_numbers(t, x, u, p):
    return [np.floor(x[0]), x[1] % 1.0, int(x[2])]


@refusal
def integer_array(t, x, u, p):
    y = np.zeros(3, dtype=int)
    y[0] = x[0]
    return y


@refusal
def complex_impedance(t, x, u, p):
    return np.abs(1 / (p[0] + 1j * x))


@refusal
def outer_array(t, x, u, p):
    SHARED[0] = x[0]
    return SHARED * p


@refusal
def remembers(t, x, u, p):
    COUNT.append(1)
    return len(COUNT) * x


SHARED, COUNT = np.zeros(3), []
