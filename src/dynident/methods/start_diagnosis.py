"""Start diagnosis: at which state has the model no derivative, where a fit cannot begin?

A square root at an empty tank, an absolute power at rest: the rate is finite there, and its derivative is not. The error names
the state, its value and the way out, where a list of all values would not.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.integrators.step_functions import symbol_kind
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem


def singular_states(problem: Problem, unknowns: np.ndarray) -> dict[str, tuple[float, str]]:
    """States at whose first value some rate or output has no finite derivative: value and name of the experiment."""
    model = problem.model
    if not isinstance(model, EquationModel) or model.hybrid:
        return {}
    t, x, u, p = (symbol_kind(model).sym(n, k) for n, k in (("t", 1), ("x", len(model.states)), ("u", len(model.inputs)),
                                               ("p", len(model.parameters))))
    plain = model.undelayed
    both = ca.vertcat((model.next_state if model.sample_time else plain.rate)(t, x, u, p), plain.output(t, x, u, p))
    value_and_slope = ca.Function("slopes", [t, x, u, p], [both, ca.densify(ca.jacobian(both, x))])
    found: dict[str, tuple[float, str]] = {}
    for e, experiment in enumerate(problem.experiments):
        parameters, first = problem.parameters_and_initial_state(unknowns, e)
        inputs = np.array([experiment.inputs[name][0] for name in model.inputs])
        value, slope = (np.asarray(part) for part in value_and_slope(experiment.start, first, inputs, parameters))
        if np.all(np.isfinite(value)):
            for i in np.flatnonzero(~np.all(np.isfinite(slope), axis=0)):
                found.setdefault(model.states[int(i)], (float(first[int(i)]), experiment.label))
    return found


def in_words(singular: dict[str, tuple[float, str]]) -> str:
    """A sentence about them; empty where there is none."""
    if not singular:
        return ""
    named = ", ".join(f"{state} = {value:.4g}" for state, (value, _) in singular.items())
    begin = ", ".join(f"InitialState('{state}', start=...)" for state in singular)
    return (f" The model has no derivative at {named}, where it begins (a root or a power of zero): begin beside it, with "
            f"{begin}.")
