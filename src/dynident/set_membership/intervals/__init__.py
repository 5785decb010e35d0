"""Interval kernels: a CasADi function over arrays of boxes, rounded outward, from the same expressions as the model."""

from dynident.set_membership.intervals.kernel import IntervalKernel, Rigour, interval_kernel

__all__ = ["IntervalKernel", "Rigour", "interval_kernel"]
