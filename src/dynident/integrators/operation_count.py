"""Operations: how many multiplications, additions and divisions does a step cost?

Counted on the graph after common subexpressions are shared, as Tables 2 and 3 of the filter paper count them.
Parameters that are held are numbers there, so that a division by one is a multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from dynident.codegen.expression_graph import cheapest_jacobian
from dynident.errors import ProblemError, did_you_mean
from dynident.integrators import integrator_named
from dynident.integrators.scheme import Explicit
from dynident.integrators.step_functions import symbolic_step, symbols
from dynident.models.equations import EquationModel

ADDITIONS = (ca.OP_ADD, ca.OP_SUB)
MULTIPLICATIONS = (ca.OP_MUL, ca.OP_SQ, ca.OP_TWICE)
DIVISIONS = (ca.OP_DIV, ca.OP_INV)
FREE = (ca.OP_CONST, ca.OP_PARAMETER, ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_ASSIGN, ca.OP_NEG)  # a sign costs nothing
NAMES = {ca.OP_TANH: "tanh", ca.OP_SIN: "sin", ca.OP_COS: "cos", ca.OP_EXP: "exp", ca.OP_LOG: "log",
         ca.OP_SQRT: "sqrt", ca.OP_POW: "pow", ca.OP_CONSTPOW: "pow", ca.OP_ATAN: "atan"}


@dataclass(frozen=True)
class Operations:
    """Counts; `others` are calls of functions such as tanh, by name."""

    multiplications: int
    additions: int
    divisions: int
    others: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        calls = "".join(f", {count} {name}" for name, count in self.others.items())
        return f"{self.multiplications} multiplications, {self.additions} additions, {self.divisions} divisions{calls}"


def operations_of(function: ca.Function) -> Operations:
    """Counts of one function of scalar expressions."""
    multiplications = additions = divisions = 0
    others: dict[str, int] = {}
    constant: dict[int, bool] = {}  # by place in the work vector
    for k in range(function.n_instructions()):
        code, inputs = function.instruction_id(k), function.instruction_input(k)
        folded = code == ca.OP_CONST or (code not in (ca.OP_INPUT, ca.OP_OUTPUT) and all(constant[i] for i in inputs))
        by_number = code == ca.OP_DIV and constant[inputs[1]]
        for place in function.instruction_output(k) if code != ca.OP_OUTPUT else ():
            constant[place] = folded
        if folded:
            continue
        if by_number:
            multiplications += 1
        elif code in ADDITIONS:
            additions += 1
        elif code in MULTIPLICATIONS:
            multiplications += 1
        elif code in DIVISIONS:
            divisions += 1
        elif code not in FREE:
            name = NAMES.get(code, "other")
            others[name] = others.get(name, 0) + 1
    return Operations(multiplications, additions, divisions, others)


def operation_counts(model: EquationModel, integrator: str = "runge_kutta", estimated: Sequence[str] = (),
                     jacobian: bool = False, step: float | None = None) -> Operations:
    """The cost of one step of a scheme for a model, or of the step and its Jacobian in the states and the `estimated`
    parameters (which stand still and cost nothing themselves); all other parameters are numbers. With `step` its length
    is a number too, as where a sampling time is fixed: products with it are then computed beforehand."""
    scheme = integrator_named(integrator)
    if not isinstance(scheme, Explicit):
        raise ProblemError(f"'{integrator}' has no formula for a step to count; use an explicit scheme.")
    unknown = [name for name in estimated if name not in model.parameters]
    if unknown:
        hint = did_you_mean(unknown[0], model.parameters)
        raise ProblemError(f"'{unknown[0]}' is not a parameter of the model.{hint}")
    s = symbols(model)
    held = [k for k, name in enumerate(model.parameters) if name not in estimated]
    s["p"] = ca.SX(s["p"])
    lengths = [s["h"]] if step is None else []
    if step is not None:
        s["h"] = ca.SX(step)
    for place, k in enumerate(held):
        s["p"][k] = np.sqrt(2 + place) + 1 / 7  # any number that is not special
    after = scheme.next_state(symbolic_step(model, scheme, s))
    by = ca.vertcat(s["x"], *[s["p"][model.parameters.index(name)] for name in estimated])
    wanted = [after, cheapest_jacobian(after, by)] if jacobian else [after]
    free = ca.vertcat(*[s["p"][model.parameters.index(name)] for name in estimated])
    given = [s["t"], *lengths, s["x"], s["u0"], s["u1"], free]
    return operations_of(ca.Function("count", given, ca.cse(wanted)))
