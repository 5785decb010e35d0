"""SBML: which states, rates, definitions and numbers does a model of systems biology have?

Read with the parser of the standard library, which opens no other file; a document that declares entities is refused. What the
reader does not know (events, algebraic rules, delays, compartments that change) is refused by name.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as xml

from dynident.errors import NotSupported, ProblemError
from dynident.io.petab.mathml import Function, MathReader, tag_of
from dynident.models.parser import RESERVED

LARGEST = 50_000_000  # bytes
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
    if len(content) > LARGEST or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ProblemError(f"{path.name}: the file declares a document type or is larger than {LARGEST:,} bytes; neither is "
                           "read.")
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

    def _functions(self) -> dict[str, Function]:
        functions: dict[str, Function] = {}
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
