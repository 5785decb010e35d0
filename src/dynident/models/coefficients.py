"""Coefficients: which parts of a model's equations are made of parameters alone?"""

from __future__ import annotations

import casadi

from dynident.codegen.expression_graph import operations
from dynident.errors import ProblemError
from dynident.models.equations import EquationModel
from dynident.models.printer import _Writer


def coefficients(model: EquationModel) -> tuple[str, ...]:
    """Each part of rates and outputs that holds two parameters or more and nothing else but numbers, largest last.

    As text, in the grammar that `parse_expression` reads.
    """
    found: dict[str, None] = {}
    for function in (*(model.mode(name).rate for name in model.modes), model.output):
        for text in _parameter_parts(function, model.parameters):
            found.setdefault(text)
    return tuple(found)


def _parameter_parts(function: casadi.Function, parameters: tuple[str, ...]) -> list[str]:
    arguments = [casadi.SX.sym(f"a{k}", function.size1_in(k)) for k in range(function.n_in())]
    expressions = casadi.densify(function(*arguments))
    steps, _ = operations(casadi.Function("walk", arguments, [expressions], {"cse": True}))
    names = [f"argument{k}" for k in range(function.n_in())]
    writer, of_parameters, used, found = _Writer(names, set()), [], [], []
    for step in steps:
        if step.operation == casadi.OP_INPUT:
            place = step.element
            own = place[0] == 3  # (t, x, u, p)
            writer.names = [parameters[place[1]] if k == place[0] and own else name for k, name in enumerate(names)]
            of_parameters.append(own)
            used.append({parameters[place[1]]} if own else set())
        else:
            of_parameters.append(all(of_parameters[a] for a in step.arguments))
            used.append(set().union(*(used[a] for a in step.arguments)))
        try:
            writer.write(step, shared=False)
        except ProblemError:  # a function that cannot be written; nothing that uses it can
            return found
        if of_parameters[-1] and len(used[-1]) > 1 and not writer.definitions:
            found.append(writer.phrases[-1].text)
    return found
