"""Exports: an estimate in forms that other tools take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as xml

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.fmu.description import REAL_TYPES
from dynident.fmu.model import FmuModel
from dynident.models.equations import EquationModel
from dynident.problem.model import NominalValue
from dynident.problem.parameter import Parameter
from dynident.robots.model import RobotModel

VALUES = "http://ssp-standard.org/SSP1/SystemStructureParameterValues"


def estimate_as_fmu(estimate: Estimate, path: str | Path, *, version: str = "2.0", platforms: Sequence[str] = ()
                    ) -> Path:
    """The fitted model with its estimated values as an FMU; initial states are those of the first experiment."""
    from dynident.fmu.export import export_fmu

    problem = estimate.problem
    if not isinstance(problem.model, EquationModel):
        raise NotSupported("This estimate belongs to an FMU already; use its parameter set "
                           "(dynident export parameters) with that FMU.")
    declared = [p for p in problem.parameters if isinstance(p, Parameter)]
    several = [p.name for p in declared if p.name not in estimate.values]
    if several:
        raise NotSupported(f"{', '.join(several)} has a value of its own in each experiment; an FMU holds one. Fit it "
                           "as shared.")
    values, first = dict(estimate.values), problem.experiments[0]
    for state in problem.model.states:
        named = [values.get(name) for name in (f"{state}(0)", f"{state}(0)[{first.name}]") if name in values]
        values[f"{state}(0)"] = float(named[0] if named else first.initial.get(state, 0.0))  # type: ignore[arg-type]
    given = {p.name: NominalValue(values[p.name], p.lower, p.upper, p.unit) for p in declared}
    typical = float(np.median(np.diff(first.time))) if first.samples > 1 else 1.0
    step = typical / max(1, int(estimate.counts.get("substeps", 1)))
    return export_fmu(problem.model, path, values, version=version, step=step, platforms=platforms, given=given)


def parameter_set(estimate: Estimate, experiment: str | None = None) -> bytes:
    """What the fit says to the model, as a System Structure Parameter Values document (SSP 1.0): parameters and initial
    states, estimated, held or known, and the model's own `values`.

    A set holds one value for each. Where the experiments differ it is that of the one named; without a name what differs
    is left out, and the description of the set says so.
    """
    values, left_out = _one_value_each(estimate, experiment)
    of = f" for {experiment}" if experiment is not None else ""
    xml.register_namespace("ssv", VALUES)
    root = xml.Element(f"{{{VALUES}}}ParameterSet", {"version": "1.0", "name": f"dynident estimate{of}"})
    if left_out:
        root.set("description", left_out_of_set(estimate, experiment))
    body = xml.SubElement(root, f"{{{VALUES}}}Parameters")
    for name, value in values.items():
        kind, text = _written(estimate, name, value)
        one = xml.SubElement(body, f"{{{VALUES}}}Parameter", {"name": name})
        xml.SubElement(one, f"{{{VALUES}}}{kind}", {"value": text})
    xml.indent(root)
    return xml.tostring(root, encoding="UTF-8", xml_declaration=True)


def left_out_of_set(estimate: Estimate, experiment: str | None = None) -> str:
    """A sentence about what a parameter set cannot hold; empty where it holds everything."""
    _, left_out = _one_value_each(estimate, experiment)
    return f"Left out: {', '.join(f'{name} ({reason})' for name, reason in left_out.items())}." if left_out else ""


def _one_value_each(estimate: Estimate, experiment: str | None) -> tuple[dict[str, float], dict[str, str]]:
    """Values by name of the model's variables, and why others have none that a set can hold."""
    problem = estimate.problem
    names = [e.name for e in problem.experiments]
    if experiment is not None and experiment not in names:
        raise ProblemError(f"there is no experiment '{experiment}' in this result.{did_you_mean(experiment, names)}")
    wanted = range(len(names)) if experiment is None else [names.index(experiment)]
    found = np.array([float(estimate.values[name]) for name in problem.names])
    each = [np.concatenate(problem.parameters_and_initial_state(found, e)) for e in wanted]  # per experiment
    told = {p.name if isinstance(p, Parameter) else p.state for p in problem.parameters}
    told |= {state for e in wanted for state in problem.experiments[e].initial}
    numbers = {name: {float(values[i]) for values in each}
               for i, name in enumerate((*problem.model.parameters, *problem.model.states)) if name in told}
    if isinstance(problem.model, FmuModel):
        numbers |= {name: {float(value)} for name, value in problem.model.values.items() if not isinstance(value, str)}
    left_out = {name: "its value differs between the experiments"
                for name, several in numbers.items() if len(several) > 1}
    left_out |= {name: "it has no value" for name, several in numbers.items() if not np.all(np.isfinite([*several]))}
    left_out |= {name: "a set names the items of an enumeration, which are not known" for name in numbers
                 if _type(estimate, name) == "Enumeration"}
    texts = problem.model.values if isinstance(problem.model, FmuModel) else {}
    left_out |= {name: "it is a text" for name, value in texts.items() if isinstance(value, str)}
    return {name: value for name, (value, *_) in numbers.items() if name not in left_out}, left_out


def _written(estimate: Estimate, name: str, value: float) -> tuple[str, str]:
    """The element of a set that holds a value, and its text."""
    kind = _type(estimate, name)
    if kind == "Boolean":
        return kind, "true" if value else "false"
    return ("Real", repr(value)) if kind in REAL_TYPES else ("Integer", str(int(value)))


def _type(estimate: Estimate, name: str) -> str:
    """An FMU says of which type a variable is; all else is real."""
    model = estimate.problem.model
    return model.description.variables[name].type if isinstance(model, FmuModel) else "Real"


def estimate_to_urdf(estimate: Estimate, path: str | Path) -> Path:
    if estimate.robot is None:
        raise NotSupported("Only estimates of inverse_dynamics() on a RobotModel can be written as a URDF; one of an arm's "
                           "forward dynamics by RobotModel.from_identified(estimate, arm).to_urdf(path).")
    return RobotModel.from_identified(estimate).to_urdf(path)
