"""Transfer function: how do polynomials in s or z, or a model of a control package, become equations?

The states are those of the observer canonical form: the first is the output without its direct part, so that measurements say
where it begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynident._util.expressions import without_expression
from dynident.errors import ProblemError
from dynident.models.definition import Equation
from dynident.models.equations import EquationModel
from dynident.models.parser import NAME, names_in

FARTHEST_DELAY = 1000  # samples of a discrete model, each of which is a state


def transfer_function(num: Sequence[Equation], den: Sequence[Equation], delay: Equation | None = None,
                      sample_time: float | None = None, input: str = "u", output: str = "y", name: str = "") -> EquationModel:
    """The model y = num/den u, with coefficients as text or numbers, highest power first, as everywhere in control.

    Polynomials in s, or in z where `sample_time` is given. See the manual, reference/models.

    Parameters
    ----------
    num, den : sequence of str or float
        Coefficients of numerator and denominator, highest power first, with s in 1/(unit of time); the numerator is not of a
        higher degree.
    delay : str or float, optional
        Dead time of the input in the unit of time, made of parameters or a number; in discrete time a whole number of samples.
    sample_time : float, optional
        Of a model in discrete time, in the unit of time.
    input : str, default "u"
        Name of the input.
    output : str, default "y"
        Name of the output.
    name : str, default ""
        For reports.

    Returns
    -------
    EquationModel
        With the states x1, x2, ... of the observer canonical form: x1 is the output (without its direct part).

    Raises
    ------
    ProblemError
        For a numerator of higher degree, and for what is no coefficient.

    Examples
    --------
    >>> import dynident as di
    >>> plant = di.transfer_function(num=["K"], den=["T1*T2", "T1 + T2", 1], delay="theta")
    >>> plant.parameters
    ('T1', 'T2', 'K', 'theta')
    """
    faults: list[str] = []
    delay = without_expression(delay)
    above, below = _coefficients("num", num, faults), _coefficients("den", den, faults)
    if faults:
        raise ProblemError(faults)
    n = len(below) - 1
    if len(above) > n + 1:
        raise ProblemError(f"the numerator has degree {len(above) - 1} and the denominator {n}: such a system would look into "
                           "the future. Give num no more coefficients than den.")
    above = ["0"] * (n + 1 - len(above)) + above
    if _is(below[0], 0.0):
        raise ProblemError("the first coefficient of den is 0; leave it out.")
    taken = {each for text in [*above, *below, str(delay or "")] for each in (names_in(text) if text else ())} | {input, output}
    late, more = _delayed_input(input, delay, sample_time, taken)
    states = _free_names("x", n, taken)
    definitions: dict[str, Equation] = {}
    leading = below[0]
    below = ["1", *(_part(f"den{k}", text, leading, definitions, taken) for k, text in enumerate(below[1:], 1))]
    above = [_part(f"num{k}", text, leading, definitions, taken) for k, text in enumerate(above)]
    rates: dict[str, Equation] = {}
    for k, state in enumerate(states, 1):
        terms = [f"- {below[k]}*{states[0]}", *([f"+ {states[k]}"] if k < n else []), *_gain(above, below, k, late)]
        rates[state] = " ".join(terms).removeprefix("+ ")
    direct = [] if _is(above[0], 0.0) else [f"{above[0]}*{late}"]
    seen = " + ".join([*states[:1], *direct]) or "0"
    time: dict[str, Any] = {"states": rates} if sample_time is None else {"next": {**rates, **more}, "sample_time": sample_time}
    return EquationModel(**time, outputs={output: seen}, inputs=[input], definitions=definitions, name=name)


def _coefficients(what: str, given: Any, faults: list[str]) -> list[str]:
    if isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray)) or not len(given):
        faults.append(f"{what} = {given!r}; give its coefficients, highest power first, as in {what}=[\"K\", 1].")
        return []
    texts = []
    for each in given:
        each = without_expression(each)
        number = isinstance(each, (int, float, np.number)) and not isinstance(each, bool)
        if not number and not isinstance(each, str):
            faults.append(f"{what} holds {each!r}; a coefficient is a number or text.")
            continue
        if number and not math.isfinite(float(each)):
            faults.append(f"{what} holds {each!r}; only finite numbers can be used.")
        texts.append(each if isinstance(each, str) else repr(float(each)))
    return texts


def _is(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False


def _part(name: str, text: str, leading: str, definitions: dict[str, Equation], taken: set[str]) -> str:
    """A coefficient divided by the leading one: as it is where it is one word, else a definition with a name."""
    if _is(text, 0.0):
        return "0"
    if _is(leading, 1.0):
        whole = text
    elif not any(names_in(part) for part in (text, leading)):
        whole = repr(float(text) / float(leading)) if _numbers(text, leading) else f"({text})/({leading})"
    else:
        whole = f"({text})/({leading})"
    if NAME.fullmatch(whole) or (_numbers(whole) and float(whole) >= 0):
        return whole
    (own,) = _free_names(name, 1, taken, numbered=False)
    definitions[own] = whole
    return own


def _numbers(*texts: str) -> bool:
    try:
        return all(math.isfinite(float(text)) for text in texts)
    except ValueError:
        return False


def _gain(above: list[str], below: list[str], k: int, late: str) -> list[str]:
    """+ (b_k - a_k b_0) u, as short as it can be."""
    direct = "" if _is(above[0], 0.0) else f"{below[k]}*{above[0]}"
    if _is(above[k], 0.0):
        return [f"- {direct}*{late}"] if direct else []
    return [f"+ ({above[k]} - {direct})*{late}" if direct else f"+ {above[k]}*{late}"]


def _free_names(stem: str, count: int, taken: set[str], numbered: bool = True) -> list[str]:
    while True:
        names = [f"{stem}{k}" for k in range(1, count + 1)] if numbered else [stem]
        if not taken & set(names):
            taken.update(names)
            return names
        stem += "_"


def _delayed_input(input: str, delay: Any, sample_time: float | None, taken: set[str]) -> tuple[str, dict[str, Equation]]:
    """The text of the input that acts, and in discrete time the states that hold it back."""
    if delay is None or (isinstance(delay, str) and not delay.strip()):
        return input, {}
    if sample_time is None:
        return f"delay({input}, {delay})", {}
    whole = isinstance(delay, (int, float, np.number)) and not isinstance(delay, bool) and float(delay).is_integer()
    if not whole or not 0 <= delay <= FARTHEST_DELAY:
        raise ProblemError(f"delay = {delay!r}: in discrete time it is a whole number of samples, 0 to {FARTHEST_DELAY}. An "
                           "unknown one is found by trying: compare fits with delay=0, 1, 2, ...")
    held = _free_names(f"{input}_late", int(delay), taken)
    line = dict(zip(held, [input, *held[:-1]], strict=True))
    return (held[-1] if held else input), dict(line)


def from_control(system: Any, name: str = "") -> EquationModel:
    """A model of a control package (`control`, `scipy.signal`, ...) with its numbers as start values.

    Whatever has `num`, `den` (one input, one output) or `A`, `B`, `C`, `D` (any number), and `dt`. Of a transfer function every
    coefficient that is not zero is a parameter (b0, b1, ... and a1, a2, ... after division by the leading one of `den`); of a
    state space model every entry that is neither 0 nor 1 (A11, B21, ...), the others stay as they are. See the manual,
    reference/models.

    Parameters
    ----------
    system : object
        A transfer function or a state space model, in continuous or discrete time.
    name : str, default ""
        For reports.

    Returns
    -------
    EquationModel
        `Parameter("b0")` without a start begins at the number of the system; one that a problem does not declare keeps it.

    Raises
    ------
    ProblemError
        For an object that is neither, several inputs of a transfer function, and a discrete model without a sample time.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import dynident as di
    >>> system = SimpleNamespace(num=[[[2.0]]], den=[[[3.0, 1.0]]], dt=0)  # control.tf([2], [3, 1]) has the same attributes
    >>> model = di.from_control(system)
    >>> {name: value.start for name, value in model.nominal_values.items()}
    {'b1': 0.6666666666666666, 'a1': 0.3333333333333333}
    """
    sample_time = _sample_time(system)
    if all(hasattr(system, each) for each in "ABCD"):
        return _from_state_space(system, sample_time, name)
    if not hasattr(system, "num") or not hasattr(system, "den"):
        raise ProblemError(f"a {type(system).__name__} has neither num and den nor A, B, C and D; give a transfer function or "
                           "a state space model.")
    above, below = (np.asarray(_only("num", system.num), float), np.asarray(_only("den", system.den), float))
    below = np.trim_zeros(below, "f")
    above = np.trim_zeros(above, "f") / below[0]
    degree = below.size - 1
    starts: dict[str, float] = {}

    def named(letter: str, values: np.ndarray) -> list[Equation]:
        texts: list[Equation] = []
        for k, value in enumerate(values, degree + 1 - values.size):
            texts.append(f"{letter}{k}" if value else 0.0)
            starts.update({f"{letter}{k}": float(value)} if value else {})
        return texts

    num = named("b", above) or [0.0]
    den = [1.0, *named("a", below[1:] / below[0])]
    model = transfer_function(num, den, sample_time=sample_time, name=name)
    return EquationModel.from_definition(model.definition() | {"starts": starts})


def _sample_time(system: Any) -> float | None:
    dt = getattr(system, "dt", None)
    if dt is True:
        raise ProblemError("the system is one in discrete time whose sample time is not said (dt = True); give it one.")
    return None if dt is None or dt == 0 else float(dt)


def _only(what: str, coefficients: Any) -> Any:
    """The polynomial of one input and one output; control holds them as lists of lists."""
    while len(coefficients) and np.ndim(coefficients[0]) > 0 and len(coefficients) == 1:
        coefficients = coefficients[0]
    if len(coefficients) and np.ndim(coefficients[0]) > 0:
        raise ProblemError(f"{what} belongs to several inputs or outputs; give a state space model of such a system, or one "
                           "transfer function per model.")
    return coefficients


def _from_state_space(system: Any, sample_time: float | None, name: str) -> EquationModel:
    A, B, C, D = (np.atleast_2d(np.asarray(getattr(system, each), float)) for each in "ABCD")
    n, inputs, outputs = A.shape[0] if A.size else 0, B.shape[1] if B.size else D.shape[1], C.shape[0] if C.size else D.shape[0]
    starts: dict[str, float] = {}

    def row(letter: str, matrix: np.ndarray, i: int, signals: list[str]) -> list[str]:
        terms = []
        for j, signal in enumerate(signals):
            value = float(matrix[i, j]) if matrix.size else 0.0
            if value == 1.0:
                terms.append(signal)
            elif value:
                own = f"{letter}{i + 1}{j + 1}" if max(matrix.shape) < 10 else f"{letter}{i + 1}_{j + 1}"
                starts[own] = value
                terms.append(f"{own}*{signal}")
        return terms

    x = [f"x{k}" for k in range(1, n + 1)]
    u = ["u"] if inputs == 1 else [f"u{k}" for k in range(1, inputs + 1)]
    y = ["y"] if outputs == 1 else [f"y{k}" for k in range(1, outputs + 1)]
    rates = {state: " + ".join([*row("A", A, i, x), *row("B", B, i, u)]) or "0" for i, state in enumerate(x)}
    seen = {signal: " + ".join([*row("C", C, i, x), *row("D", D, i, u)]) or "0" for i, signal in enumerate(y)}
    time: dict[str, Any] = {"states": rates} if sample_time is None else {"next": rates, "sample_time": sample_time}
    return EquationModel(**time, outputs=seen, inputs=u, name=name, starts=starts)
