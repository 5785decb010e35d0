"""How many digits does an uncertainty support?"""

from __future__ import annotations

import math
from collections.abc import Sequence

SUPPORTED = 2  # significant digits of the uncertainty that are printed; the value ends at the same place
MOST_DIGITS = 9  # of a value; beyond it nobody reads on, and the uncertainty is printed on its own
LONE_DIGITS = 6  # of a value that has no uncertainty
VAGUE_DIGITS = 3  # of a value that the data do not determine
PLAIN_FROM, PLAIN_BELOW = 1e-3, 1e6  # magnitudes written without an exponent
SYMMETRIC_WITHIN = 0.05  # arms that differ by less than this are one ± number


def format_number(value: float, digits: int = LONE_DIGITS) -> str:
    """A number that stands without an uncertainty."""
    if not math.isfinite(value):
        return str(value)
    return f"{value + 0.0:.{digits}g}"  # + 0.0 turns -0.0 into 0.0


def with_interval(value: float, low: float, high: float) -> tuple[str, str]:
    """A value and its finite interval, both rounded to the same place: ('50.12', '± 0.34') or [low, high]."""
    arms = [abs(value - low), abs(high - value)]
    narrow = min((arm for arm in arms if arm > 0), default=0.0)
    if narrow == 0.0:
        return format_number(value), "± 0"
    symmetric = low < value < high and max(arms) - narrow <= SYMMETRIC_WITHIN * narrow
    exponent = _shared_exponent(value, low, high)
    places = _places(narrow) + exponent
    largest = max(abs(value), abs(low), abs(high)) / 10.0**exponent
    if places + math.floor(math.log10(largest)) + 1 > MOST_DIGITS:
        ends = f"[{format_number(low, MOST_DIGITS)}, {format_number(high, MOST_DIGITS)}]"
        interval = f"± {max(arms):.1e}" if symmetric else ends
        return f"{value:#.{MOST_DIGITS}g}", interval
    written = [_fixed(number, places, exponent) for number in (value, low, high)]
    if symmetric:
        return written[0], f"± {_fixed(max(arms), places, exponent)}"
    return written[0], f"[{written[1]}, {written[2]}]"


def aligned(numbers: Sequence[str]) -> list[str]:
    """The same numbers, padded so that their decimal points stand below each other."""
    def ahead(number: str) -> int:
        mantissa = number.partition("e")[0]
        return len(mantissa.partition(".")[0])

    left = max((ahead(number) for number in numbers), default=0)
    padded = [" " * (left - ahead(number)) + number for number in numbers]
    width = max((len(number) for number in padded), default=0)
    return [number.ljust(width) for number in padded]


def seconds(duration: float) -> str:
    """A duration in words that fit its size."""
    if duration < 1e-3:
        return f"{1e6 * duration:.0f} µs"
    if duration < 1.0:
        return f"{1e3 * duration:.0f} ms"
    if duration < 120.0:
        return f"{duration:.1f} s"
    return f"{duration / 60:.1f} min"


def percent(share: float) -> str:
    """A fit in percent; close to 100 it keeps the digits that tell good from perfect."""
    if not math.isfinite(share):
        return "not defined"
    places = 1 if share < 99 else 2
    text = f"{share:.{places}f}"
    return f"{'above 99.99' if text == '100.00' and share < 100 else text} %"


def _places(width: float) -> int:
    """Decimal places that keep SUPPORTED significant digits of a positive width; negative: tens, hundreds."""
    rounded = float(f"{width:.{SUPPORTED - 1}e}")  # 0.0996 counts as 0.10
    return SUPPORTED - 1 - math.floor(math.log10(rounded))


def _shared_exponent(*numbers: float) -> int:
    largest = max(abs(number) for number in numbers)
    if largest == 0 or PLAIN_FROM <= largest < PLAIN_BELOW:
        return 0
    return math.floor(math.log10(largest))


def _fixed(number: float, places: int, exponent: int) -> str:
    scaled = round(number / 10.0**exponent, places) + 0.0
    suffix = f"e{exponent:+03d}" if exponent else ""
    return f"{scaled:.{max(places, 0)}f}{suffix}"
