"""Symbolic source: how do expressions of SymPy, the equations of motion that its mechanics derives, and functions of CasADi
become equations?

SymPy is never imported here: whoever has such an object has the package. An expression is walked once per distinct part and
becomes a graph of CasADi; equations of motion are solved for the accelerations there, never by SymPy, which can take hours.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import casadi
import numpy as np

from dynident._util.expressions import is_expression, symbol_name
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.models.definition import TIME
from dynident.models.function_trace import BLACK_BOX
from dynident.models.parser import NAME
from dynident.models.printer import expressions_to_text
from dynident.tolerances import SYMMETRIC_MASS_MATRIX

ROLES = ("t", "x", "u", "p")  # arguments of a function of CasADi
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": casadi.sin, "cos": casadi.cos, "tan": casadi.tan, "asin": casadi.asin, "acos": casadi.acos, "atan": casadi.atan,
    "atan2": casadi.atan2, "sinh": casadi.sinh, "cosh": casadi.cosh, "tanh": casadi.tanh, "exp": casadi.exp, "Abs": casadi.fabs,
    "sign": casadi.sign, "cot": lambda a: 1 / casadi.tan(a), "sec": lambda a: 1 / casadi.cos(a),
    "csc": lambda a: 1 / casadi.sin(a), "coth": lambda a: 1 / casadi.tanh(a), "sech": lambda a: 1 / casadi.cosh(a),
    "asinh": lambda a: casadi.log(a + casadi.sqrt(a * a + 1)), "acosh": lambda a: casadi.log(a + casadi.sqrt(a * a - 1)),
    "atanh": lambda a: casadi.log((1 + a) / (1 - a)) / 2, "sinc": lambda a: casadi.if_else(a == 0, 1, casadi.sin(a) / a),
    "And": lambda *a: functools.reduce(casadi.logic_and, a), "Or": lambda *a: functools.reduce(casadi.logic_or, a),
    "Not": casadi.logic_not, "Max": lambda *a: functools.reduce(casadi.fmax, a),
    "Min": lambda *a: functools.reduce(casadi.fmin, a),
    "StrictLessThan": lambda a, b: a < b, "LessThan": lambda a, b: a <= b, "StrictGreaterThan": lambda a, b: b < a,
    "GreaterThan": lambda a, b: b <= a, "Equality": lambda a, b: a == b, "Unequality": lambda a, b: a != b}


SIGNS = {"StrictLessThan": "<", "LessThan": "<=", "StrictGreaterThan": ">", "GreaterThan": ">=", "Equality": "=="}
TIMES = ("t", "time")  # what an undefined function is one of, q(t); f(q) would be a function that nobody knows


class SympyReader:
    """Turns expressions into those of CasADi, each part once."""

    def __init__(self, known: Mapping[Any, casadi.SX] | None = None):
        self.symbols: dict[str, casadi.SX] = {}
        self.functions_of_time: dict[str, None] = {}  # q(t), in the order in which they were met
        self.faults: list[str] = []
        self._made: dict[Any, casadi.SX] = dict(known or {})

    def symbol(self, name: str) -> casadi.SX:
        if name not in self.symbols:
            if not NAME.fullmatch(name):
                self.faults.append(f"the symbol '{name}' is not a possible name: a letter, then letters, digits and _.")
            self.symbols[name] = casadi.SX.sym(name)
        return self.symbols[name]

    def read(self, expression: Any) -> casadi.SX:
        """By a stack of its own: expressions of mechanics are deeper than Python's."""
        waiting = [expression]
        while waiting:
            part = waiting[-1]
            if part in self._made:
                waiting.pop()
                continue
            missing = [] if self._is_leaf(part) else [each for each in self._operands(part) if each not in self._made]
            if missing:
                waiting += missing
                continue
            self._made[waiting.pop()] = self._combined(part)
        return self._made[expression]

    def _is_leaf(self, part: Any) -> bool:
        return not part.args or self._is_function_of_time(part) or type(part).__name__ == "Derivative"

    @staticmethod
    def _is_function_of_time(part: Any) -> bool:
        return type(type(part)).__name__ == "UndefinedFunction"

    @staticmethod
    def _operands(part: Any) -> list[Any]:
        if type(part).__name__ == "Piecewise":
            return [each for pair in part.args for each in pair.args]
        return list(part.args)

    def _combined(self, part: Any) -> casadi.SX:
        kind = type(part).__name__
        if self._is_function_of_time(part):
            if [str(each) for each in part.args] not in [[time] for time in TIMES]:
                raise ProblemError(f"{part} is a function that SymPy does not define and that is not one of time t. Where it "
                                   "is delay(...), interp(...) or a table of the model, write that equation as text.")
            self.functions_of_time.setdefault(symbol_name(part))
            return self.symbol(symbol_name(part))
        if kind == "Derivative":
            raise ProblemError(f"the derivative {part} is not among the states. Give each derivative a state of its own, or "
                               "the whole method object to from_sympy.")
        if not part.args:
            return self._atom(part)
        if kind == "Piecewise":
            return self._piecewise(part)
        values = [self._made[each] for each in part.args]
        if kind == "Add":
            return functools.reduce(lambda a, b: a + b, values)
        if kind == "Mul":
            return functools.reduce(lambda a, b: a * b, values)
        if kind == "Pow":
            return _power(values[0], values[1])
        if kind == "log":
            return casadi.log(values[0]) if len(values) == 1 else casadi.log(values[0]) / casadi.log(values[1])
        if kind == "Heaviside":
            at_zero = values[1] if len(values) > 1 else casadi.SX(0.5)
            return casadi.if_else(values[0] < 0, 0, casadi.if_else(values[0] > 0, 1, at_zero))
        if kind in FUNCTIONS:
            return FUNCTIONS[kind](*values)
        raise ProblemError(f"SymPy's {kind} ({str(part)[:60]}) is not a function that an equation can hold.")

    def _atom(self, part: Any) -> casadi.SX:
        if getattr(part, "is_number", False):
            value = complex(part)
            if value.imag or not math.isfinite(value.real):
                raise ProblemError(f"the number {part} cannot stand in an equation: only finite real ones can.")
            return casadi.SX(value.real)
        if part in (True, False) or type(part).__name__ in ("BooleanTrue", "BooleanFalse"):
            return casadi.SX(float(bool(part)))
        return self.symbol(symbol_name(part))

    def _piecewise(self, part: Any) -> casadi.SX:
        pairs = [(self._made[pair.args[0]], self._made[pair.args[1]]) for pair in part.args]
        last_value, last_condition = pairs[-1]
        if not last_condition.is_one():
            raise ProblemError(f"{str(part)[:80]} says nothing of the rest; end it with (value, True).")
        return functools.reduce(lambda rest, pair: casadi.if_else(pair[1], pair[0], rest), reversed(pairs[:-1]), last_value)


def _power(base: casadi.SX, exponent: casadi.SX) -> casadi.SX:
    if base.is_constant() and float(base) == math.e:
        return casadi.exp(exponent)
    if not exponent.is_constant():
        return base ** exponent
    value = float(exponent)
    if value == 0.5:
        return casadi.sqrt(base)
    if value == -0.5:
        return 1 / casadi.sqrt(base)
    return 1 / base ** -value if value < 0 else base ** value


def as_text(expression: Any) -> str:
    """One expression as text in the grammar of equations, where no definitions can be made."""
    reader = SympyReader()
    sx = reader.read(expression)
    if reader.faults:
        raise ProblemError(reader.faults)
    texts, definitions = expressions_to_text({"it": sx}, list(reader.symbols.values()))
    text = texts["it"]
    for name in reversed(definitions):
        text = re.sub(rf"\b{name}\b", f"({definitions[name]})", text)
    return text


def expression_text(expression: Any) -> str:
    """An expression as text, and a comparison, or several joined by and and or, as the condition that it is."""
    kind = type(expression).__name__
    if kind == "Not":
        return expression_text(expression.to_nnf())
    if kind in ("And", "Or"):
        return f" {kind.lower()} ".join(f"({expression_text(each)})" for each in expression.args)
    if kind in SIGNS:
        left, right = (as_text(each) for each in expression.args)
        return f"{left} {SIGNS[kind]} {right}"
    return as_text(expression)


def without_sympy(states: Any, following: Any, outputs: Any, definitions: Any, algebraic: Any, guesses: Any, faults: list[str]
                  ) -> tuple[Any, ...]:
    """The same with text in place of SymPy's expressions; parts that they share become definitions."""
    everything = {"states": states, "next": following, "outputs": outputs, "definitions": definitions, "algebraic": algebraic,
                  "guesses": guesses}
    mappings = {group: mapping for group, mapping in everything.items() if isinstance(mapping, Mapping)}
    reader, keyed = SympyReader(), {}
    for group, mapping in mappings.items():
        for key, value in mapping.items():
            if is_expression(value):
                try:
                    keyed[group, key] = reader.read(value)
                except ProblemError as error:
                    faults += error.faults
                    keyed[group, key] = casadi.SX(0)
    faults += reader.faults
    taken = {symbol_name(key) for mapping in mappings.values() for key in mapping}
    texts, shared = expressions_to_text(keyed, list(reader.symbols.values()), {*taken, *reader.symbols})
    for group, mapping in mappings.items():
        everything[group] = {symbol_name(key): texts.get((group, key), value) for key, value in mapping.items()}
    everything["definitions"] = {**(everything["definitions"] or {}), **shared} or None
    return tuple(everything.values())


# equations of motion


def sympy_arguments(source: Any, outputs: Any, inputs: Iterable[Any] | None, options: dict[str, Any]) -> dict[str, Any]:
    """What EquationModel takes, from a method object of sympy.physics.mechanics or a dict of first-order equations."""
    if isinstance(source, Mapping):
        names = [symbol_name(key) for key in source]
        reader = SympyReader({key: casadi.SX.sym(name) for key, name in zip(source, names, strict=True) if is_expression(key)})
        for key, name in zip(source, names, strict=True):
            reader.symbols[name] = reader._made[key] if is_expression(key) else casadi.SX.sym(name)
        rates = {name: reader.read(value) if is_expression(value) else casadi.SX(value) for name, value in
                 zip(names, source.values(), strict=True)}
    elif all(hasattr(type(source), each) for each in ("mass_matrix", "forcing", "q", "u")):
        reader, rates = _motion(source)
    else:
        raise ProblemError(f"from_sympy takes a KanesMethod, a LagrangesMethod or a dict from state to rate, not a "
                           f"{type(source).__name__}.")
    measured = {} if outputs is None else {symbol_name(name): value for name, value in dict(outputs).items()}
    seen = {name: reader.read(value) for name, value in measured.items() if is_expression(value)}
    if reader.faults:
        raise ProblemError(reader.faults)
    driven = [symbol_name(each) for each in inputs] if inputs is not None else [
        name for name in reader.functions_of_time if name not in rates]
    keyed = {("state", n): e for n, e in rates.items()} | {("output", n): e for n, e in seen.items()}
    taken = {*reader.symbols, *measured}
    texts, definitions = expressions_to_text(keyed, list(reader.symbols.values()), taken)
    said = {name: texts.get(("output", name), value) for name, value in measured.items()}
    constants = {symbol_name(name): float(value) for name, value in (options.pop("constants", None) or {}).items()}
    return {"states": {name: texts["state", name] for name in rates}, "outputs": said or None, "inputs": driven,
            "definitions": definitions, "constants": constants, **options}


def _motion(method: Any) -> tuple[SympyReader, dict[str, casadi.SX]]:
    """Coordinates move by the kinematic equations, speeds by M^-1 f."""
    coordinates, speeds = list(method.q), list(method.u)
    mass, forcing = _derived(method)
    if mass.shape[0] != len(speeds):
        raise NotSupported(f"the equations of motion have {mass.shape[0]} rows for {len(speeds)} speeds: constraints with "
                           "multipliers are no ordinary differential equations. Choose independent coordinates.")
    names = [symbol_name(each) for each in coordinates]
    speed_names = [f"{symbol_name(each)}_dot" if type(each).__name__ == "Derivative" else symbol_name(each) for each in speeds]
    reader = SympyReader()
    for key, name in zip([*coordinates, *speeds], [*names, *speed_names], strict=True):
        reader._made[key] = reader.symbol(name)
    kinematic = _kinematics(method, coordinates, speeds)
    moved = {}
    for coordinate, name in zip(coordinates, names, strict=True):
        derivative = coordinate.diff(_time_of(coordinate))
        moved[name] = reader._made[derivative] if derivative in reader._made else reader.read(kinematic[derivative])
        reader._made[derivative] = moved[name]
    n = len(speeds)
    M = casadi.vertcat(*(casadi.horzcat(*(reader.read(mass[i, j]) for j in range(n))) for i in range(n)))
    f = casadi.vertcat(*(reader.read(forcing[i]) for i in range(n)))
    a = solve_mass_matrix(M, f)
    return reader, moved | {name: a[k] for k, name in enumerate(speed_names)}


def _derived(method: Any) -> tuple[Any, Any]:
    """Mass matrix and forcing; derived now, where that was not done."""
    for derive in (None, "form_lagranges_equations"):
        try:
            if derive is not None:
                getattr(method, derive)()
            return method.mass_matrix, method.forcing
        except (ValueError, AttributeError, TypeError) as error:
            reason = error
    raise ProblemError(f"the equations of motion are not derived yet ({str(reason).rstrip('.')}). Call kanes_equations(...) or "
                       "form_lagranges_equations() first.")


def _time_of(coordinate: Any) -> Any:
    return coordinate.args[0]


def _kinematics(method: Any, coordinates: list[Any], speeds: list[Any]) -> dict[Any, Any]:
    if not hasattr(method, "kindiffdict"):
        return {}
    return dict(method.kindiffdict())


def solve_mass_matrix(M: casadi.SX, f: casadi.SX) -> casadi.SX:
    """M^-1 f by an LDL' factorization, which a symmetric positive mass matrix allows without pivots; else by QR."""
    n = M.shape[0]
    if not _symmetric(M):
        return casadi.solve(M, f)
    L, D = casadi.SX.eye(n), [casadi.SX(0)] * n
    for j in range(n):
        D[j] = M[j, j] - sum((L[j, k] ** 2 * D[k] for k in range(j)), casadi.SX(0))
        for i in range(j + 1, n):
            L[i, j] = (M[i, j] - sum((L[i, k] * L[j, k] * D[k] for k in range(j)), casadi.SX(0))) / D[j]
    y = [casadi.SX(0)] * n
    for i in range(n):
        y[i] = f[i] - sum((L[i, k] * y[k] for k in range(i)), casadi.SX(0))
    x = [casadi.SX(0)] * n
    for i in reversed(range(n)):
        x[i] = y[i] / D[i] - sum((L[k, i] * x[k] for k in range(i + 1, n)), casadi.SX(0))
    return casadi.vertcat(*x)


def _symmetric(M: casadi.SX) -> bool:
    """Whether it is, and positive definite, at some random points of positive parameters."""
    symbols = casadi.symvar(M)
    values = casadi.Function("M", [casadi.vertcat(*symbols)] if symbols else [], [casadi.densify(M)])
    rng = np.random.default_rng(0)
    for _ in range(5):
        A = np.asarray(values(rng.uniform(0.2, 2.0, len(symbols))) if symbols else values()["o0"])
        if not np.all(np.isfinite(A)) or np.max(np.abs(A - A.T)) > SYMMETRIC_MASS_MATRIX * np.max(np.abs(A)):
            return False
        if np.min(np.linalg.eigvalsh((A + A.T) / 2)) <= 0:
            return False
    return True


def casadi_arguments(function: Any, states: Sequence[str], inputs: Sequence[str], parameters: Sequence[str],
                     outputs: Sequence[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """What EquationModel takes; `function` maps t, x, u, p, or those of them that there are, to dx, or to dx and y."""
    if not isinstance(function, casadi.Function):
        raise ProblemError(f"from_casadi takes a casadi.Function, not a {type(function).__name__}.")
    names = {"t": [TIME], "x": [str(n) for n in states], "u": [str(n) for n in inputs], "p": [str(n) for n in parameters]}
    symbols = {role: [casadi.SX.sym(name) for name in own] for role, own in names.items()}
    roles, faults = _roles(function, names), []
    for k, role in enumerate(roles):
        if function.numel_in(k) != len(names[role]):
            faults.append(f"argument {k} of {function.name()} ({role}) has {function.numel_in(k)} entries, but "
                          f"{len(names[role])} names are given: {', '.join(names[role]) or 'none'}.")
    wanted = 1 if outputs is None else 2
    if function.n_out() < wanted:
        faults.append(f"{function.name()} returns the rates only; outputs=[...] names what a second result holds.")
    sizes = [len(names["x"]), *([] if outputs is None else [len(outputs)])]
    faults += [f"result {k} of {function.name()} has {function.numel_out(k)} entries for {size} names."
               for k, size in enumerate(sizes) if k < function.n_out() and function.numel_out(k) != size]
    if faults:
        raise ProblemError(faults)
    try:
        plain = function.expand()
        results = plain.call([casadi.reshape(casadi.vertcat(*symbols[role]) if symbols[role] else casadi.SX(0, 1),
                                             *function.size_in(k)) for k, role in enumerate(roles)])
    except RuntimeError as error:
        raise _no_formula(function, str(error).strip().split("\n")[-1]) from error
    dx = casadi.vertsplit(casadi.densify(casadi.vec(results[0])))
    y = [] if outputs is None else casadi.vertsplit(casadi.densify(casadi.vec(results[1])))
    keyed = {("state", n): e for n, e in zip(names["x"], dx, strict=True)}
    keyed |= {("output", n): e for n, e in zip(outputs or (), y, strict=True)}
    try:
        texts, definitions = expressions_to_text(keyed, [each for role in ROLES for each in symbols[role]], outputs or ())
    except ProblemError as error:
        raise _no_formula(function, error.faults[0].split(". ")[0]) from error
    met = {symbol.name() for each in keyed.values() for symbol in casadi.symvar(each)}
    return {"states": {n: texts["state", n] for n in names["x"]}, "inputs": names["u"], "parameters": names["p"],
            "outputs": None if outputs is None else {n: texts["output", n] for n in outputs}, "definitions": definitions,
            "unused": [n for n in [*names["u"], *names["p"]] if n not in met], **options}


def _no_formula(function: casadi.Function, reason: str) -> ProblemError:
    return ProblemError(f"{function.name()} cannot be written as plain expressions ({reason}): it calls what is no formula, "
                        f"such as an integrator or a root finder. {BLACK_BOX}")


def _roles(function: casadi.Function, names: dict[str, list[str]]) -> list[str]:
    """Which argument is which: by its name, or else by the order t, x, u, p with what is empty left out."""
    called = [function.name_in(k) for k in range(function.n_in())]
    if all(name in ROLES for name in called):
        return called
    if not all(name.startswith("i") and name[1:].isdigit() for name in called):
        strange = next(name for name in called if name not in ROLES)
        raise ProblemError(f"the argument '{strange}' of {function.name()} is none of t, x, u and p."
                           f"{did_you_mean(strange, ROLES)}")
    if len(called) == len(ROLES):
        return list(ROLES)
    there = ["x", *(role for role in ("u", "p") if names[role])]
    for roles in (there, ["t", *there], ["x", "u", "p"]):
        if len(roles) == len(called):
            return roles
    raise ProblemError(f"{function.name()} has {len(called)} arguments; give it t, x, u and p, or name them so.")
