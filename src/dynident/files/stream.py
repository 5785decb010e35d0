"""Stream: lines of text that arrive one by one become samples; a line that is none is said, skipped and counted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dynident.errors import ProblemError, did_you_mean

SEPARATORS = (";", "\t", ",")  # the first that the header holds; else white space
MISSING = ("", "nan", "na", "null")


@dataclass(frozen=True)
class Sample:
    """One line: time, inputs by name, measured outputs by name (NaN where the field is empty)."""

    time: float
    inputs: Mapping[str, float]
    outputs: Mapping[str, float]


class Lines:
    """Reads a header and then samples; `skipped` counts the lines that were none, `complain` is told each of them."""

    def __init__(self, time: str, inputs: Mapping[str, str], outputs: Mapping[str, str],
                 complain: Callable[[str], object]):
        self.time, self.inputs, self.outputs, self.complain = time, dict(inputs), dict(outputs), complain
        self.skipped = self.number = 0
        self._split: Callable[[str], list[str]] = str.split
        self._places: dict[str, int] | None = None
        self._width = 0
        self._last = -math.inf

    def samples(self, lines: Iterable[str], after: float = -math.inf) -> Iterator[Sample]:
        """Samples later than `after`; those up to it were seen before and are passed over."""
        for line in lines:
            self.number += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if self._places is None:
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

    def _take_header(self, line: str) -> None:
        line = line.lstrip("\ufeff")
        separator = next((s for s in SEPARATORS if s in line), None)
        self._split = (lambda text: text.split(separator)) if separator else str.split
        headers = [re.sub(r"\s*[\[(].*[\])]\s*$", "", field.strip().strip('"')) for field in self._split(line)]
        wanted = [self.time, *self.inputs.values(), *self.outputs.values()]
        faults = [f"the stream has no column '{name}'.{did_you_mean(name, headers)} Its first line names the columns."
                  for name in wanted if name not in headers]
        if faults:
            raise ProblemError(faults)
        self._places, self._width = {name: headers.index(name) for name in wanted}, len(headers)

    def _sample(self, line: str) -> Sample:
        fields = [field.strip() for field in self._split(line)]
        if len(fields) != self._width:
            raise ValueError(f"{len(fields)} fields instead of {self._width}")
        time = self._number(fields, self.time)
        if not math.isfinite(time):
            raise ValueError("time is missing")
        if time <= self._last:
            raise ValueError(f"time {time:g} does not come after {self._last:g}")
        inputs = {name: self._number(fields, column) for name, column in self.inputs.items()}
        missing = [name for name, value in inputs.items() if not math.isfinite(value)]
        if missing:
            raise ValueError(f"the input '{missing[0]}' is missing")
        outputs = {name: self._number(fields, column) for name, column in self.outputs.items()}
        if any(math.isinf(value) for value in outputs.values()):
            raise ValueError("a measured value is infinite")
        return Sample(time, inputs, outputs)

    def _number(self, fields: list[str], column: str) -> float:
        assert self._places is not None
        text = fields[self._places[column]]
        if text.lower() in MISSING:
            return math.nan
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"'{text[:40]}' in column '{column}' is not a number") from None
