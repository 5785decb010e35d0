"""C source: CasADi functions as C text, for inclusion in one of our loops."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources

import casadi as ca

# for models: two divisions by one number cost one division, and one rounding more; loops over few states unrolled
QUICK = ("-freciprocal-math", "-O3")


@functools.cache
def kernel_text(*names: str, package: str = "dynident.codegen") -> str:
    """Texts of ours, one behind the other; those of a family stand in its own package."""
    return "\n".join(resources.files(package).joinpath(name).read_text() for name in names)


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
