"""Traced functions: those functions of NumPy that objects do not have, for traced arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import casadi
import numpy as np

from dynident.models.traced_arrays import (
    TracedNumber,
    TraceError,
    apply,
    array_of,
    array_ufunc,
    elementwise,
    expression,
    plain,
    wrapped,
)

CRAMER = 3  # up to so many rows by determinants, which need no pivot; beyond by QR


def where(condition: Any, *choices: Any) -> Any:
    if not choices:
        raise TraceError("where(condition) without values gives places that depend on values; write where(condition, then, "
                         "otherwise)")
    return wrapped(elementwise("where", condition, *choices))


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **given: Any) -> Any:
    low, high = given.get("min", a_min), given.get("max", a_max)
    result = array_of(a)
    result = result if low is None else elementwise("maximum", result, low)
    result = result if high is None else elementwise("minimum", result, high)
    if out is not None:
        plain(out)[...] = result
    return wrapped(result)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        raise TraceError("interp with a period is not known here")
    knots, heights = list(array_of(xp).ravel()), list(array_of(fp).ravel())
    if len(knots) != len(heights) or not knots:
        raise ValueError("fp and xp are not of the same length.")

    def one(value: Any) -> Any:
        found = heights[-1] if right is None else right
        if right is not None:  # numpy takes it beyond the last knot only
            found = apply("where", apply("less_equal", value, knots[-1]), heights[-1], right)
        for k in range(len(knots) - 2, -1, -1):
            slope = (heights[k + 1] - heights[k]) / (knots[k + 1] - knots[k])
            line = heights[k] + slope * (value - knots[k])
            found = apply("where", apply("less", value, knots[k + 1]), line, found)
        return apply("where", apply("less", value, knots[0]), heights[0] if left is None else left, found)

    found = np.frompyfunc(one, 1, 1)(array_of(x))
    return wrapped(found) if isinstance(found, np.ndarray) else found


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    result = array_of(default)
    for condition, choice in zip(reversed(list(condlist)), reversed(list(choicelist)), strict=True):
        result = elementwise("where", condition, choice, result)
    return wrapped(result)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    near = elementwise("add", atol, elementwise("multiply", rtol, elementwise("absolute", b)))
    return wrapped(elementwise("less_equal", elementwise("absolute", elementwise("subtract", a, b)), near))


def _joined(ufunc: np.ufunc) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
        keep = keepdims is True
        return array_ufunc(ufunc, "reduce", (a,), {"axis": axis, "keepdims": keep, **options})

    return reduce


def _square(a: Any) -> np.ndarray:
    matrix = array_of(a)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TraceError(f"linear algebra of an array of shape {matrix.shape} is not known here; one square matrix is")
    return matrix


def _matrix(values: np.ndarray) -> casadi.SX:
    return casadi.vertcat(*(casadi.horzcat(*(expression(each) for each in row)) for row in values))


def _rows(matrix: casadi.SX, shape: tuple[int, ...]) -> Any:
    dense = casadi.densify(matrix)
    flat = np.empty(dense.numel(), dtype=object)
    for k in range(dense.numel()):
        flat[k] = TracedNumber(dense[k // dense.shape[1], k % dense.shape[1]])
    return wrapped(flat.reshape(shape))


def determinant(matrix: casadi.SX) -> casadi.SX:
    """By the first row for small ones; casadi's own, which divides by nothing either, for the others."""
    n = matrix.shape[0]
    if n == 0:
        return casadi.SX(1)
    if n == 1:
        return matrix[0, 0]
    if n > CRAMER:
        return casadi.det(matrix)
    total = casadi.SX(0)
    for j in range(n):
        if not matrix[0, j].is_zero():
            rest = [k for k in range(n) if k != j]
            total += (-1) ** j * matrix[0, j] * determinant(matrix[1:, rest])
    return total


def solve_expressions(matrix: casadi.SX, right: casadi.SX) -> casadi.SX:
    n = matrix.shape[0]
    if n > CRAMER:
        return casadi.solve(matrix, right)
    whole, columns = determinant(matrix), []
    for j in range(right.shape[1]):
        replaced = [casadi.horzcat(*(right[:, j] if k == i else matrix[:, k] for k in range(n))) for i in range(n)]
        columns.append(casadi.vertcat(*(determinant(each) / whole for each in replaced)))
    return casadi.horzcat(*columns)


def solve(a: Any, b: Any) -> Any:
    matrix, right = _square(a), array_of(b)
    found = solve_expressions(_matrix(matrix), _matrix(right.reshape(len(matrix), -1)))
    return _rows(found, right.shape)


def inverse(a: Any) -> Any:
    matrix = _square(a)
    return _rows(solve_expressions(_matrix(matrix), casadi.SX.eye(len(matrix))), matrix.shape)


def determinant_of(a: Any) -> Any:
    return TracedNumber(casadi.densify(determinant(_matrix(_square(a)))))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    values = array_of(x)
    if values.ndim == 2 and axis is None and ord not in (None, "fro"):
        raise TraceError(f"the norm {ord!r} of a matrix is not known here")
    size = elementwise("absolute", values)
    reduce: Callable[..., Any] = functools.partial(array_ufunc, np.add, "reduce")
    options = {"axis": axis, "keepdims": keepdims}
    if ord in (None, 2, "fro"):
        return apply_to(wrapped(reduce((elementwise("square", values),), options)), "sqrt")
    if ord == 1:
        return reduce((size,), options)
    if ord in (math.inf, -math.inf):
        return array_ufunc(np.maximum if ord > 0 else np.minimum, "reduce", (size,), options)
    raise TraceError(f"the norm of order {ord!r} is not known here")


def apply_to(values: Any, name: str) -> Any:
    return wrapped(elementwise(name, values))


def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0, **options: Any) -> Any:
    values = array_of(array)
    numbered: Any = np.arange(1, values.size + 1).reshape(values.shape)
    places = np.pad(numbered, pad_width, mode=mode, **options)  # type: ignore[call-overload]  # which value goes where
    flat = np.append(np.array([constant_values], dtype=object), values.ravel())
    if mode == "constant" and np.ndim(constant_values):
        raise TraceError("pad with several constants is not known here")
    return wrapped(flat[places])


def sinc(x: Any) -> Any:
    y = elementwise("multiply", math.pi, x)
    safe = elementwise("where", elementwise("equal", y, 0.0), 1.0, y)
    return wrapped(elementwise("where", elementwise("equal", y, 0.0), 1.0,
                               elementwise("divide", elementwise("sin", safe), safe)))


def empty_like(prototype: Any, *_: Any, shape: Any = None, **__: Any) -> Any:
    return wrapped(np.full(np.shape(plain(prototype)) if shape is None else shape, math.nan, dtype=object))


def einsum(*operands: Any, **options: Any) -> Any:
    options.pop("optimize", None)
    def is_subscript(each: Any) -> bool:
        return isinstance(each, str) or (isinstance(each, list) and all(isinstance(k, int) for k in each))

    return wrapped(np.einsum(*(each if is_subscript(each) else array_of(each) for each in operands), **options))


def not_known(function: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise TraceError(f"the function {function.__name__} is not one that an equation can hold")

    return refuse


HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.where: where, np.clip: clip, np.interp: interp, np.select: select, np.isclose: isclose, np.any: _joined(np.logical_or),
    np.all: _joined(np.logical_and), np.max: _joined(np.maximum), np.min: _joined(np.minimum), np.linalg.solve: solve,
    np.linalg.inv: inverse, np.linalg.det: determinant_of, np.linalg.norm: norm, np.pad: pad, np.sinc: sinc,
    np.empty_like: empty_like, np.einsum: einsum,
    **{each: not_known(each) for each in (np.linalg.pinv, np.linalg.eig, np.linalg.eigvals, np.linalg.svd, np.linalg.lstsq,
                                          np.linalg.eigh, np.linalg.eigvalsh, np.linalg.qr, np.linalg.cholesky, np.round,
                                          np.around, np.unwrap, np.fft.fft, np.fft.ifft, np.nan_to_num, np.angle)}}
