"""Equations as text: how does an expression become symbols, and symbols text again, without running any code?

The grammar: + - * / **, brackets, numbers, names, and the functions of `dynident.maths`; comparisons with `and`, `or`
and `not` as the first argument of `where`. Text is read by Python's parser into a tree that is only looked at; nothing
is evaluated as Python. What the grammar does not name is refused.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import casadi

from dynident import maths
from dynident.errors import ProblemError, did_you_mean
from dynident.kernels.walk import Step, steps_of

LONGEST_TEXT = 5000  # characters; longer equations are easier to read, and to parse, as definitions
DEEPEST_NESTING = 50  # brackets, signs and powers inside each other
SHOWN_AROUND_FAULT = 60  # characters of the equation shown on each side of the caret

ALLOWED = ("Allowed are numbers, names, + - * / **, brackets, and the functions "
           + ", ".join(name for name in maths.FUNCTIONS) + ".")

RESERVED = frozenset(maths.FUNCTIONS) | frozenset(maths.CONSTANTS)  # names that already mean something
NAME = re.compile(r"[^\W\d_]\w*")  # a letter first: names that start with _ are refused

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne}
_HINTS: dict[type, str] = {
    ast.BitXor: "For a power write **, not ^.",
    ast.FloorDiv: "Divide with /.",
    ast.IfExp: "For a choice write where(condition, then, otherwise).",
    ast.Attribute: "A name has no dots, and functions are called by their plain name.",
    ast.Subscript: "Give each signal a name of its own.",
    ast.Tuple: "An equation is one expression without commas outside of calls.",
}


def parse_expression(text: str, symbols: Mapping[str, casadi.SX], where_used: str = "expression") -> casadi.SX:
    """The expression over the given symbols; every name it uses must be among them."""
    reader = _Reader(_tidy(text, where_used), symbols, where_used)
    expression = reader.value(reader.tree(), depth=0)
    if reader.faults:
        raise ProblemError(reader.faults)
    return casadi.densify(casadi.SX(expression))


def names_in(text: str, where_used: str = "expression") -> tuple[str, ...]:
    """Names the text uses, in order of first appearance, without functions and `pi`; only the syntax is checked."""
    tree = _Reader(_tidy(text, where_used), {}, where_used).tree()
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used.sort(key=lambda node: (node.lineno, node.col_offset))
    return tuple(dict.fromkeys(node.id for node in used if node.id not in RESERVED))


def _tidy(text: str, where_used: str) -> str:
    if not isinstance(text, str):
        raise ProblemError(f"{where_used}: an equation is text, not {type(text).__name__}.")
    return " ".join(text.split())  # one line, so that one caret can point into it


@dataclass
class _Reader:
    """Turns one text into symbols; unknown names are collected, anything outside of the grammar stops it."""

    text: str
    symbols: Mapping[str, casadi.SX]
    where_used: str

    def __post_init__(self) -> None:
        self.faults: list[str] = []

    def fault(self, position: int, reason: str) -> str:
        """The sentence, the equation, and a caret under the character at `position`."""
        begin = max(0, position - SHOWN_AROUND_FAULT)
        end = position + SHOWN_AROUND_FAULT
        head, tail = "... " if begin else "", " ..." if end < len(self.text) else ""
        shown = f"{head}{self.text[begin:end]}{tail}"
        return f"{self.where_used}: {reason}\n    {shown}\n    {' ' * (position - begin + len(head))}^"

    def refuse(self, position: int, reason: str) -> NoReturn:
        raise ProblemError([*self.faults, self.fault(position, reason)])

    def at(self, node: ast.AST, byte: int | None = None) -> int:
        """Where a node starts (or the given byte lies), in characters: the parser counts bytes."""
        offset = getattr(node, "col_offset", 0) if byte is None else byte
        return len(self.text.encode()[:offset].decode(errors="ignore"))

    def after(self, node: ast.expr) -> int:
        """The first character after a node that is neither blank nor a bracket closing around it: its operator."""
        position = self.at(node, node.end_col_offset)
        while position < len(self.text) - 1 and self.text[position] in " )":
            position += 1
        return position

    def tree(self) -> ast.expr:
        self.check_characters()
        try:
            return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            position = min(max(0, (error.offset or 1) - 1), max(0, len(self.text) - 1))
            self.refuse(position, f"this cannot be read as an expression. {ALLOWED}")
        except (RecursionError, MemoryError, ValueError):
            self.refuse(0, "this is nested too deeply. Split it with definitions.")

    def check_characters(self) -> None:
        if not self.text:
            self.refuse(0, "the equation is empty. Write 0 for a rate of zero.")
        if len(self.text) > LONGEST_TEXT:
            self.refuse(LONGEST_TEXT, f"the equation has {len(self.text)} characters, more than {LONGEST_TEXT}. "
                                      "Split it with definitions.")
        depth = 0
        for position, character in enumerate(self.text):
            depth += (character == "(") - (character == ")")
            if depth > DEEPEST_NESTING:
                self.refuse(position, f"more than {DEEPEST_NESTING} brackets inside each other. "
                                      "Split it with definitions.")
            if character in "#\\;:'\"`@$!?{}[]" and self.text[position:position + 2] != "!=":
                self.refuse(position, f"the character {character} has no meaning in an equation. {ALLOWED}")
            if not character.isprintable():
                self.refuse(position, f"an unprintable character (code {ord(character)}). Remove it.")

    def value(self, node: ast.expr, depth: int) -> Any:
        """The number or symbol that a node stands for."""
        if depth > DEEPEST_NESTING:
            self.refuse(self.at(node), "this is nested too deeply. Split it with definitions.")
        if isinstance(node, ast.Constant):
            return self.number(node)
        if isinstance(node, ast.Name):
            return self.named(node)
        if isinstance(node, ast.BinOp):
            return self.chain(node, depth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self.value(node.operand, depth + 1)
            return -operand if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        if isinstance(node, (ast.Compare, ast.BoolOp)) or isinstance(getattr(node, "op", None), ast.Not):
            self.refuse(self.at(node), "a comparison is no number. Use it as the first argument of "
                                       "where(condition, then, otherwise).")
        position = self.after(node.value) if isinstance(node, (ast.Attribute, ast.Subscript)) else self.at(node)
        self.refuse(position, f"{_HINTS.get(type(node), 'this is not allowed in an equation.')} {ALLOWED}")

    def number(self, node: ast.Constant) -> casadi.SX:
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            self.refuse(self.at(node), f"{node.value!r} is not a number that can stand in an equation. {ALLOWED}")
        try:
            return self.finite(casadi.SX(float(node.value)), self.at(node))
        except OverflowError:
            self.refuse(self.at(node), "this number is too large.")

    def named(self, node: ast.Name) -> Any:
        if node.id in self.symbols:
            return self.symbols[node.id]
        if node.id in maths.CONSTANTS:
            return casadi.SX(maths.CONSTANTS[node.id])
        if node.id in maths.FUNCTIONS:
            self.refuse(self.at(node), f"the function '{node.id}' needs its argument in brackets: {node.id}(...).")
        if not NAME.fullmatch(node.id):
            self.refuse(self.at(node), f"'{node.id}' cannot be a name: names start with a letter.")
        self.faults.append(self.fault(self.at(node), f"'{node.id}' is not declared."
                                                     f"{did_you_mean(node.id, self.symbols)}"))
        return casadi.SX.sym(node.id)  # a stand-in, so that the rest is checked too

    def chain(self, node: ast.BinOp, depth: int) -> Any:
        """a + b - c ..., read from the left in a loop: a long sum is not deep."""
        steps = [node]
        while isinstance(steps[-1].left, ast.BinOp):
            steps.append(steps[-1].left)
        result = self.value(steps[-1].left, depth + 1)
        for step in reversed(steps):
            combine = _ARITHMETIC.get(type(step.op))
            if combine is None:
                hint = _HINTS.get(type(step.op), "this operator is not allowed in an equation.")
                self.refuse(self.after(step.left), f"{hint} {ALLOWED}")
            result = combine(result, self.value(step.right, depth + 1))
            self.finite(result, self.after(step.left))
        return result

    def call(self, node: ast.Call, depth: int) -> Any:
        if not isinstance(node.func, ast.Name):
            self.value(node.func, depth + 1)  # refuses attributes and the like with its own words
            self.refuse(self.after(node.func), "only a function is called with brackets. To multiply write *.")
        name = node.func.id
        if name not in maths.FUNCTIONS:
            way_out = (f" To multiply write {name}*(...)." if name in self.symbols
                       else did_you_mean(name, maths.FUNCTIONS))
            self.faults.append(self.fault(self.at(node), f"'{name}' is not a function.{way_out}"))
            for argument in node.args:
                self.value(argument, depth + 1)  # its faults are worth knowing too
            return casadi.SX.sym(name)
        if node.keywords:
            self.refuse(self.at(node.keywords[0]), f"{name} takes its arguments without names.")
        function, count = maths.FUNCTIONS[name]
        if len(node.args) != count:
            self.refuse(self.at(node), f"{name} takes {count} argument{'s' * (count > 1)}, not {len(node.args)}.")
        if name == "where":
            arguments = [self.condition(node.args[0], depth + 1)]
        else:
            arguments = [self.value(node.args[0], depth + 1)]
        arguments += [self.value(argument, depth + 1) for argument in node.args[1:]]
        return self.finite(function(*arguments), self.at(node))

    def condition(self, node: ast.expr, depth: int) -> Any:
        """What may stand first in where(...): comparisons, joined by and, or, not."""
        if depth > DEEPEST_NESTING:
            self.refuse(self.at(node), "this is nested too deeply. Split it with definitions.")
        if isinstance(node, ast.BoolOp):
            join = casadi.logic_and if isinstance(node.op, ast.And) else casadi.logic_or
            parts = [self.condition(part, depth + 1) for part in node.values]
            joined = parts[0]
            for part in parts[1:]:
                joined = join(joined, part)
            return joined
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return casadi.logic_not(self.condition(node.operand, depth + 1))
        if not isinstance(node, ast.Compare):
            self.refuse(self.at(node), "the first argument of where is a comparison, such as v > 0.")
        sides = [node.left, *node.comparators]
        for kind, left in zip(node.ops, sides, strict=False):
            if type(kind) not in _COMPARISONS:
                self.refuse(self.after(left), "compare with < <= > >= == or !=.")
        values = [self.value(side, depth + 1) for side in sides]
        joined = None
        for kind, left_value, right_value in zip(node.ops, values, values[1:], strict=False):
            holds = _COMPARISONS[type(kind)](left_value, right_value)
            joined = holds if joined is None else casadi.logic_and(joined, holds)
        return joined

    def finite(self, result: casadi.SX, position: int) -> casadi.SX:
        if result.is_constant() and not math.isfinite(float(result)):
            self.refuse(position, f"this is {float(result)!r} whatever the values. Only finite numbers can be used.")
        return result


def expressions_to_text(expressions: Mapping[str, casadi.SX], symbols: Sequence[casadi.SX],
                        taken: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """Text for each expression, and the definitions they share, in the grammar that `parse_expression` reads.

    `symbols` are the scalar symbols that the expressions use; `taken` are names that no definition may get.
    Numbers are written so that reading them gives the same bits back.
    """
    names = list(expressions)
    function = casadi.Function("walk", list(symbols), [casadi.densify(casadi.SX(expressions[name])) for name in names],
                               {"cse": True})
    writer = _Writer([symbol.name() for symbol in symbols], {*taken, *RESERVED})
    steps, roots = steps_of(function)
    uses = [0] * len(steps)
    for step in steps:
        for argument in step.arguments:
            uses[argument] += 1
    for step, count in zip(steps, uses, strict=True):
        writer.write(step, shared=count > 1)
    return {name: writer.number(roots[k][0]).text for k, name in enumerate(names)}, writer.definitions


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

    def write(self, step: Step, shared: bool) -> None:
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

    def phrase(self, step: Step) -> _Phrase:
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
