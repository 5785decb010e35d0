"""Printer: how do symbols become text that `parser.py` reads, with the same bits, and how is a model printed for its reader?"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import casadi

from dynident.codegen.expression_graph import Operation, operations
from dynident.errors import ProblemError
from dynident.models.parser import ALLOWED, RESERVED

Key = TypeVar("Key", bound=Hashable)


def expressions_to_text(expressions: Mapping[Key, casadi.SX], symbols: Sequence[casadi.SX],
                        taken: Iterable[str] = ()) -> tuple[dict[Key, str], dict[str, str]]:
    """Text for each expression, and the definitions they share, in the grammar that `parse_expression` reads.

    `symbols` are the scalar symbols that the expressions use; `taken` are names that no definition may get.
    Numbers are written so that reading them gives the same bits back.
    """
    names = list(expressions)
    function = casadi.Function("walk", list(symbols), [casadi.densify(casadi.SX(expressions[name])) for name in names],
                               {"cse": True})
    writer = _Writer([symbol.name() for symbol in symbols], {*taken, *RESERVED})
    steps, roots = operations(function)
    uses = [0] * len(steps)
    for step in steps:
        for argument in step.arguments:
            uses[argument] += 1
    for step, count in zip(steps, uses, strict=True):
        writer.write(step, shared=count > 1)
    return {name: writer.number(roots[k][0]).text for k, name in enumerate(names)}, writer.definitions


def parts_to_text(expressions: Sequence[casadi.SX], symbols: Sequence[casadi.SX], among: Collection[str]) -> list[str]:
    """Each part of the expressions that holds two or more of the symbols `among` and no other, in order of evaluation."""
    function = casadi.Function("walk", list(symbols), [casadi.densify(casadi.SX(e)) for e in expressions], {"cse": True})
    writer = _Writer([symbol.name() for symbol in symbols], set(RESERVED))
    used: list[frozenset[str]] = []
    found: dict[str, None] = {}
    for step in operations(function)[0]:
        own = {symbols[step.element[0]].name()} if step.operation == casadi.OP_INPUT else set()
        used.append(frozenset(own.union(*(used[argument] for argument in step.arguments))))
        writer.write(step, shared=False)
        if writer.definitions:  # too long to be read, and so is all that follows from it
            break
        if len(used[-1]) > 1 and used[-1] <= set(among) and not writer.phrases[-1].is_condition:
            found.setdefault(writer.phrases[-1].text)
    return list(found)


_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = 1, 2, 3, 4, 5  # how tightly a text holds together
LONGEST_WRITTEN = 200  # characters after which a part becomes a definition of its own
DEEPEST_WRITTEN = 12  # nested operations after which it does

_WRITTEN_CALLS = {
    casadi.OP_SIN: "sin", casadi.OP_COS: "cos", casadi.OP_TAN: "tan", casadi.OP_ASIN: "asin", casadi.OP_ACOS: "acos",
    casadi.OP_ATAN: "atan", casadi.OP_ATAN2: "atan2", casadi.OP_SINH: "sinh", casadi.OP_COSH: "cosh",
    casadi.OP_TANH: "tanh", casadi.OP_EXP: "exp", casadi.OP_LOG: "log", casadi.OP_SQRT: "sqrt", casadi.OP_FABS: "abs",
    casadi.OP_SIGN: "sign", casadi.OP_FMIN: "minimum", casadi.OP_FMAX: "maximum"}
# operator, tightness of the result, least tightness of the left and of the right operand
_WRITTEN_OPERATORS = {
    casadi.OP_ADD: ("{} + {}", _SUM, _SUM, _PRODUCT), casadi.OP_SUB: ("{} - {}", _SUM, _SUM, _PRODUCT),
    casadi.OP_MUL: ("{}*{}", _PRODUCT, _PRODUCT, _POWER), casadi.OP_DIV: ("{}/{}", _PRODUCT, _PRODUCT, _POWER),
    casadi.OP_POW: ("{}**{}", _POWER, _ATOM, _ATOM), casadi.OP_CONSTPOW: ("{}**{}", _POWER, _ATOM, _ATOM)}
_WRITTEN_SIGNS = {
    casadi.OP_NEG: ("-{}", _SIGN, _POWER), casadi.OP_SQ: ("{}**2", _POWER, _ATOM),
    casadi.OP_TWICE: ("2*{}", _PRODUCT, _POWER), casadi.OP_INV: ("1/{}", _PRODUCT, _POWER)}
_WRITTEN_COMPARISONS = {
    casadi.OP_LT: "{} < {}", casadi.OP_LE: "{} <= {}", casadi.OP_EQ: "{} == {}", casadi.OP_NE: "{} != {}"}
_WRITTEN_LOGIC = {casadi.OP_AND: "({}) and ({})", casadi.OP_OR: "({}) or ({})", casadi.OP_NOT: "not ({})"}


@dataclass(frozen=True)
class _Phrase:
    """Written text, how tightly it holds together, how deep it is, and whether it is a condition."""

    text: str
    tightness: int = _ATOM
    depth: int = 0
    is_condition: bool = False

    def within(self, least: int) -> str:
        return self.text if self.tightness >= least else f"({self.text})"


class _Writer:
    """Writes steps in order; what is shared, long or deep becomes a definition."""

    def __init__(self, names: Sequence[str], taken: set[str]):
        self.names, self.taken = names, {*taken, *names}
        self.phrases: list[_Phrase] = []
        self.definitions: dict[str, str] = {}

    def number(self, position: int) -> _Phrase:
        phrase = self.phrases[position]
        return _Phrase(f"where({phrase.text}, 1, 0)", depth=phrase.depth + 1) if phrase.is_condition else phrase

    def condition(self, position: int) -> str:
        phrase = self.phrases[position]
        return phrase.text if phrase.is_condition else f"{phrase.text} != 0"

    def write(self, step: Operation, shared: bool) -> None:
        phrase = self.phrase(step)
        too_big = len(phrase.text) > LONGEST_WRITTEN or phrase.depth > DEEPEST_WRITTEN
        if phrase.is_condition and len(phrase.text) > LONGEST_WRITTEN:  # a condition has no value, so name 1 or 0
            phrase = _Phrase(f"{self.define(f'where({phrase.text}, 1, 0)')} != 0", is_condition=True)
        elif (too_big or (shared and step.arguments)) and not phrase.is_condition:
            phrase = _Phrase(self.define(phrase.text))
        self.phrases.append(phrase)

    def define(self, text: str) -> str:
        k = len(self.definitions) + 1
        while f"e{k}" in self.taken:
            k += 1
        self.taken.add(f"e{k}")
        self.definitions[f"e{k}"] = text
        return f"e{k}"

    def phrase(self, step: Operation) -> _Phrase:
        operation = step.operation
        if operation == casadi.OP_INPUT:
            return _Phrase(self.names[step.element[0]])
        if operation == casadi.OP_CONST:
            return _written_number(step.constant)
        depth = 1 + max(self.phrases[argument].depth for argument in step.arguments)
        if operation in _WRITTEN_LOGIC:
            parts = [self.condition(argument) for argument in step.arguments]
            return _Phrase(_WRITTEN_LOGIC[operation].format(*parts), depth=depth, is_condition=True)
        if operation == casadi.OP_IF_ELSE_ZERO:
            condition, then = self.condition(step.arguments[0]), self.number(step.arguments[1])
            return _Phrase(f"where({condition}, {then.text}, 0)", depth=depth)
        operands = [self.number(argument) for argument in step.arguments]
        if operation in _WRITTEN_COMPARISONS:
            text = _WRITTEN_COMPARISONS[operation].format(*(operand.within(_SUM) for operand in operands))
            return _Phrase(text, depth=depth, is_condition=True)
        if operation in _WRITTEN_OPERATORS:
            pattern, tightness, left, right = _WRITTEN_OPERATORS[operation]
            return _Phrase(pattern.format(operands[0].within(left), operands[1].within(right)), tightness, depth)
        if operation in _WRITTEN_SIGNS:
            pattern, tightness, least = _WRITTEN_SIGNS[operation]
            return _Phrase(pattern.format(operands[0].within(least)), tightness, depth)
        if operation in _WRITTEN_CALLS:
            return _Phrase(f"{_WRITTEN_CALLS[operation]}({', '.join(o.text for o in operands)})", depth=depth)
        raise ProblemError(f"an equation uses a function that is not in dynident.maths ({_operation_name(operation)}). "
                           f"{ALLOWED}")


def _written_number(value: float) -> _Phrase:
    if not math.isfinite(value):
        raise ProblemError(f"an equation holds the number {value!r}. Only finite numbers can be used.")
    text = str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return _Phrase(text, _SIGN if text.startswith("-") else _ATOM)


def _operation_name(operation: int) -> str:
    named = {getattr(casadi, name): name[3:].lower() for name in dir(casadi) if name.startswith("OP_")}
    return named.get(operation, f"operation {operation}")


def model_text(said: Mapping[str, Any]) -> str:
    """All that a definition says, a line each."""
    units = said["units"]

    def unit(name: str) -> str:
        return f" [{units[name]}]" if units.get(name) else ""

    lines = [f"EquationModel {said['name']}".rstrip()]
    rates = said.get("next", said.get("states"))
    moved = f"(t + {said['sample_time']!r})" if "sample_time" in said else "'"
    for mode, text in said.get("modes", {"": {"rate": rates}}).items():
        lines += [f"  mode {mode}" + (f" where {text['invariant']}" if "invariant" in text else "")] * bool(mode)
        lines += [f"  {'  ' * bool(mode)}{name}{moved} = {text['rate'][name]}" for name in rates]
    lines += [f"  0 = {text} gives {name}" for name, text in said.get("algebraic", {}).items()]
    lines += [f"  {each['source']} -> {each['target']} when {each['when']}" for each in said.get("transitions", ())]
    lines += [f"  output {name} = {text}{unit(name)}" for name, text in said["outputs"].items()]
    lines += [f"  with {name} = {text}" for name, text in said["definitions"].items()]
    lines += [f"  table {name} at {', '.join(f'{knot:g}' for knot in table['knots'])}{', smooth' * ('smooth' in table)}"
              for name, table in said.get("tables", {}).items()]
    lines += [f"  constant {name} = {value!r}{unit(name)}" for name, value in said["constants"].items()]
    for kind, names in (("states", list(rates)), ("algebraic", list(said.get("algebraic", ()))), ("inputs", said["inputs"]),
                        ("parameters", said["parameters"])):
        lines += [f"  {kind}: {', '.join(name + unit(name) for name in names)}"] * bool(names)
    return "\n".join(lines)
