"""EquationModel: how do equations, written as text or as a Python function, become a model?

Both ways end as text: a function is traced once with symbols and written down, and the model is built from what was
written. So a model is plain data, the same in every process, and holds no code.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, final

import casadi

from dynident._util.data_classes import short_text
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.models.algebraic import AlgebraicSystem, read_algebraic
from dynident.models.definition import (
    KIND,
    TIME,
    Equation,
    ModelDefinition,
    clashes,
    column_vector,
    definition_order,
    delay_faults,
    empty_faults,
    holds_symbols,
    name_faults,
    names_of,
    numbers_of,
    parse,
    start_faults,
    tables_of,
    take_algebraic,
    take_next,
    take_text,
    undeclared_names,
    unknown_units,
    unused,
    with_parameters_of_tables,
)
from dynident.models.delay import Delay, Undelayed
from dynident.models.formula_parts import FormulaParts
from dynident.models.hybrid import Mode, Transition, take_automaton
from dynident.models.hybrid_functions import Maker, ModeFunctions, TransitionFunctions, read_automaton
from dynident.models.parser import Scope
from dynident.models.position_velocity import position_velocity
from dynident.models.printer import model_text
from dynident.models.tracing import take_functions
from dynident.problem.model import NominalValue

ITEMS = ("states", "algebraic", "guesses", "modes", "transitions", "outputs", "inputs", "constants", "definitions",
         "parameters", "units", "name", "tables", "next", "sample_time", "starts", "unused")
MODEL_CACHE_SIZE = 16  # models that arrived from another process and are kept


@final
class EquationModel(FormulaParts):
    """A model of differential equations, given as text or as Python functions; frozen, compared by its content.

    A name in the equations that is declared nowhere is a parameter, unless `parameters` lists them all. Time is `t`.
    See the manual, reference/models.

    Parameters
    ----------
    states : mapping of str to str, or sequence of str, optional
        The rate of each state as text (or a number, or an expression of SymPy, here and wherever text is taken); the names
        alone where `rate` or `modes` give the rates.
    algebraic : mapping of str to str, or sequence of str, optional
        Algebraic variables, each with an expression that is zero (index 1: together they determine the variables); the names
        alone where `rate` gives the expressions. Rates and outputs may use them.
    guesses : mapping of str to str or float, optional
        Where to look for algebraic variables that enter nonlinearly, as text over states, inputs and parameters; left out, 0
        and then 1. Each next place is looked for from the one before.
    outputs : mapping of str to str, or sequence of str, optional
        Measured quantities as text; left out, every state is measured under its own name.
    inputs : sequence of str, default ()
        Names of the inputs.
    constants : mapping of str to float, optional
        Known numbers by name, in the units in which the equations count.
    definitions : mapping of str to str, optional
        Parts of the equations with a name.
    parameters : sequence of str, optional
        All parameters, in this order; left out, they are found in the equations.
    units : mapping of str to str, optional
        By name, and of "time"; records are checked against them.
    name : str, default ""
        For reports.
    rate : callable, optional
        `rate(t, x, u, p)` returns a rate per state, as a dict or in the order of the states; behind them, per algebraic
        variable, what is zero. It is traced with symbols, and compared with itself at random points: `x.q`, `x["q"]` and
        `x[0]` read a state (algebraic variables stand behind the states), `p` holds parameters and constants,
        functions come from numpy, math or `dynident.maths`.
    output : callable, optional
        `output(t, x, u, p)` returns a dict of outputs.
    modes : mapping of str to Mode, optional
        Modes of a hybrid model by name.
    transitions : sequence of Transition, default ()
        From mode to mode.
    tables : mapping of str to mapping, optional
        Look-up tables with unknown values: `{"f": {"knots": [-1, 0, 1]}}` is called as `f(v)` in equations and has the
        parameters f0, f1, f2; `"smooth": True` for a continuous slope.
    next : mapping of str to str, optional
        In discrete time, the next value of each state, instead of `states`.
    sample_time : float, optional
        Of a model in discrete time, in the unit of time.
    starts : mapping of str to float, optional
        Values of parameters, in their units, that the model brings along: where `Parameter("k")` begins that says no start; a
        parameter that a problem does not declare keeps it.
    unused : sequence of str, default ()
        Declared inputs, constants and parameters that need not occur in any equation.

    Raises
    ------
    ProblemError
        With everything that is wrong; a caret stands under the character of an equation that cannot be read.

    Examples
    --------
    >>> import dynident as di
    >>> mass = di.EquationModel(states={"q": "v", "v": "(u - d*v - k*q)/m"},
    ...                         outputs={"position": "q"}, inputs=["u"])
    >>> mass.parameters
    ('d', 'k', 'm')
    >>> cable = di.EquationModel(states={"q": "i"}, algebraic={"i": "R*i + i**3 + q/C"})
    >>> cable.algebraic
    ('i',)
    """

    states: tuple[str, ...]
    algebraic: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    constants: Mapping[str, float]
    units: Mapping[str, str]
    name: str
    modes: tuple[str, ...]  # a model without modes has one, called ""
    transitions: tuple[TransitionFunctions, ...]
    delays: tuple[Delay, ...]  # delayed inputs; each is a channel behind the inputs in the functions of the modes
    sample_time: float | None  # of a model in discrete time
    notes: tuple[str, ...]  # on constants that no equation uses
    channel_output: casadi.Function  # (t, x, inputs and delayed inputs, p) -> y
    algebraic_system: AlgebraicSystem | None  # before the algebraic variables were eliminated; None: there are none
    stepwise = ()  # any input may move linearly between samples
    _modes: Mapping[str, ModeFunctions]
    _definition: dict[str, Any]

    def __init__(self, *, states: Mapping[str, Equation] | Sequence[str] | None = None,
                 algebraic: Mapping[str, Equation] | Sequence[str] | None = None,
                 guesses: Mapping[str, Equation] | None = None,
                 outputs: Mapping[str, Equation] | Sequence[str] | None = None, inputs: Sequence[str] = (),
                 constants: Mapping[str, float] | None = None, definitions: Mapping[str, Equation] | None = None,
                 parameters: Sequence[str] | None = None, units: Mapping[str, str] | None = None, name: str = "",
                 rate: Callable[..., Any] | None = None, output: Callable[..., Any] | None = None,
                 modes: Mapping[str, Mode | Mapping[str, Any]] | None = None,
                 transitions: Sequence[Transition | Mapping[str, Any]] = (),
                 tables: Mapping[str, Mapping[str, Any]] | None = None, next: Mapping[str, Equation] | None = None,
                 sample_time: float | None = None, starts: Mapping[str, float] | None = None,
                 unused: Sequence[str] = ()):
        faults: list[str] = []
        if holds_symbols(states, next, outputs, definitions, algebraic, guesses):
            from dynident.models.symbolic_source import without_sympy

            states, next, outputs, definitions, algebraic, guesses = without_sympy(
                states, next, outputs, definitions, algebraic, guesses, faults)
        written = ModelDefinition(
            inputs=names_of("inputs", inputs, faults), constants=numbers_of(constants or {}, faults),
            parameters=None if parameters is None else names_of("parameters", parameters, faults),
            units={str(k): str(v) for k, v in (units or {}).items()}, name=str(name),
            tables=tables_of(tables or {}, faults), starts=numbers_of(starts or {}, faults, "start of"),
            unused=names_of("unused", unused, faults))
        if next is not None or sample_time is not None:
            states = take_next(written, next, sample_time, states, rate, modes, faults)
        elif states is None:
            raise ProblemError([*faults, "the model has no states. Write states={\"q\": \"v\", ...}, next={...} in discrete "
                                         "time, or states={} where outputs follow inputs at once."])
        if algebraic or guesses:
            take_algebraic(written, algebraic or {}, guesses or {}, rate is not None, faults)
        if modes is not None or transitions:
            take_automaton(written, states, outputs, definitions or {}, modes or {}, transitions, rate, output, faults)
        elif rate is None and output is None:
            take_text(written, states, outputs, definitions or {}, faults)
        else:
            take_functions(written, states, outputs, definitions, rate, output, faults)
            if faults:
                raise ProblemError(faults)  # there is no text to look at
        self._build(written, faults)

    def _build(self, written: ModelDefinition, faults: list[str]) -> None:
        """The symbols and functions of equations that are all text by now."""
        complete = not faults
        faults += empty_faults(written)
        faults += name_faults(written)
        written.parameters = undeclared_names(written) if written.parameters is None else with_parameters_of_tables(written)
        symbols = {name: casadi.SX.sym(name) for name in [TIME, *(name for _, name in written.declared())]}
        known = Scope(symbols, written.tables, written.inputs)
        for name in definition_order(written, faults):
            known[name] = parse(written.definitions[name], known, f"definition of '{name}'", faults)
        motion = read_automaton(written, known, faults)
        measured = [parse(text, known, f"output '{name}'", faults) for name, text in written.outputs.items()]
        zero = [parse(text, known, f"algebraic equation of '{name}'", faults) for name, text in written.algebraic.items()]
        late = [part for (name, _), (_, dead_time) in known.delayed.items() for part in (symbols[name], dead_time)]
        idle, notes = unused(written, None if faults else [*motion.expressions(), *measured, *late, *zero])
        faults += idle if complete else []
        faults += delay_faults(written, known, symbols)
        faults += motion.guard_faults([symbols[name] for name in [TIME, *written.states, *written.inputs]], not faults)
        faults += [*clashes(written), *start_faults(written), *unknown_units(written)]
        if faults:
            raise ProblemError(faults)
        groups = [[symbols[name] for name in group] for group in (written.states, written.inputs, written.parameters)]
        groups[1] += [symbol for symbol, _ in known.delayed.values()]
        arguments = [symbols[TIME], *(column_vector(group) for group in groups)]
        make = Maker(arguments, (column_vector(symbols[name] for name in written.constants),
                                 column_vector(written.constants.values())))
        system = read_algebraic(written, motion, (zero, measured), known, make) if zero else None
        modes = motion.modes(make, None if system is None else system.eliminated(system.motion))
        output = make.function("output", measured, "y") if system is None else system.eliminated(system.measured)
        for key, value in {
                "states": tuple(written.states), "algebraic": tuple(written.algebraic), "algebraic_system": system,
                "inputs": tuple(written.inputs), "outputs": tuple(written.outputs),
                "parameters": tuple(written.parameters), "constants": MappingProxyType(written.constants),
                "units": MappingProxyType(written.units), "name": written.name,
                "modes": tuple(mode.name for mode in modes), "_modes": {mode.name: mode for mode in modes},
                "transitions": motion.transitions(make), "channel_output": output,
                "delays": tuple(Delay(written.inputs.index(name), str(symbol), make.of_parameters("dead_time", dead_time))
                                for (name, _), (symbol, dead_time) in known.delayed.items()),
                "sample_time": written.sample_time, "notes": tuple(notes), "_definition": written.definition()}.items():
            object.__setattr__(self, key, value)

    @property
    def nominal_values(self) -> Mapping[str, NominalValue]:
        """Of the parameters for which the model brings a start along (`starts`)."""
        return {name: NominalValue(value) for name, value in self._definition.get("starts", {}).items()}

    def why_not_estimable(self, name: str) -> str:
        """Nothing: what is no parameter of equations does not occur in them."""
        return ""

    @property
    def hybrid(self) -> bool:
        """Whether there are modes to choose from, or states that jump."""
        return len(self.modes) > 1 or bool(self.transitions)

    @property
    def rate(self) -> casadi.Function:
        """(t, x, u, p) -> dx of a model with one mode."""
        if self.hybrid:
            raise NotSupported(f"{self._label} has modes ({', '.join(map(repr, self.modes))}) and no rate that holds in all of "
                               "them. Simulations and single_shooting(), multiple_shooting() and least_squares() follow the "
                               "modes; for all else, an FMU included, write the equations of one mode as a model of their own.")
        self._require_plain_inputs()
        if self.sample_time is not None:
            raise NotSupported(f"{self._label} is one in discrete time (next=...) and has no rate. Simulations and "
                               "single_shooting(), multiple_shooting() and least_squares() take it.")
        return self._modes[self.modes[0]].rate

    @property
    def output(self) -> casadi.Function:
        """(t, x, u, p) -> y"""
        self._require_plain_inputs()
        return self.channel_output

    @property
    def next_state(self) -> casadi.Function:
        """(t, x, u, p) -> x one sample later, of a model in discrete time."""
        assert self.sample_time is not None
        return self._modes[self.modes[0]].rate

    def _require_plain_inputs(self) -> None:
        if self.delays:
            raise NotSupported(f"{self._label} has a dead time ({', '.join(each.text for each in self.delays)}), so that its "
                               "rate depends on inputs of the past. Simulations and single_shooting(), multiple_shooting() and "
                               "least_squares() take it.")

    @functools.cached_property
    def undelayed(self) -> Any:
        """The model as it would be without dead times, for first guesses; looks like a model."""
        return Undelayed(self) if self.delays else self

    def mode(self, name: str) -> ModeFunctions:
        """The functions of one mode."""
        if name not in self._modes:
            raise ProblemError(f"{self._label} has no mode '{name}'.{did_you_mean(name, self.modes)}")
        return self._modes[name]

    @classmethod
    def from_sympy(cls, source: Any, outputs: Mapping[Any, Any] | None = None, inputs: Sequence[Any] | None = None,
                   **options: Any) -> EquationModel:
        """The model of a derivation with SymPy: a `KanesMethod` or `LagrangesMethod`, or a dict from state to rate.

        Accelerations are solved for here, not by SymPy. Coordinates and speeds are the states (the speed of q that is its
        derivative is called q_dot), `inputs` (left out: other functions of time) the inputs, other symbols the parameters.
        `outputs` are expressions or text; `options` those of the model, such as `constants` and `name`. See the manual,
        reference/models.

        Examples
        --------
        >>> import dynident as di
        >>> import sympy
        >>> q, w, k = sympy.symbols("q w k")
        >>> di.EquationModel.from_sympy({q: w, w: -k*sympy.sin(q)}, outputs={"y": sympy.cos(q)}).parameters
        ('k',)
        """
        from dynident.models.symbolic_source import sympy_arguments

        return cls(**sympy_arguments(source, outputs, inputs, options))

    @classmethod
    def from_casadi(cls, function: casadi.Function, *, states: Sequence[str], inputs: Sequence[str] = (),
                    parameters: Sequence[str] = (), outputs: Sequence[str] | None = None, **options: Any) -> EquationModel:
        """The model of a CasADi function of (t, x, u, p), or of those of them that there are, to the rates.

        Arguments go by these names, or else by this order. A second result holds `outputs`; left out, every state is measured.
        `options` are those of the model. See the manual, reference/models.

        Examples
        --------
        >>> import casadi
        >>> import dynident as di
        >>> x, p = casadi.SX.sym("x", 2), casadi.SX.sym("p")
        >>> f = casadi.Function("f", [x, p], [casadi.vertcat(x[1], -p*casadi.sin(x[0]))])
        >>> di.EquationModel.from_casadi(f, states=["q", "w"], parameters=["k"]).parameters
        ('k',)
        """
        from dynident.models.symbolic_source import casadi_arguments

        return cls(**casadi_arguments(function, states, inputs, parameters, outputs, options))

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> EquationModel:
        """The model that `definition()` describes."""
        faults = []
        if definition.get("kind") != KIND:
            faults.append(f"a model of kind {definition.get('kind')!r} is not made of equations; expected '{KIND}'.")
        faults += [f"'{key}' has no meaning in a model.{did_you_mean(key, ITEMS)}"
                   for key in definition if key not in ("kind", *ITEMS)]
        faults += ["the model has no 'states'."] * ("states" not in definition and "next" not in definition)
        if faults:
            raise ProblemError(faults)
        return cls(**{key: value for key, value in definition.items() if key != "kind"})

    def definition(self) -> dict[str, Any]:
        """The model as plain data: text and numbers, from which `from_definition` builds it again."""
        return copy.deepcopy(self._definition)

    def content_hash(self) -> str:
        """A fingerprint of the definition; equal for models that say the same in the same words."""
        return self._content_hash

    @functools.cached_property
    def _content_hash(self) -> str:
        said = self.definition()
        for unordered in ("constants", "definitions", "units", "tables", "starts"):
            if unordered in said:
                said[unordered] = sorted(said[unordered].items())
        for ordered in ("states", "algebraic", "next", "outputs", "modes"):
            if isinstance(said.get(ordered), dict):
                said[ordered] = list(said[ordered].items())
        return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

    def position_velocity(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Positions and, in the same order, their velocities, as indices into the states.

        The form asks that each position's rate is one velocity and nothing else, and that every state is one of both.
        """
        rate = self.undelayed.rate if self.algebraic_system is None else self.algebraic_system.motion
        try:
            return position_velocity(rate, self.states)
        except NotSupported as reason:
            raise NotSupported(f"{self._label} {reason}") from None

    def __str__(self) -> str:
        return model_text(self._definition)

    __repr__ = short_text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EquationModel) and self.content_hash() == other.content_hash()

    def __hash__(self) -> int:
        return hash(self.content_hash())

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"a model is frozen; build another one to change '{key}'.")

    def __delattr__(self, key: str) -> None:
        raise AttributeError(f"a model is frozen; build another one without '{key}'.")

    def __reduce__(self) -> tuple[Any, ...]:
        return _built_once, (self.content_hash(), self.definition())


_built: OrderedDict[str, EquationModel] = OrderedDict()


def _built_once(content_hash: str, definition: Mapping[str, Any]) -> EquationModel:
    """A model that arrives in this process; the same object if it has arrived before, since building takes a while."""
    if content_hash not in _built:
        _built[content_hash] = EquationModel.from_definition(definition)
        while len(_built) > MODEL_CACHE_SIZE:
            _built.popitem(last=False)
    return _built[content_hash]
