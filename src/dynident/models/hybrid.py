"""Hybrid automaton: how are modes and the transitions between them said?

    EquationModel(
        states=["q", "v"], inputs=["u"], outputs={"position": "q"},
        modes={"rest": Mode(rate={"q": 0, "v": 0}, invariant="v == 0 and u <= Fs"),
               "slide": Mode(rate={"q": "v", "v": "(u - Fc)/M"}, invariant="v >= 0")},
        transitions=[Transition("rest", "slide", when="u > Fs"),
                     Transition("slide", "rest", when="v < 0", reset={"v": 0})])

A transition is taken as soon as its condition begins to hold. An invariant says where a mode is possible; where nothing
else says in which mode a record (or a segment of it) begins, the first mode that is possible is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import casadi

from dynident._util.expressions import without_expression
from dynident.errors import ProblemError, did_you_mean
from dynident.models.definition import (
    Equation,
    ModelDefinition,
    ModeText,
    Texts,
    TransitionText,
    mentioned_names,
    names_of,
    taken_outputs,
    texts_of,
)
from dynident.models.hybrid_functions import condition_pattern
from dynident.models.printer import expressions_to_text
from dynident.models.tracing import arguments_of, trace, trace_condition


@dataclass(frozen=True)
class Mode:
    """One mode of a hybrid model: how the states move in it, and where it is possible.

    See the manual, howto/hybrid.

    Parameters
    ----------
    rate : mapping of str to str, or callable, optional
        Rates as text per state, or a function of (t, x, u, p). Rates that `EquationModel(states={...})` gives hold in every
        mode that does not say otherwise.
    invariant : str or callable, default ""
        Condition under which the mode is possible; "": everywhere.

    Examples
    --------
    >>> import dynident as di
    >>> ball = di.EquationModel(states=["h", "v"], modes={"fly": di.Mode({"h": "v", "v": "-9.81"}, invariant="h >= 0")},
    ...                         transitions=[di.Transition("fly", "fly", when="h < 0", reset={"v": "-e*v"})])
    >>> ball.parameters
    ('e',)
    """

    rate: Mapping[str, Equation] | Callable[..., Any] = field(default_factory=dict)
    invariant: str | Callable[..., Any] = ""  # where the mode is possible; empty: everywhere


@dataclass(frozen=True)
class Transition:
    """From one mode to another (or the same) as soon as a condition begins to hold.

    See the manual, howto/hybrid.

    Parameters
    ----------
    source : str
        The mode that is left.
    target : str
        The mode that is entered.
    when : str or callable, default ""
        The condition (guard), such as "v < 0".
    reset : mapping of str to str, or callable, optional
        New values of states, as text or as a function of (t, x, u, p); the others stay.

    Examples
    --------
    >>> import dynident as di
    >>> di.Transition("slide", "rest", when="v < 0", reset={"v": 0}).target
    'rest'
    """

    source: str
    target: str
    when: str | Callable[..., Any] = ""
    reset: Mapping[str, Equation] | Callable[..., Any] = field(default_factory=dict)


def take_automaton(written: ModelDefinition, states: Any, outputs: Any, definitions: Any, modes: Any, transitions: Any,
                   rate: Any, output: Any, faults: list[str]) -> None:
    """The modes and transitions; each mode has its own rate, and no algebraic variables are beside it."""
    if written.algebraic:
        faults.append("a model has modes or algebraic variables, not both. Solve the algebraic equations in each mode.")
    if rate is not None:
        faults.append("rate and modes are both given; with modes, each Mode has a rate of its own.")
    take_modes(written, states, outputs, definitions, modes, transitions, output, faults)
    faults += mode_faults(written)


def take_modes(written: ModelDefinition, states: Any, outputs: Any, definitions: Mapping[str, Equation],
               modes: Mapping[str, Any], transitions: Sequence[Any], output: Callable[..., Any] | None,
               faults: list[str]) -> None:
    """Write down all modes and transitions as text; functions are traced once with symbols."""
    common = texts_of("rate", states, faults) if isinstance(states, Mapping) else {}
    written.states = names_of("states", states, faults)
    written.definitions = texts_of("definition", definitions, faults)
    pen = _DefinitionBuilder(written, faults)
    for name, given in modes.items():
        mode = _plain(Mode, given, f"mode '{name}'", faults)
        if mode is not None:
            rate = pen.texts("rate", mode.rate, f" of mode '{name}'")
            for state, text in common.items():
                rate.setdefault(state, text)
            written.modes[str(name)] = ModeText(rate)
            pen.condition(mode.invariant, f"the invariant of mode '{name}'", written.modes[str(name)], "invariant")
    for k, given in enumerate(transitions):
        each = _plain(Transition, given, f"transition {k + 1}", faults)
        if each is not None:
            said = TransitionText(str(each.source), str(each.target), "")
            said.reset = pen.texts("reset", each.reset, f" of {said.label}")
            pen.condition(each.when, f"the condition of {said.label}", said, "when")
            written.transitions.append(said)
    if output is not None:
        declared = None if outputs is None else names_of("outputs", outputs, faults)
        written.outputs = pen.traced("output", output, declared, "")
    else:
        written.outputs = taken_outputs(written, outputs, faults)
    pen.finish()


def mode_faults(written: ModelDefinition) -> list[str]:
    """Names of modes and states that do not fit, and modes that nothing leads to."""
    faults = ["a hybrid model needs at least one mode; modes is empty."] * (not written.modes)
    for name, mode in written.modes.items():
        if not name.strip() or not name.isprintable():
            faults.append(f"{name!r} is not a possible name of a mode: give it a word.")
        faults += [f"mode '{name}' has a rate for '{state}', which is not a state."
                   f"{did_you_mean(state, written.states)}" for state in mode.rate if state not in written.states]
        faults += [f"mode '{name}' has no rate for the state '{state}'; write 0 where it stands still."
                   for state in written.states if state not in mode.rate]
    for each in written.transitions:
        faults += [f"{each.label}: there is no mode '{name}'.{did_you_mean(name, written.modes)}"
                   for name in dict.fromkeys((each.source, each.target)) if name not in written.modes]
        faults += [f"{each.label}: it resets '{state}', which is not a state.{did_you_mean(state, written.states)}"
                   for state in each.reset if state not in written.states]
        faults += [f"{each.label}: it does not say when it is taken; write when=\"v < 0\" or the like."] * (
            not each.when)
    reached = {each.target for each in written.transitions if each.source != each.target}
    faults += [f"mode '{name}' is never reached: no transition leads to it, and no invariant says where it is "
               "possible. Add one of them, or remove the mode."
               for name, mode in list(written.modes.items())[1:] if name not in reached and not mode.invariant]
    return faults


def _plain(kind: type, given: Any, label: str, faults: list[str]) -> Any:
    """A Mode or Transition, also from a table of its fields; None where it is neither."""
    if isinstance(given, kind):
        return given
    known = [each.name for each in fields(kind)]
    if not isinstance(given, Mapping):
        faults.append(f"{label} is a {type(given).__name__}; write {kind.__name__}({', '.join(known)}).")
        return None
    unknown = [key for key in given if key not in known]
    missing = [key for key in known[:2] if key not in given] if kind is Transition else []
    faults += [f"{label}: '{key}' has no meaning here.{did_you_mean(key, known)}" for key in unknown]
    faults += [f"{label}: it has no '{key}'." for key in missing]
    return None if unknown or missing else kind(**given)


class _DefinitionBuilder:
    """Takes text as it is and functions by what they return; the latter are written together at the end."""

    def __init__(self, written: ModelDefinition, faults: list[str]):
        self.written, self.faults = written, faults
        self.arguments = arguments_of(written, faults)
        self.later: list[tuple[list[casadi.SX], Callable[[list[str]], None]]] = []

    def texts(self, what: str, given: Any, of: str) -> Texts:
        if not callable(given):
            if not isinstance(given, Mapping):
                self.faults.append(f"the {what}{of} is {given!r}; write a dict from state to text, or a function.")
                return {}
            return texts_of(f"{what}{of}", given, self.faults)
        return self.traced(what, given, self.written.states if what == "rate" else None, of)

    def traced(self, what: str, function: Callable[..., Any], names: list[str] | None, of: str) -> Texts:
        found: Texts = {}
        for name, expression in trace(what, function, self.arguments, names, self.faults, of).items():
            found[name] = "0"  # until it is written
            self.later.append(([expression], functools.partial(_put, found, name)))
        return found

    def condition(self, given: Any, called: str, owner: ModeText | TransitionText, key: str) -> None:
        given = without_expression(given)
        if callable(given):
            sides: list[casadi.SX] = []
            pattern = condition_pattern(trace_condition(called, given, self.arguments, self.faults), sides)
            self.later.append((sides, lambda texts: setattr(owner, key, pattern.format(*texts))))
            setattr(owner, key, "1 > 0")  # until it is written
        elif isinstance(given, str):
            setattr(owner, key, " ".join(given.split()))
        else:
            self.faults.append(f"{called} is {given!r}; write a comparison such as \"v < 0\", or a function.")

    def finish(self) -> None:
        """Write what functions returned; parts that several of them share become definitions."""
        keyed = {(k, j): side for k, (sides, _) in enumerate(self.later) for j, side in enumerate(sides)}
        taken = {*self.written.definitions, *self.written.outputs, *self._mentioned()}
        try:
            texts, definitions = expressions_to_text(keyed, self.arguments.symbols, taken)
        except ProblemError as error:
            self.faults.extend(error.faults)
            return
        self.written.definitions |= definitions
        for k, (sides, put) in enumerate(self.later):
            put([texts[k, j] for j in range(len(sides))])

    def _mentioned(self) -> Iterable[str]:
        return (name for text in self.written.equations() for name in mentioned_names(text))


def _put(found: Texts, name: str, texts: list[str]) -> None:
    found[name] = texts[0]
