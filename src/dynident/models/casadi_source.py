"""CasADi source: how does a function of CasADi become a model?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi

from dynident.errors import ProblemError, did_you_mean
from dynident.models.definition import TIME
from dynident.models.function_trace import BLACK_BOX
from dynident.models.printer import expressions_to_text

ROLES = ("t", "x", "u", "p")


def model_arguments(function: Any, states: Sequence[str], inputs: Sequence[str], parameters: Sequence[str],
                    outputs: Sequence[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """What EquationModel takes; `function` maps t, x, u, p, or those of them that there are, to dx, or to dx and y."""
    if not isinstance(function, casadi.Function):
        raise ProblemError(f"from_casadi takes a casadi.Function, not a {type(function).__name__}.")
    names = {"t": [TIME], "x": [str(n) for n in states], "u": [str(n) for n in inputs], "p": [str(n) for n in parameters]}
    symbols = {role: [casadi.SX.sym(name) for name in own] for role, own in names.items()}
    roles, faults = _roles(function, names), []
    for k, role in enumerate(roles):
        if function.numel_in(k) != len(names[role]):
            faults.append(f"argument {k} of {function.name()} ({role}) has {function.numel_in(k)} entries, but "
                          f"{len(names[role])} names are given: {', '.join(names[role]) or 'none'}.")
    wanted = 1 if outputs is None else 2
    if function.n_out() < wanted:
        faults.append(f"{function.name()} returns the rates only; outputs=[...] names what a second result holds.")
    sizes = [len(names["x"]), *([] if outputs is None else [len(outputs)])]
    faults += [f"result {k} of {function.name()} has {function.numel_out(k)} entries for {size} names."
               for k, size in enumerate(sizes) if k < function.n_out() and function.numel_out(k) != size]
    if faults:
        raise ProblemError(faults)
    try:
        plain = function.expand()
        results = plain.call([casadi.reshape(casadi.vertcat(*symbols[role]) if symbols[role] else casadi.SX(0, 1),
                                             *function.size_in(k)) for k, role in enumerate(roles)])
    except RuntimeError as error:
        raise _no_formula(function, str(error).strip().split("\n")[-1]) from error
    dx = casadi.vertsplit(casadi.densify(casadi.vec(results[0])))
    y = [] if outputs is None else casadi.vertsplit(casadi.densify(casadi.vec(results[1])))
    keyed = {("state", n): e for n, e in zip(names["x"], dx, strict=True)}
    keyed |= {("output", n): e for n, e in zip(outputs or (), y, strict=True)}
    try:
        texts, definitions = expressions_to_text(keyed, [each for role in ROLES for each in symbols[role]], outputs or ())
    except ProblemError as error:
        raise _no_formula(function, error.faults[0].split(". ")[0]) from error
    met = {symbol.name() for each in keyed.values() for symbol in casadi.symvar(each)}
    return {"states": {n: texts["state", n] for n in names["x"]}, "inputs": names["u"], "parameters": names["p"],
            "outputs": None if outputs is None else {n: texts["output", n] for n in outputs}, "definitions": definitions,
            "unused": [n for n in [*names["u"], *names["p"]] if n not in met], **options}


def _no_formula(function: casadi.Function, reason: str) -> ProblemError:
    return ProblemError(f"{function.name()} cannot be written as plain expressions ({reason}): it calls what is no formula, "
                        f"such as an integrator or a root finder. {BLACK_BOX}")


def _roles(function: casadi.Function, names: dict[str, list[str]]) -> list[str]:
    """Which argument is which: by its name, or else by the order t, x, u, p with what is empty left out."""
    called = [function.name_in(k) for k in range(function.n_in())]
    if all(name in ROLES for name in called):
        return called
    if not all(name.startswith("i") and name[1:].isdigit() for name in called):
        strange = next(name for name in called if name not in ROLES)
        raise ProblemError(f"the argument '{strange}' of {function.name()} is none of t, x, u and p."
                           f"{did_you_mean(strange, ROLES)}")
    if len(called) == len(ROLES):
        return list(ROLES)
    there = ["x", *(role for role in ("u", "p") if names[role])]
    for roles in (there, ["t", *there], ["x", "u", "p"]):
        if len(roles) == len(called):
            return roles
    raise ProblemError(f"{function.name()} has {len(called)} arguments; give it t, x, u and p, or name them so.")
