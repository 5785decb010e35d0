"""SBML: which states, rates, definitions and numbers does a model of systems biology have? Its formulas are MathML.

Read with the parser of the standard library, which opens no other file; a document that declares entities is refused. What the
reader does not know (events, algebraic rules, delays, compartments that change) is refused by name.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as xml

from dynident.errors import NotSupported, ProblemError
from dynident.models.parser import RESERVED

MATH = "{http://www.w3.org/1998/Math/MathML}"
PLAIN = {"exp": "exp", "ln": "log", "abs": "abs", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh",
         "tanh": "tanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}
JOINED = {"plus": ("+", "0"), "times": ("*", "1")}
COMPARED = {"lt": "<", "leq": "<=", "gt": ">", "geq": ">=", "eq": "==", "neq": "!="}
LOGICAL = {"and": "and", "or": "or"}
CONSTANTS = {"pi": "pi", "exponentiale": "exp(1)", "true": "1 == 1", "false": "1 == 0"}
TIME_SYMBOL = "http://www.sbml.org/sbml/symbols/time"
MAX_SBML_BYTES = 50_000_000  # bytes
WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")


def safe_name(identifier: str) -> str:
    """A name that our equations can use for an SBML identifier."""
    name = identifier if identifier[:1].isalpha() else f"n{identifier}"
    return f"{name}_" if name in RESERVED or name == "t" or keyword.iskeyword(name) else name


@dataclass
class SbmlModel:
    """A model as text: what moves, what follows, and numbers by name."""

    rates: dict[str, str] = field(default_factory=dict)  # state -> its rate
    definitions: dict[str, str] = field(default_factory=dict)  # assignment rules and reaction rates
    values: dict[str, float] = field(default_factory=dict)  # parameters and compartments that are numbers
    initial: dict[str, str] = field(default_factory=dict)  # state -> its first value, as a formula
    assigned: dict[str, str] = field(default_factory=dict)  # parameter -> what it is set to at the begin, as a formula

    def at_begin(self, text: str, more: Mapping[str, str], within: tuple[str, ...] = ()) -> str:
        """A formula in numbers and parameters alone, as it is when time begins; `more` are values that conditions set."""
        def spelt(found: re.Match[str]) -> str:
            name = found.group()
            if name == "t":
                return "0"
            source = more.get(name, self.initial.get(name, self.assigned.get(name, self.definitions.get(name))))
            if source is None or source == name:
                return name
            if name in within:
                raise ProblemError(f"the initial value of '{name}' is said in a circle.")
            return f"({self.at_begin(source, more, (*within, name))})"

        return WORD.sub(spelt, text)


def read_sbml(path: Path) -> SbmlModel:
    """The model of a file; raises NotSupported for what is not read, by name."""
    content = path.read_bytes()
    if len(content) > MAX_SBML_BYTES or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ProblemError(f"{path.name}: the file declares a document type or is larger than {MAX_SBML_BYTES:,} bytes; "
                           "neither is read.")
    try:
        root = xml.fromstring(content)
    except xml.ParseError as error:
        raise ProblemError(f"{path.name} is not valid XML: {error}.") from None
    model = next((each for each in root if tag_of(each) == "model"), None)
    if tag_of(root) != "sbml" or model is None:
        raise ProblemError(f"{path.name} holds no SBML model.")
    try:
        return _SbmlReader(model).read()
    except NotSupported as refused:
        raise NotSupported(f"{path.name}: {refused}") from None


class _SbmlReader:
    """Walks over the lists of a model in the order in which they depend on each other."""

    def __init__(self, model: xml.Element):
        self.lists = {tag_of(each): list(each) for each in model}
        for name, what in (("listOfEvents", "events"), ("listOfConstraints", "constraints")):
            if self.lists.get(name):
                raise NotSupported(f"the model has {what} ({_ids(self.lists[name])}), which are not read. Write the model as "
                                   "equations, with modes where states jump.")
        self.math = MathReader(safe_name, self._functions())
        self.found = SbmlModel()
        self.volume: dict[str, str] = {}  # species -> what its concentration is counted in; "" for amounts

    def read(self) -> SbmlModel:
        rules = self._rules()
        self._compartments(rules)
        self._parameters(rules)
        self._species(rules)
        self._reactions()
        self._initial_assignments()
        return self.found

    def _functions(self) -> dict[str, SbmlFunction]:
        functions: dict[str, SbmlFunction] = {}
        for each in self.lists.get("listOfFunctionDefinitions", ()):
            body = next(part for part in each if tag_of(part) == "math")[0]
            body = body[0] if tag_of(body) == "semantics" else body
            names = tuple((part[0].text or "").strip() for part in body if tag_of(part) == "bvar")
            functions[each.get("id", "")] = names, body[-1]
        return functions

    def _formula(self, element: xml.Element, where: str) -> str:
        return self.math.text(next(part for part in element if tag_of(part) == "math"), where)

    def _rules(self) -> dict[str, str]:
        """variable -> kind of its rule; the texts go to where they belong."""
        kinds = {}
        for rule in self.lists.get("listOfRules", ()):
            kind, variable = tag_of(rule), rule.get("variable", "")
            if kind == "algebraicRule":
                raise NotSupported("the model has an algebraic rule, which is not read. Write it as equations, algebraic=...")
            kinds[variable] = kind
            text = self._formula(rule, f"the rule of '{variable}'")
            (self.found.definitions if kind == "assignmentRule" else self.found.rates)[safe_name(variable)] = text
        return kinds

    def _compartments(self, rules: Mapping[str, str]) -> None:
        for each in self.lists.get("listOfCompartments", ()):
            name = each.get("id", "")
            if name in rules:
                raise NotSupported(f"the compartment '{name}' changes its size, which is not read.")
            self.found.values[safe_name(name)] = float(each.get("size", each.get("volume", "1")))

    def _parameters(self, rules: Mapping[str, str]) -> None:
        for each in self.lists.get("listOfParameters", ()):
            name = each.get("id", "")
            value = float(each.get("value", "nan"))
            if rules.get(name) == "rateRule":
                self.found.initial[safe_name(name)] = repr(value)
            elif name not in rules:
                self.found.values[safe_name(name)] = value

    def _species(self, rules: Mapping[str, str]) -> None:
        for each in self.lists.get("listOfSpecies", ()):
            name, compartment = each.get("id", ""), safe_name(each.get("compartment", ""))
            amounts = each.get("hasOnlySubstanceUnits") == "true"
            self.volume[name] = "" if amounts else compartment
            if each.get("boundaryCondition") == "true" or each.get("constant") == "true":
                self.volume[name] = "fixed"
            if rules.get(name) == "assignmentRule":
                continue
            concentration, amount = each.get("initialConcentration"), each.get("initialAmount")
            if concentration is not None:
                first = f"{float(concentration)!r} * {compartment}" if amounts else repr(float(concentration))
            elif amount is not None:
                first = repr(float(amount)) if amounts else f"{float(amount)!r} / {compartment}"
            else:
                first = "nan_"  # nothing is said; an assignment or a condition must
            self.found.initial[safe_name(name)] = first
            self.found.rates.setdefault(safe_name(name), "0")

    def _reactions(self) -> None:
        for reaction in self.lists.get("listOfReactions", ()):
            name = reaction.get("id", "")
            parts = {tag_of(each): each for each in reaction}
            if "kineticLaw" not in parts:
                raise NotSupported(f"reaction '{name}' has no kinetic law, which is needed.")
            self.found.definitions[safe_name(name)] = self._kinetic_law(name, parts["kineticLaw"])
            for kind, sign in (("listOfReactants", "-"), ("listOfProducts", "+")):
                for reference in parts.get(kind, ()):
                    self._flow(reference, sign, safe_name(name))

    def _kinetic_law(self, reaction: str, law: xml.Element) -> str:
        """The rate; parameters of its own become numbers with the reaction's name in front."""
        own = {}
        for part in law:
            for each in part if tag_of(part) in ("listOfParameters", "listOfLocalParameters") else ():
                own[each.get("id", "")] = f"{safe_name(reaction)}_{each.get('id', '')}"
                self.found.values[own[each.get("id", "")]] = float(each.get("value", "nan"))
        math_ = next(part for part in law if tag_of(part) == "math")
        return self.math.text(math_, f"reaction '{reaction}'", own)

    def _flow(self, reference: xml.Element, sign: str, rate: str) -> None:
        species = reference.get("species", "")
        if any(tag_of(part) == "stoichiometryMath" for part in reference):
            raise NotSupported(f"the stoichiometry of '{species}' is a formula, which is not read.")
        if self.volume.get(species) == "fixed":
            return
        count = float(reference.get("stoichiometry", "1"))
        flow = rate if count == 1 else f"{count!r}*{rate}"
        per_volume = f"{flow}/{self.volume[species]}" if self.volume[species] else flow
        before = self.found.rates[safe_name(species)]
        self.found.rates[safe_name(species)] = f"{'' if before == '0' else before} {sign} {per_volume}".strip()

    def _initial_assignments(self) -> None:
        for each in self.lists.get("listOfInitialAssignments", ()):
            name = safe_name(each.get("symbol", ""))
            text = self._formula(each, f"the initial assignment of '{name}'")
            if name in self.found.initial:
                self.found.initial[name] = text
            else:
                self.found.assigned[name] = text
                self.found.values.pop(name, None)


def _ids(elements: list[xml.Element]) -> str:
    return ", ".join(each.get("id") or tag_of(each) for each in elements[:5]) + (", ..." if len(elements) > 5 else "")


SbmlFunction = tuple[tuple[str, ...], xml.Element]  # arguments and body


def tag_of(element: xml.Element) -> str:
    return element.tag.rpartition("}")[2]


class MathReader:
    """Reads formulas whose names are those of one SBML model."""

    def __init__(self, name: Callable[[str], str], functions: Mapping[str, SbmlFunction]):
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
