"""Units: what a header says about a column, and the factor from one unit to another."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

Factor = Fraction | float

_PREFIXES = {"G": Fraction(10**9), "M": Fraction(10**6), "k": Fraction(1000), "c": Fraction(1, 100),
             "m": Fraction(1, 1000), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9)}

# Factor, then powers of metre, kilogram, second, ampere, kelvin, radian, cycle. A radian and a cycle are dimensions
# of their own: rad/s, Hz and 1/s must never be taken for one another.
_PREFIXED: dict[str, tuple[Factor, tuple[int, ...]]] = {
    "m": (Fraction(1), (1, 0, 0, 0, 0, 0, 0)), "g": (Fraction(1, 1000), (0, 1, 0, 0, 0, 0, 0)),
    "s": (Fraction(1), (0, 0, 1, 0, 0, 0, 0)), "A": (Fraction(1), (0, 0, 0, 1, 0, 0, 0)),
    "K": (Fraction(1), (0, 0, 0, 0, 1, 0, 0)), "rad": (Fraction(1), (0, 0, 0, 0, 0, 1, 0)),
    "N": (Fraction(1), (1, 1, -2, 0, 0, 0, 0)), "Pa": (Fraction(1), (-1, 1, -2, 0, 0, 0, 0)),
    "bar": (Fraction(10**5), (-1, 1, -2, 0, 0, 0, 0)), "J": (Fraction(1), (2, 1, -2, 0, 0, 0, 0)),
    "W": (Fraction(1), (2, 1, -3, 0, 0, 0, 0)), "V": (Fraction(1), (2, 1, -3, -1, 0, 0, 0)),
    "Ohm": (Fraction(1), (2, 1, -3, -2, 0, 0, 0)), "F": (Fraction(1), (-2, -1, 4, 2, 0, 0, 0)),
    "H": (Fraction(1), (2, 1, -2, -2, 0, 0, 0)), "Nm": (Fraction(1), (2, 1, -2, 0, 0, 0, 0)),
    "Hz": (Fraction(1), (0, 0, -1, 0, 0, 0, 1)),
}
_PLAIN: dict[str, tuple[Factor, tuple[int, ...]]] = {
    "min": (Fraction(60), (0, 0, 1, 0, 0, 0, 0)), "h": (Fraction(3600), (0, 0, 1, 0, 0, 0, 0)),
    "d": (Fraction(86400), (0, 0, 1, 0, 0, 0, 0)), "deg": (math.pi / 180, (0, 0, 0, 0, 0, 1, 0)),
    "rpm": (math.pi / 30, (0, 0, -1, 0, 0, 1, 0)), "in": (Fraction(254, 10**4), (1, 0, 0, 0, 0, 0, 0)),
    "%": (Fraction(1, 100), (0,) * 7), "1": (Fraction(1), (0,) * 7), "-": (Fraction(1), (0,) * 7),
}
_SPELLINGS = {"µ": "u", "μ": "u", "Ω": "Ohm", "ohm": "Ohm", "°C": "degC", "°": "deg", "·": "*", "²": "^2", "³": "^3",
              "**": "^", "sec": "s", "rev/min": "rpm", "r/min": "rpm"}
_SYMBOL_OF = {"meter": "m", "metre": "m", "kgs": "kg", "kilogram": "kg", "sec": "s", "secs": "s", "second": "s", "msec": "ms",
              "volt": "V", "amp": "A", "ampere": "A", "newton": "N", "radian": "rad", "degree": "deg", "hertz": "Hz",
              "kelvin": "K", "celsius": "degC", "pascal": "Pa", "watt": "W", "joule": "J", "percent": "%"}
_TOKEN = re.compile(r"(?P<open>\()|(?P<close>\))|(?P<over>\s*/\s*)|\s*[*.]\s*|\s+"
                    r"|(?<![\w%)])(?:(?P<one>1)(?!\d)|(?P<symbol>[A-Za-z%_]+)\^?(?P<power>-?\d+)?)")


@dataclass(frozen=True)
class Unit:
    """A factor to SI, the powers of the base units, and those of symbols that are not known."""

    factor: Factor
    powers: tuple[int, ...]
    unknown: tuple[tuple[str, int], ...] = ()


def spelt_out(text: str) -> str:
    """The symbol of a unit that is written as a word, such as m for 'meters'; empty for all else."""
    word = text.strip().lower()
    return _SYMBOL_OF.get(word, _SYMBOL_OF.get(word.removesuffix("s"), "")) if parse(text) is None else ""


def parse(text: str) -> Unit | None:
    """The unit that a text such as 'mm/s^2', 'kg.m2' or 'W/(m2.K)' means, or None where it is not known."""
    unit = _product(text)
    return None if unit is None or unit.unknown else unit


def _product(text: str) -> Unit | None:
    """The unit that a text means, where a symbol that is not known is a dimension of its own; None for no product."""
    for spelling, plain in _SPELLINGS.items():
        text = text.replace(spelling, plain)
    factor: Factor = Fraction(1)
    powers, unknown = [0] * 7, Counter[str]()
    symbols = _symbols(text.strip())
    for symbol, power in symbols:
        one = _symbol(symbol)
        if one is None:
            unknown[symbol] += power
            continue
        factor = factor * one.factor**power
        powers = [total + power * each for total, each in zip(powers, one.powers, strict=True)]
    others = tuple(sorted((symbol, power) for symbol, power in unknown.items() if power))
    return Unit(factor, tuple(powers), others) if symbols else None


def _symbols(text: str) -> list[tuple[str, int]]:
    """Symbols with their powers; a '/' is for the one symbol or bracket after it. None of them where this is no product."""
    if text == "-":
        return [(text, 1)]
    found: list[tuple[str, int]] = []
    signs, sign, at = [1], 1, 0  # of the brackets around, of what comes next
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or (match["close"] and len(signs) == 1):
            return []
        at = match.end()
        if match["open"]:
            signs.append(signs[-1] * sign)
        elif match["close"]:
            signs.pop()
        elif name := match["one"] or match["symbol"]:
            found.append((name, signs[-1] * sign * int(match["power"] or 1)))
        sign = -1 if match["over"] else 1
    return found if len(signs) == 1 and sign == 1 else []


def _symbol(name: str) -> Unit | None:
    if name in _PLAIN:
        return Unit(*_PLAIN[name])
    if name in _PREFIXED:
        return Unit(*_PREFIXED[name])
    prefix, rest = name[:1], name[1:]
    if prefix in _PREFIXES and rest in _PREFIXED:
        factor, powers = _PREFIXED[rest]
        return Unit(_PREFIXES[prefix] * factor, powers)
    return None


def conversion(given: str, wanted: str) -> Factor | None:
    """What a value in `given` is multiplied with to be in `wanted`; None where there is no such number."""
    if given.strip() == wanted.strip():
        return Fraction(1)
    a, b = _product(given), _product(wanted)
    if a is None or b is None or (a.powers, a.unknown) != (b.powers, b.unknown):
        return None
    return a.factor / b.factor


def is_time(unit: str) -> bool:
    return conversion(unit, "s") is not None


def converted(value: float, factor: Factor) -> float:
    """A value times a factor; a division where that is exact, so that 4031 ms becomes 4.031 s to the last digit."""
    if isinstance(factor, Fraction) and factor.numerator == 1:
        return value / factor.denominator
    return value * float(factor)


def scaled(values: np.ndarray, factor: Factor) -> np.ndarray:
    """The values times a factor, in place where they may be written to.

    A division where that is exact, so that 4031 ms becomes 4.031 s to the last digit.
    """
    if factor == 1:
        return values
    values = values if values.flags.writeable else values.copy()
    if isinstance(factor, Fraction) and factor.numerator == 1:
        values /= float(factor.denominator)
    else:
        values *= float(factor)
    return values


def split_header(text: str) -> tuple[str, str]:
    """The name and the unit in a header such as 'u [V]' or 'v (m/s)'; the unit is empty where there is none."""
    text = text.strip()
    match = re.fullmatch(r"(.*?\S)(\s*)(?:\[([^\[\]]*)\]|\(([^\[\]()]*)\))", text)
    if match is None:
        return text, ""
    name, space, square, unit = match.groups()
    if square is None and not space and parse(unit) is None:
        return text, ""  # y(k) is a name
    return name, (unit if square is None else square).strip()
