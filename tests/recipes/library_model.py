"""Toy machine: a bucket that drains."""

from __future__ import annotations

from dynident.models.equations import EquationModel


def bucket() -> EquationModel:
    """level' = inflow - k sqrt(level)."""
    return EquationModel(name="bucket", states={"level": "inflow - k*sqrt(level)"}, outputs={"level": "level"},
                         inputs=["inflow"], parameters=["k"])
