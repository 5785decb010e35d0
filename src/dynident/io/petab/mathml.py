"""MathML: how does a formula of an SBML file become text of our grammar?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from xml.etree import ElementTree as xml

from dynident.errors import NotSupported

MATH = "{http://www.w3.org/1998/Math/MathML}"
PLAIN = {"exp": "exp", "ln": "log", "abs": "abs", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh",
         "tanh": "tanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}
JOINED = {"plus": ("+", "0"), "times": ("*", "1")}
COMPARED = {"lt": "<", "leq": "<=", "gt": ">", "geq": ">=", "eq": "==", "neq": "!="}
LOGICAL = {"and": "and", "or": "or"}
CONSTANTS = {"pi": "pi", "exponentiale": "exp(1)", "true": "1 == 1", "false": "1 == 0"}
TIME_SYMBOL = "http://www.sbml.org/sbml/symbols/time"

Function = tuple[tuple[str, ...], xml.Element]  # arguments and body


def tag_of(element: xml.Element) -> str:
    return element.tag.rpartition("}")[2]


class MathReader:
    """Reads formulas whose names are those of one SBML model."""

    def __init__(self, name: Callable[[str], str], functions: Mapping[str, Function]):
        self.name, self.functions = name, functions

    def text(self, element: xml.Element, where: str, bound: Mapping[str, str] | None = None) -> str:
        """The formula in brackets where it needs them; `bound` are arguments of a function that is written out."""
        bound = bound or {}
        kind = tag_of(element)
        if kind in ("math", "semantics", "piece", "otherwise"):
            return self.text(element[0], where, bound)
        if kind == "cn":
            return _number(element)
        if kind == "ci":
            said = (element.text or "").strip()
            return bound[said] if said in bound else self.name(said)
        if kind == "csymbol":
            if element.get("definitionURL", "").startswith(TIME_SYMBOL):
                return "t"
            raise NotSupported(f"{where} uses {(element.text or 'a symbol').strip()} ({element.get('definitionURL')}), which "
                               "is not read.")
        if kind in CONSTANTS:
            return CONSTANTS[kind]
        if kind == "piecewise":
            return self._piecewise(element, where, bound)
        if kind == "apply":
            return self._applied(element, where, bound)
        raise NotSupported(f"{where} uses <{kind}>, which is not read.")

    def _applied(self, element: xml.Element, where: str, bound: Mapping[str, str]) -> str:
        operator, *rest = element
        kind = tag_of(operator)
        if kind == "apply" and not rest:  # brackets around brackets
            return self.text(operator, where, bound)
        qualifiers = {tag_of(each): each for each in rest if tag_of(each) in ("logbase", "degree")}
        given = [self.text(each, where, bound) for each in rest if tag_of(each) not in qualifiers]
        if kind in PLAIN and len(given) == 1:
            return f"{PLAIN[kind]}({given[0]})"
        if kind in JOINED:
            sign, neutral = JOINED[kind]
            return f"({f' {sign} '.join(given)})" if given else neutral
        if kind == "minus":
            return f"(-{given[0]})" if len(given) == 1 else f"({given[0]} - {given[1]})"
        if kind == "divide":
            return f"({given[0]} / {given[1]})"
        if kind == "power":
            return f"(({given[0]})**({given[1]}))"
        if kind == "root":
            degree = self.text(qualifiers["degree"][0], where, bound) if "degree" in qualifiers else "2"
            return f"sqrt({given[0]})" if degree == "2" else f"(({given[0]})**(1 / ({degree})))"
        if kind == "log":
            base = self.text(qualifiers["logbase"][0], where, bound) if "logbase" in qualifiers else "10"
            return f"(log({given[0]}) / log({base}))"
        if kind in ("max", "min"):
            return _folded({"max": "maximum", "min": "minimum"}[kind], given)
        if kind in COMPARED:
            return " and ".join(f"({a} {COMPARED[kind]} {b})" for a, b in pairwise(given))
        if kind in LOGICAL:
            return f"({f' {LOGICAL[kind]} '.join(given)})"
        if kind == "not":
            return f"(not {given[0]})"
        if kind == "ci" and (called := (operator.text or "").strip()) in self.functions:
            names, body = self.functions[called]
            return f"({self.text(body, f'{where}, function {called}', dict(zip(names, given, strict=True)))})"
        raise NotSupported(f"{where} uses <{(operator.text or '').strip() if kind in ('ci', 'csymbol') else kind}>, which is "
                           "not read.")

    def _piecewise(self, element: xml.Element, where: str, bound: Mapping[str, str]) -> str:
        otherwise = [self.text(each, where, bound) for each in element if tag_of(each) == "otherwise"]
        found = otherwise[0] if otherwise else "0"
        for piece in reversed([each for each in element if tag_of(each) == "piece"]):
            found = f"where({self.text(piece[1], where, bound)}, {self.text(piece[0], where, bound)}, {found})"
        return found


def _folded(function: str, given: list[str]) -> str:
    found = given[-1]
    for each in reversed(given[:-1]):
        found = f"{function}({each}, {found})"
    return found


def _number(element: xml.Element) -> str:
    parts = [(element.text or "").strip(), *((each.tail or "").strip() for each in element)]
    kind = element.get("type", "real")
    value = (float(parts[0]) * 10 ** float(parts[1]) if kind == "e-notation" else float(parts[0]) / float(parts[1])
             if kind == "rational" else float(parts[0]))
    if not math.isfinite(value):
        raise NotSupported(f"a formula holds the number {parts[0]}, which is not finite.")
    return repr(value) if value >= 0 else f"({value!r})"
