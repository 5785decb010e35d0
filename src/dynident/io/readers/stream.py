"""Stream: lines of text that arrive one by one become samples; a line that is none is said, skipped and counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dynident.io.readers.build_experiment import factors
from dynident.io.readers.columns import ColumnRef, ReadRequest, locate_columns
from dynident.units import Factor, converted

SOURCE = "the stream"
SEPARATORS = (";", "\t", ",")  # the first that the header holds; else white space
MISSING = ("", "nan", "na", "null")


@dataclass(frozen=True)
class Sample:
    """One line: time, inputs by name, measured outputs by name (NaN where the field is empty)."""

    time: float
    inputs: Mapping[str, float]
    outputs: Mapping[str, float]


class Lines:
    """Reads a header and then samples; `skipped` counts the lines that were none, `complain` is told each of them.

    `request` says which columns are wanted and in which units; a unit in the header is converted to it.
    """

    def __init__(self, request: ReadRequest, complain: Callable[[str], object]):
        self.request, self.complain = request, complain
        self.skipped = self.number = self.passed = 0  # passed: seen before
        self._split: Callable[[str], list[str]] = str.split
        self._decimal_comma = False
        self._wanted: list[tuple[ColumnRef, Factor]] | None = None
        self._width = 0
        self._last = -math.inf

    def samples(self, lines: Iterable[str | None], after: float = -math.inf) -> Iterator[Sample | None]:
        """Samples later than `after`; those up to it were seen before and are passed over. None is handed on."""
        for line in lines:
            if line is None:
                yield None
                continue
            self.number += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if self._wanted is None:
                self._take_header(line)
                continue
            try:
                sample = self._sample(line)
            except ValueError as reason:
                self.skipped += 1
                self.complain(f"line {self.number}: {reason}; skipped.")
                continue
            self._last = sample.time
            if sample.time > after:
                yield sample
            else:
                self.passed += 1

    def _take_header(self, line: str) -> None:
        line = line.lstrip("\ufeff")
        separator = next((s for s in SEPARATORS if s in line), None)
        self._split = (lambda text: text.split(separator)) if separator else str.split
        self._decimal_comma = separator != ","  # where a comma cannot end a field, it is in a number
        headers = [field.strip().strip('"') for field in self._split(line)]
        found = locate_columns(self.request, headers, [""] * len(headers), SOURCE)
        self._wanted = [(place, factor) for place, (factor, *_) in
                        zip(found, factors(self.request, found, SOURCE), strict=True)]
        self._width = len(headers)

    def _sample(self, line: str) -> Sample:
        fields = [field.strip() for field in self._split(line)]
        if len(fields) != self._width:
            raise ValueError(f"{len(fields)} fields instead of {self._width}")
        values: dict[str, dict[str, float]] = {"time": {}, "input": {}, "output": {}}
        for place, factor in self._wanted or ():
            values[place.role][place.signal] = converted(self._number(fields[place.column], place.header), factor)
        (time,) = values["time"].values()
        if not math.isfinite(time):
            raise ValueError("time is missing")
        if time <= self._last:
            raise ValueError(f"time {time:g} does not come after {self._last:g}")
        missing = [name for name, value in values["input"].items() if not math.isfinite(value)]
        if missing:
            raise ValueError(f"the input '{missing[0]}' is missing")
        if any(math.isinf(value) for value in values["output"].values()):
            raise ValueError("a measured value is infinite")
        return Sample(time, values["input"], values["output"])

    def _number(self, text: str, column: str) -> float:
        if text.lower() in MISSING:
            return math.nan
        try:
            return float(text.replace(",", ".") if self._decimal_comma else text)
        except ValueError:
            raise ValueError(f"'{text[:40]}' in column '{column}' is not a number") from None
