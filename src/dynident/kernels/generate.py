"""Generate: CasADi functions as C text, for inclusion in one of our loops."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca


def c_source(functions: Sequence[ca.Function]) -> str:
    """C text that defines each function under its own name, which must start with `dyn_` so as not to meet libc's.

    Functions of scalar graphs (SX) need no work memory: their intermediate values are local variables.
    """
    generator = ca.CodeGenerator("dyn_kernel.c", {"with_header": False, "with_mem": False})
    for f in functions:
        if not f.name().startswith("dyn_"):
            raise ValueError(f"The kernel function '{f.name()}' must start with dyn_.")
        generator.add(f)
    return generator.dump()
