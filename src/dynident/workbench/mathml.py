"""MathML: how does an equation look when it is set as a formula? A tree of elements, which the page builds one by one.

An element is a list: its name, then texts or elements. Nothing here is markup, so nothing in a name can become any.
"""

from __future__ import annotations

import ast
from typing import Any

from dynident._util.expressions import syntax_tree

GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
         "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ",
         "phi": "φ", "psi": "ψ", "omega": "ω"}
SIGNS: dict[type, str] = {ast.Add: "+", ast.Sub: "−", ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥", ast.Eq: "=",
                          ast.NotEq: "≠", ast.And: "and", ast.Or: "or"}
SUM, PRODUCT, SIGN, POWER, ATOM = 1, 2, 3, 4, 5  # how tightly a formula holds together
Element = list[Any]


def equation(left: Element, text: str) -> Element | None:
    """left = text; None where the text cannot be read yet."""
    right = formula(text)
    return None if right is None else ["math", ["mrow", left, ["mo", "="], right]]


def rate_of(name: str) -> Element:
    """The derivative by time."""
    return ["mover", symbol(name), ["mo", "˙"]]


def formula(text: str) -> Element | None:
    """None where it is no expression."""
    try:
        tree = syntax_tree(" ".join(str(text).split())).body
    except SyntaxError:
        return None
    try:
        return _set(tree)[0]
    except (TypeError, KeyError, RecursionError):
        return None


def symbol(name: str) -> Element:
    """A letter with its index: v_smooth, m1, Fv."""
    head, _, index = name.partition("_")
    if not index and head.rstrip("0123456789") != head and head.rstrip("0123456789"):
        stem = head.rstrip("0123456789")
        head, index = stem, head[len(stem):]
    letter = ["mi", GREEK.get(head, head)]
    return ["msub", letter, ["mn" if index.isdigit() else "mi", GREEK.get(index, index)]] if index else letter


def _set(node: ast.expr) -> tuple[Element, int]:
    if isinstance(node, ast.Constant):
        return ["mn", f"{node.value:g}" if isinstance(node.value, float) else str(node.value)], ATOM
    if isinstance(node, ast.Name):
        return symbol(node.id), ATOM
    if isinstance(node, ast.UnaryOp):
        sign = {ast.USub: "−", ast.UAdd: "+", ast.Not: "not "}[type(node.op)]
        return ["mrow", ["mo", sign], _within(node.operand, PRODUCT)], SIGN
    if isinstance(node, ast.BinOp):
        return _operation(node)
    if isinstance(node, (ast.Compare, ast.BoolOp)):
        operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else node.values
        signs = node.ops if isinstance(node, ast.Compare) else [node.op] * (len(operands) - 1)
        parts: Element = ["mrow", _set(operands[0])[0]]
        for between, operand in zip(signs, operands[1:], strict=True):
            parts += [["mo", SIGNS[type(between)]], _set(operand)[0]]
        return parts, SUM
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, node.args), ATOM
    if isinstance(node, ast.List):
        return _listed("[", node.elts, "]"), ATOM
    raise TypeError(type(node).__name__)


def _operation(node: ast.BinOp) -> tuple[Element, int]:
    if isinstance(node.op, ast.Div):
        return ["mfrac", ["mrow", _set(node.left)[0]], ["mrow", _set(node.right)[0]]], PRODUCT
    if isinstance(node.op, ast.Pow):
        return ["msup", _within(node.left, ATOM), ["mrow", _set(node.right)[0]]], POWER
    if isinstance(node.op, ast.Mult):
        return ["mrow", _within(node.left, PRODUCT), ["mo", "⋅"], _within(node.right, POWER)], PRODUCT
    return ["mrow", _set(node.left)[0], ["mo", SIGNS[type(node.op)]], _within(node.right, PRODUCT)], SUM


def _call(name: str, arguments: list[ast.expr]) -> Element:
    if name == "sqrt" and len(arguments) == 1:
        return ["msqrt", _set(arguments[0])[0]]
    if name == "abs" and len(arguments) == 1:
        return ["mrow", ["mo", "|"], _set(arguments[0])[0], ["mo", "|"]]
    return ["mrow", ["mi", name], _listed("(", arguments, ")")]


def _listed(opening: str, items: list[ast.expr], closing: str) -> Element:
    parts: Element = ["mrow", ["mo", opening]]
    for k, item in enumerate(items):
        parts += [["mo", ","]] * (k > 0) + [_set(item)[0]]
    return [*parts, ["mo", closing]]


def _within(node: ast.expr, least: int) -> Element:
    """In brackets where it would fall apart without."""
    element, tightness = _set(node)
    return element if tightness >= least or element[0] == "mfrac" else ["mrow", ["mo", "("], element, ["mo", ")"]]
