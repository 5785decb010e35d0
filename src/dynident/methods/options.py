"""Options: fields of a frozen dataclass that each carry one line of documentation and their own check.

The same fields are the arguments of a method in Python, the keys of its `[method]` table and the rows of its table in the
manual.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, get_type_hints

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.integrators import integrator_named
from dynident.problem.noise import check_loss

MAX_ITERATIONS = 200
AUTOMATIC = "auto"  # the integrator is chosen by whether the model is stiff

OptionCheck = Callable[[str, Any], list[str]]  # of a name and a value: what is wrong with it, each a sentence
T = TypeVar("T")
FIRST_SECTION = re.compile(r"^(?=\w[\w ]*\n-{3,}$)", re.MULTILINE)
DOCSTRING_WIDTH = 116  # of a line, indentation not counted


def option(default: Any, doc: str, check: OptionCheck, unit: str = "", keep_empty: bool = False) -> Any:
    """A field with its one line of documentation, its check and its unit.

    A default that can change is given as a function that makes it. `keep_empty`: an empty table says something.
    """
    data = {"doc": doc, "check": check, "unit": unit, "keep_empty": keep_empty}
    return field(default_factory=default, metadata=data) if callable(default) else field(default=default, metadata=data)


def check_options(method: Any, more: Iterable[str] = ()) -> None:
    """Refuse all options that make no sense at once; `more` is what single fields cannot see."""
    faults = [fault for f in fields(method) for fault in f.metadata["check"](f.name, getattr(method, f.name))]
    if faults := [*faults, *more]:
        raise ProblemError(faults)


def plain_options(method: Any, unread: Iterable[str] = ()) -> dict[str, Any]:
    """What was set, as plain data with the key `kind`; None, empty tables and what is not read say nothing."""
    data: dict[str, Any] = {"kind": method.kind}
    for f in fields(method):
        value = getattr(method, f.name)
        empty = value is None or (not f.metadata["keep_empty"] and isinstance(value, (str, Mapping)) and not value)
        if f.name not in unread and not empty:
            data[f.name] = dict(value) if isinstance(value, Mapping) else value
    return data


@dataclass(frozen=True)
class OptionRow:
    """An option as the manual lists it."""

    name: str
    default: Any
    doc: str
    unit: str


def option_rows(method: type) -> list[OptionRow]:
    """The options of a class of methods, in order."""
    return [OptionRow(f.name, f.default if f.default is not MISSING else f.default_factory(),  # type: ignore[misc, operator]
                      f.metadata.get("doc", ""), f.metadata.get("unit", "")) for f in fields(method)]


def documented(method: type[T]) -> type[T]:
    """The class with the sections Parameters and Raises in its docstring, made from its fields, before its first section."""
    text = inspect.cleandoc(method.__doc__ or "")
    head, *rest = FIRST_SECTION.split(text, maxsplit=1)
    hints = get_type_hints(method)
    rows = "\n".join(_documented_option(row, hints[row.name]) for row in option_rows(method))
    raises = "Raises\n------\nProblemError\n    With everything that is wrong about the options."
    method.__doc__ = "\n\n".join([head.rstrip(), f"Parameters\n----------\n{rows}", raises, *rest]) + "\n"
    _refuse_unknown_options(method)
    return method


def _refuse_unknown_options(method: type) -> None:
    """An option that is none is answered with the name that was meant."""
    plain, names = method.__init__, [f.name for f in fields(method)]  # type: ignore[misc]
    called = vars(method).get("kind", method.__name__)

    @functools.wraps(plain)
    def checked(self: Any, *positional: Any, **options: Any) -> None:
        wrong = [name for name in options if name not in names]
        if wrong:
            raise ProblemError([f"{called} has no option '{name}'.{did_you_mean(name, names)}"
                                for name in wrong])
        plain(self, *positional, **options)

    method.__init__ = checked  # type: ignore[misc]


def _documented_option(row: OptionRow, kind: Any) -> str:
    """Its entry in the section Parameters."""
    name = kind.__name__ if isinstance(kind, type) else re.sub(r"\w+\.", "", str(kind)).replace(" | ", " or ")
    empty = row.default is None or (not isinstance(row.default, (str, tuple)) and row.default == {})
    quoted = f'"{row.default}"' if isinstance(row.default, str) else repr(row.default)
    doc = row.doc + (f" In {row.unit}." if row.unit else "")
    lines = textwrap.indent(textwrap.fill(doc, DOCSTRING_WIDTH), "    ")
    return f"{row.name} : {name.removesuffix(' or None')}, {'optional' if empty else f'default {quoted}'}\n{lines}"


# checks


def is_whole(value: Any) -> bool:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def whole_number(least: int, *others: Any) -> OptionCheck:
    """A whole number, or one of a few other values."""
    words = "".join(f', or "{other}"' for other in others if isinstance(other, str))

    def check(name: str, value: Any) -> list[str]:
        if any(value is None if other is None else isinstance(value, str) and value == other for other in others):
            return []
        good = is_whole(value) and value >= least
        return [] if good else [f"{name} = {value!r}; give a whole number from {least} on{words}."]

    return check


def positive_number(name: str, value: Any) -> list[str]:
    good = is_number(value) and 0 < value < float("inf")
    return [] if good else [f"{name} = {value!r}; give a positive number."]


def one_of(known: Iterable[str]) -> OptionCheck:
    names = tuple(known)
    return lambda name, value: [] if isinstance(value, str) and value in names else [
        f"{name} = {value!r} is not known.{did_you_mean(str(value), names)}"]


def true_or_false(name: str, value: Any) -> list[str]:
    return [] if isinstance(value, (bool, np.bool_)) else [f"{name} = {value!r}; say true or false."]


def known_integrator(name: str, value: Any) -> list[str]:
    integrator_named(value)  # says itself what is wrong
    return []


def known_or_automatic_integrator(name: str, value: Any) -> list[str]:
    return [] if value == AUTOMATIC else known_integrator(name, value)


def known_loss(name: str, value: Any) -> list[str]:
    check_loss(value)  # the same
    return []


def unchecked(name: str, value: Any) -> list[str]:
    """For an option that is looked at together with others."""
    return []


# options that several methods have


def substeps_option() -> Any:
    return option("auto", 'Steps of the integrator between two samples; "auto" finds the fewest that do not move the estimate.',
                  whole_number(1, "auto"))


def loss_option() -> Any:
    return option("squared", '"squared", or "huber", "soft_l1", "cauchy" for records with outliers.', known_loss)


def max_iterations_option() -> Any:
    return option(MAX_ITERATIONS, "Iterations of the solver at the most.", whole_number(1))
