"""Parser: how does an expression become symbols, without running any code? (`printer.py` goes back.)

The grammar: + - * / **, brackets, numbers, names, and the functions of `dynident.maths`; comparisons with `and`, `or`
and `not` as the first argument of `where`; look-up tables `interp(x, [knots], [values])`; in a model `delay(u, theta)` of
an input. Text is read by Python's parser into a tree that is only looked at; nothing
is evaluated as Python. What the grammar does not name is refused.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import casadi

from dynident import maths
from dynident._util.expressions import NestedTooDeeply, syntax_tree
from dynident.errors import ProblemError, did_you_mean

LONGEST_TEXT = 5000  # characters; longer equations are easier to read, and to parse, as definitions
DEEPEST_NESTING = 50  # brackets, signs and powers inside each other
SHOWN_AROUND_FAULT = 60  # characters of the equation shown on each side of the caret

ALLOWED = ("Allowed are numbers, names, + - * / **, brackets, and the functions "
           + ", ".join([*maths.FUNCTIONS, *maths.SPECIAL]) + ".")

RESERVED = frozenset([*maths.FUNCTIONS, *maths.CONSTANTS, *maths.SPECIAL])  # names that already mean something
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
    ast.List: "A list stands in interp(x, [knots], [values]) only.",
}
_OTHER_WORDS = {"max": "maximum", "min": "minimum", "sgn": "sign", "signum": "sign", "arcsin": "asin", "arccos": "acos",
                "arctan": "atan", "arctan2": "atan2", "ln": "log", "fabs": "abs"}  # what other languages call our functions


SMOOTH = "smooth"  # the fourth word of interp


@dataclass(frozen=True, eq=False)
class Table:
    """A look-up table with a name: its knots, and the parameters that are its values."""

    knots: tuple[float, ...]
    values: tuple[str, ...]
    smooth: bool = False


class Scope(dict[str, casadi.SX]):
    """What the words of a model's equations mean: symbols by name, tables, and the delayed inputs that were met."""

    def __init__(self, symbols: Mapping[str, casadi.SX], tables: Mapping[str, Table], inputs: Sequence[str]):
        super().__init__(symbols)
        self.tables, self.inputs = dict(tables), tuple(inputs)
        self.delayed: dict[tuple[str, str], tuple[casadi.SX, casadi.SX]] = {}  # (input, text): the symbol, its dead time

    def delay(self, name: str, dead_time: casadi.SX) -> casadi.SX:
        """The symbol of a delayed input, the same for the same words."""
        key = name, str(dead_time)
        if key not in self.delayed:
            self.delayed[key] = casadi.SX.sym(f"delay({name}, {dead_time})"), dead_time
        return self.delayed[key][0]


def parse_expression(text: str, symbols: Mapping[str, casadi.SX], where_used: str = "expression") -> casadi.SX:
    """The expression over the given symbols; every name it uses must be among them."""
    return _parsed(_Reader.value, text, symbols, where_used)


def parse_condition(text: str, symbols: Mapping[str, casadi.SX], where_used: str = "condition") -> casadi.SX:
    """Comparisons joined by and, or, not: 1 where they hold, 0 elsewhere."""
    return _parsed(_Reader.condition, text, symbols, where_used)


def _parsed(read: Callable[..., Any], text: str, symbols: Mapping[str, casadi.SX], where_used: str) -> casadi.SX:
    reader = _Reader(_tidy(text, where_used), symbols, where_used)
    found = read(reader, reader.tree(), depth=0)
    if reader.faults:
        raise ProblemError(reader.faults)
    return casadi.densify(casadi.SX(found))


def names_in(text: str, where_used: str = "expression", tables: Collection[str] = ()) -> tuple[str, ...]:
    """Names the text uses, in order of first appearance, without functions and `pi`; only the syntax is checked.

    Called like a function, a name of `tables` is none.
    """
    tree = _Reader(_tidy(text, where_used), {}, where_used).tree()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    words = {id(call.func) for call in calls if call.func.id in tables}  # type: ignore[attr-defined]
    words |= {id(call.args[3]) for call in calls if call.func.id == "interp" and len(call.args) == 4}  # type: ignore[attr-defined]
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in words]
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
        self.tables = self.symbols.tables if isinstance(self.symbols, Scope) else {}

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
            return syntax_tree(self.text).body
        except NestedTooDeeply:
            self.refuse(0, "this is nested too deeply. Split it with definitions.")
        except SyntaxError as error:
            position = min(max(0, (error.offset or 1) - 1), max(0, len(self.text) - 1))
            self.refuse(*self.unreadable(position))

    def unreadable(self, position: int) -> tuple[int, str]:
        """Where and why a text is no expression, told by its most frequent reasons first."""
        opened: list[int] = []
        for place, character in enumerate(self.text):
            if character in "([":
                opened.append(place)
            elif character in ")]" and not opened:
                return place, "this bracket closes none that was opened. Remove it, or open one before it."
            elif character in ")]":
                opened.pop()
        if opened:
            return opened[-1], "this bracket is not closed. Close it, or remove it."
        joined = re.search(r"(?<![\w.])(\d+\.?\d*)([A-Za-z_]\w*)", self.text)
        if joined:
            return joined.start(), f"a number stands before a name. To multiply write {joined.group(1)}*{joined.group(2)}."
        apart = re.search(r"[\w)]( )[\w(]", self.text)
        if apart and " if " not in self.text:
            return apart.start(1), "two things stand side by side without an operator. To multiply write *."
        if re.search(r"[-+*/]\s*$", self.text):
            return len(self.text) - 1, "something must follow the last operator. Complete it, or remove the operator."
        return position, f"this cannot be read as an expression. {ALLOWED}"

    def check_characters(self) -> None:
        if not self.text:
            self.refuse(0, "the equation is empty. Write 0 for a rate of zero.")
        if len(self.text) > LONGEST_TEXT:
            self.refuse(LONGEST_TEXT, f"the equation has {len(self.text)} characters, more than {LONGEST_TEXT}. "
                                      "Split it with definitions.")
        depth = 0
        for position, character in enumerate(self.text):
            depth += (character in "([") - (character in ")]")
            if depth > DEEPEST_NESTING:
                self.refuse(position, f"more than {DEEPEST_NESTING} brackets inside each other. "
                                      "Split it with definitions.")
            if character in "#\\;:'\"`@$!?{}" and self.text[position:position + 2] != "!=":
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
        if node.id in maths.FUNCTIONS or node.id in maths.SPECIAL or node.id in self.tables:
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
        if node.keywords:
            self.refuse(self.at(node.keywords[0]), f"{name} takes its arguments without names.")
        if name == "interp":
            return self.look_up(node, depth)
        if name == "delay":
            return self.delay(node, depth)
        if name in self.tables:
            return self.table(node, name, depth)
        if name not in maths.FUNCTIONS:
            way_out = _instead_of(name, len(node.args), self.symbols)
            self.faults.append(self.fault(self.at(node), f"'{name}' is not a function.{way_out}"))
            for argument in node.args:
                self.value(argument, depth + 1)  # its faults are worth knowing too
            return casadi.SX.sym(name)
        function, count = maths.FUNCTIONS[name]
        if len(node.args) != count:
            self.refuse(self.at(node), f"{name} takes {count} argument{'s' * (count > 1)}, not {len(node.args)}.")
        if name == "where":
            arguments = [self.condition(node.args[0], depth + 1)]
        else:
            arguments = [self.value(node.args[0], depth + 1)]
        arguments += [self.value(argument, depth + 1) for argument in node.args[1:]]
        return self.finite(function(*arguments), self.at(node))

    def look_up(self, node: ast.Call, depth: int) -> Any:
        """interp(x, [knots], [values]), or with the word smooth behind."""
        way = "Write interp(x, [1, 2, 3], [a, b, c]), or interp(x, [1, 2, 3], [a, b, c], smooth)."
        smooth = len(node.args) == 4 and isinstance(node.args[3], ast.Name) and node.args[3].id == SMOOTH
        if len(node.args) != 3 + smooth:
            self.refuse(self.at(node), f"interp takes an argument, a list of knots and a list of values. {way}")
        lists = []
        for argument, what in zip(node.args[1:3], ("knots", "values"), strict=True):
            if not isinstance(argument, ast.List):
                self.refuse(self.at(argument), f"the {what} of interp stand in square brackets. {way}")
            lists.append([self.value(each, depth + 1) for each in argument.elts])
        for each, knot in zip(node.args[1].elts, lists[0], strict=True):  # type: ignore[attr-defined]
            if not knot.is_constant():
                self.refuse(self.at(each), "a knot of interp is a number; its values may be parameters.")
        x = self.value(node.args[0], depth + 1)
        try:
            return self.finite(maths.interp(x, [float(knot) for knot in lists[0]], lists[1], smooth), self.at(node))
        except ValueError as error:
            self.refuse(self.at(node.args[1]), f"{error}")

    def table(self, node: ast.Call, name: str, depth: int) -> Any:
        """f(x) of a table f of the model."""
        if len(node.args) != 1:
            self.refuse(self.at(node), f"the table {name} takes 1 argument, not {len(node.args)}.")
        table = self.tables[name]
        values = [self.symbols.get(value, casadi.SX(0)) for value in table.values]
        return maths.interp(self.value(node.args[0], depth + 1), table.knots, values, table.smooth)

    def delay(self, node: ast.Call, depth: int) -> Any:
        """delay(u, theta) of an input of a model."""
        if not isinstance(self.symbols, Scope):
            self.refuse(self.at(node), "delay(u, theta) stands in the equations of a model only.")
        if len(node.args) != 2:
            self.refuse(self.at(node), f"delay takes an input and its dead time, as in delay(u, theta); not {len(node.args)} "
                                       "arguments.")
        name = node.args[0]
        if not isinstance(name, ast.Name) or name.id not in self.symbols.inputs:
            self.refuse(self.at(name), "only an input has a past: the first argument of delay is the name of one "
                                       f"({', '.join(self.symbols.inputs) or 'this model has none'}). Of a state or an output "
                                       "there is no dead time.")
        return self.symbols.delay(name.id, casadi.SX(self.value(node.args[1], depth + 1)))

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
            self.refuse(self.at(node), "a condition is a comparison, such as v > 0.")
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


def _instead_of(name: str, arguments: int, symbols: Mapping[str, casadi.SX]) -> str:
    """What to write for a function that is none."""
    ours = _OTHER_WORDS.get(name, "")
    if ours and maths.FUNCTIONS[ours][1] == arguments:
        return f" Write {ours}(...)."
    hint = did_you_mean(name, maths.FUNCTIONS)
    if name in symbols:  # a name that is declared nowhere is a parameter, so that it may be either
        return f"{hint if 'mean' in hint else ''} To multiply write {name}*(...)."
    return hint
