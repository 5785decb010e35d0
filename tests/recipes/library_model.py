"""Toy machine: a tank that drains."""

from __future__ import annotations

from dynident.models.equations import EquationModel


def tank() -> EquationModel:
    """level' = inflow - k sqrt(level)."""
    return EquationModel(name="tank", states={"level": "inflow - k*sqrt(level)"}, outputs={"level": "level"}, inputs=["inflow"],
                         parameters=["k"])
