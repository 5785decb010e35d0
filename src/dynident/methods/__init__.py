"""PROBLEM -> ESTIMATE: the methods; presets.py is the map of them."""

from dynident.methods.check import check
from dynident.methods.compare import Comparison, compare
from dynident.methods.identify import identify
from dynident.methods.simulate import simulate
from dynident.methods.validate import validate

__all__ = ["Comparison", "check", "compare", "identify", "simulate", "validate"]
