"""C source: CasADi functions as C text to stand in front of a loop of ours, which is a file beside its twin."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from importlib import resources

import casadi as ca

# for models: two divisions by one number cost one division, and one rounding more; loops over few states unrolled
QUICK = ("-freciprocal-math", "-O3")
LARGE = ("-freciprocal-math", "-O1", "-ftree-vectorize")  # half the time of the compiler, a tenth more of the program
LARGE_LINES = 5000  # of C text, from which on the compiler's time counts more


def flags_by_size(text: str) -> tuple[str, ...]:
    """How hard the compiler is to try, by the length of what it is given."""
    return LARGE if text.count("\n") > LARGE_LINES else QUICK


@functools.cache
def kernel_text(*names: str) -> str:
    """Texts of ours, one behind the other: "vectors.c" beside this file, "linalg/chain_qr.c" beside its twin."""
    places = [name if "/" in name else f"codegen/{name}" for name in names]
    return "\n".join(resources.files("dynident").joinpath(place).read_text() for place in places)


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


def static_source(functions: Sequence[ca.Function], qualifier: str = "static") -> str:
    """The same for a loop in the same text alone: nothing is exported, and every argument and result must be given.

    CasADi asks at each number whether its array is there; without, a compiler has a third of the lines and no branches.
    """
    front, _, rest = c_source(functions).partition("/* Configuration this file was compiled with */")
    front = re.sub(r"^casadi_real casadi_", "static casadi_real casadi_", front, flags=re.M)  # helpers such as sign
    bodies = re.findall(r"^/\* (dyn_\w+):[^\n]*\nstatic int casadi_f\d+(\(.*?^\}\n)", rest, flags=re.M | re.S)
    text = "\n".join([front, *(f"{qualifier} int {name}{body}" for name, body in bodies)])
    text = re.sub(r"if \(res\[\d+\]!=0\) ", "", text)
    return re.sub(r"arg\[(\d+)\]\? (arg\[\1\]\[\d+\]) : 0;", r"\2;", text)
