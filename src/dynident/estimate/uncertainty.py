"""Uncertainty: the contract for how far an estimate can be trusted."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Uncertainty(Protocol):
    """Answers `interval(name)` and says what the interval means."""

    @property
    def meaning(self) -> str:
        """One or two sentences for the reader of a report: what is promised, under which assumptions."""
        ...

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """(low, high); an end that the data cannot bound is infinite; a held quantity gives its value twice."""
        ...

    def remark(self, name: str) -> str:
        """A few words for the table ('at its lower bound', 'not determined', 'held'), or nothing."""
        ...
