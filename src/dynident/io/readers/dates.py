"""Dates: times of a calendar as whole nanoseconds, so that small differences beside a date survive."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

NOT_A_DATE = "is neither a number nor a date such as 2024-05-01T12:00:00.250+02:00"
_ZONE = r"\s?(?:Z|z|[+-]\d\d(?::?\d\d)?)"
DATE = re.compile(rf"\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(?:{_ZONE})?)?")
_ZONED = rf":.*{_ZONE}$"
_NANOSECONDS = 1e9  # in a second


def is_date(text: str) -> bool:
    """Whether a text is a date of ISO 8601, with or without time of day and zone."""
    return bool(DATE.fullmatch(text.strip()))


def has_zone(text: str) -> bool:
    return bool(re.search(_ZONED, text.strip()))


def parsed_dates(texts: Any, zoned: bool) -> Any:
    """Texts as Arrow timestamps; `zoned`: all name a zone, and become UTC. Raises ArrowInvalid for anything else."""
    import pyarrow.compute as of_arrow  # here, because it takes a moment to load and few records hold dates

    plain = of_arrow.replace_substring(of_arrow.utf8_trim_whitespace(texts.cast(pa.string())), ",", ".")
    plain = of_arrow.replace_substring_regex(plain, r"\s([+-]\d\d)", r"\1")  # a blank before the zone
    plain = of_arrow.replace_substring_regex(plain, r"\s?z$", "Z")
    plain = of_arrow.replace_substring_regex(plain, r"\sZ$", "Z")
    return plain.cast(pa.timestamp("ns", "UTC" if zoned else None))


def counts_of(stamps: Any) -> Any:
    """Nanoseconds since 1970 as integers, null where there is none; of Arrow timestamps, dates or durations."""
    kind = stamps.type
    if pa.types.is_duration(kind):
        return stamps.cast(pa.duration("ns")).cast(pa.int64())
    if pa.types.is_date(kind):
        stamps = stamps.cast(pa.timestamp("ms"))
    zone = stamps.type.tz if pa.types.is_timestamp(stamps.type) else None
    return stamps.cast(pa.timestamp("ns", zone)).cast(pa.int64())


def seconds_from(counts: Any, first: int) -> np.ndarray:
    """Seconds after the first count, NaN where there is none; subtracted as integers."""
    import pyarrow.compute as of_arrow

    since = of_arrow.subtract(counts, pa.scalar(first, pa.int64()))
    return of_arrow.divide(since.cast(pa.float64(), safe=False), _NANOSECONDS).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def first_count(counts: Any) -> int | None:
    """The first count that is there."""
    known = counts.drop_null()
    return None if len(known) == 0 else int(known[0].as_py())


def printed_date(count: int | None, zoned: bool) -> str:
    """A count as text; with Z where it was said in a zone."""
    if count is None:
        return "nothing"
    text = str(np.datetime64(count, "ns"))
    return text.rstrip("0").rstrip(".") + "Z" * zoned if "." in text else text + "Z" * zoned
