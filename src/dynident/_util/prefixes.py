"""How is a very small or large quantity written so that it can be read: 20.2 µm instead of 2.02e-05 m?"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

PLAIN_FROM, PLAIN_BELOW = 0.01, 1e4  # magnitudes that need no prefix
PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 3: "k", 6: "M", 9: "G"}  # by power of ten
TAKES_PREFIX = re.compile(r"(m|s|A|V|N|W|J|Pa|Hz|F|H|C|T|Wb|Ω|ohm|rad|K|g)(?=$|[ */·])")
ONLY_SMALLER = ("s", "rad", "K", "g")  # nobody says kiloseconds, and kg is a unit of its own
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def prefixed(size: float, unit: str) -> tuple[float, str]:
    """By what to multiply numbers of this size, and the unit that they then have.

    A power of ten stands where the unit takes no prefix (`kg`, `m^2`), or is not known.
    """
    if not (math.isfinite(size) and size > 0) or PLAIN_FROM <= size < PLAIN_BELOW:
        return 1.0, unit
    power = 3 * math.floor(math.log10(size) / 3)
    base = TAKES_PREFIX.match(unit)
    if base and power in PREFIXES and not (power > 0 and base[1] in ONLY_SMALLER):
        return 10.0**-power, PREFIXES[power] + unit
    if PLAIN_FROM / 10 <= size < 10 * PLAIN_BELOW or not -300 < power < 300:
        return 1.0, unit
    return 10.0**-power, f"10{str(power).translate(SUPERSCRIPT)}{' ' if unit else ''}{unit}"


def quantity(value: float, unit: str, digits: int = 3, beside: Sequence[float] = ()) -> str:
    """A number with its unit, in the prefix of its size: "20.2 µm", "0.314 m", "3.1e-07 kg".

    What it is compared with stands `beside` it, and all of them have the prefix of the smallest; of the largest, where that
    would leave the largest with an exponent.
    """
    sizes = [abs(each) for each in (value, *beside) if each and math.isfinite(each)]
    least, most = min(sizes, default=0.0), max(sizes, default=0.0)
    factor, text = prefixed(least, unit)
    if most > least and most * factor >= 10.0**digits:
        factor, text = prefixed(most, unit)
    if text.startswith("10"):  # beside a single number an exponent is shorter
        factor, text = 1.0, unit
    return f"{value * factor + 0.0:.{digits}g}{' ' if text else ''}{text}"
