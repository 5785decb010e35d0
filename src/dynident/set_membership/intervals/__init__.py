"""Interval arithmetic: a CasADi function over arrays of boxes, rounded outward, from the same expressions as the model."""

from dynident.set_membership.intervals.kernel import Guarantee, IntervalKernel, make_interval_kernel

__all__ = ["Guarantee", "IntervalKernel", "make_interval_kernel"]
