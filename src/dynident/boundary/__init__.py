"""FAMILY: boundary value problems, and smoothing as one."""
