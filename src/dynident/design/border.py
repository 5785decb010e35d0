"""Border: which limits say that a condition holds, or that it does not begin to?

Limits hold together, and `<` means `<=`. A condition of comparisons joined by `and` is such a list. One joined by `or` is
only where a part of it is all that the parts have in common: `v > 0 or v == 0 and u > Fc` has the closure v >= 0.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}


@dataclass(frozen=True)
class Border:
    """Texts of limits, and of the parts that no limit can say."""

    limits: tuple[str, ...]
    unwritten: tuple[str, ...]
    open: bool  # the limit itself is to be kept away from: behind it the condition begins to hold


@dataclass(frozen=True)
class _Atom:
    """low <= high, or low == high."""

    low: str
    high: str
    equal: bool = False

    def implies(self, other: _Atom) -> bool:
        pair = {self.low, self.high} == {other.low, other.high} if self.equal else (
            (self.low, self.high) == (other.low, other.high))
        return pair and (self.equal or not other.equal)

    def __str__(self) -> str:
        if self.equal:
            return f"{self.low} == {self.high}"
        return f"{self.high} >= {self.low}" if _is_number(self.low) else f"{self.low} <= {self.high}"


def border_of(condition: str, holds: bool) -> Border:
    """Where a condition holds, or does not."""
    if not condition:
        return Border((), (), not holds)
    atoms, unwritten = _taken(ast.parse(condition, mode="eval").body, holds)
    return Border(tuple(dict.fromkeys(str(atom) for atom in atoms)), tuple(unwritten), not holds)


def _taken(node: ast.expr, holds: bool) -> tuple[list[_Atom], list[str]]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _taken(node.operand, not holds)
    if isinstance(node, ast.Compare) and len(node.ops) > 1:  # a < b < c
        sides = [node.left, *node.comparators]
        pairs: list[ast.expr] = [ast.Compare(sides[i], [op], [sides[i + 1]]) for i, op in enumerate(node.ops)]
        return _taken(ast.BoolOp(ast.And(), pairs), holds)
    if isinstance(node, ast.Compare):
        return _compared(node, holds), []
    if isinstance(node, ast.BoolOp):
        parts = [_taken(part, holds) for part in node.values]
        if isinstance(node.op, ast.And) == holds:
            return [atom for atoms, _ in parts for atom in atoms], [text for _, texts in parts for text in texts]
        common = [atom for atom in dict.fromkeys(_closed(a) for atoms, _ in parts for a in atoms)
                  if all(any(own.implies(atom) for own in atoms) for atoms, _ in parts)]
        if any(not texts and all(own in common for own in atoms) for atoms, texts in parts):
            return common, []
    return [], [ast.unparse(node) if holds else f"not ({ast.unparse(node)})"]


def _compared(node: ast.Compare, holds: bool) -> list[_Atom]:
    kind = type(node.ops[0]) if holds else TURNED[type(node.ops[0])]
    left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
    if kind is ast.NotEq:
        return []  # everywhere but on a set without inside
    if kind is ast.Eq:
        return [_Atom(left, right, True)]
    return [_Atom(left, right) if kind in (ast.Lt, ast.LtE) else _Atom(right, left)]


def _closed(atom: _Atom) -> _Atom:
    return atom if not atom.equal else _Atom(atom.high, atom.low)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
