"""Toy uncertainty: as fine as the grid on which was searched."""

from __future__ import annotations

from dataclasses import dataclass

from dynident.statistics.uncertainty import LEVEL, Uncertainty, index_of


@dataclass(frozen=True)
class GridSpacing(Uncertainty):
    """Half a step of the grid to either side."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    step: float

    @property
    def meaning(self) -> str:
        return "The best point of a grid; nothing is promised about its neighbours."

    def interval(self, name: str, level: float = LEVEL, kind: str | None = None) -> tuple[float, float]:
        value = self.values[index_of(name, self.names)]
        return value - self.step / 2, value + self.step / 2

    def remark(self, name: str) -> str:
        return "on a grid"
