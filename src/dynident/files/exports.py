"""Exports: an estimate in forms that other tools take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as xml

import numpy as np

from dynident.errors import NotSupported
from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.problem.model import Given
from dynident.problem.parameter import Parameter

VALUES = "http://ssp-standard.org/SSP1/SystemStructureParameterValues"


def estimate_as_fmu(estimate: Estimate, path: str | Path, *, version: str = "2.0", platforms: Sequence[str] = ()
                    ) -> Path:
    """The fitted model with its estimated values as an FMU; initial states are those of the first experiment."""
    from dynident.models.fmu.export import export_fmu

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
    given = {p.name: Given(values[p.name], p.lower, p.upper, p.unit) for p in declared}
    typical = float(np.median(np.diff(first.time))) if first.samples > 1 else 1.0
    step = typical / max(1, int(estimate.counts.get("substeps", 1)))
    return export_fmu(problem.model, path, values, version=version, step=step, platforms=platforms, given=given)


def parameter_set(estimate: Estimate) -> bytes:
    """Estimated and held parameters as a System Structure Parameter Values document (SSP 1.0)."""
    xml.register_namespace("ssv", VALUES)
    root = xml.Element(f"{{{VALUES}}}ParameterSet", {"version": "1.0", "name": "dynident estimate"})
    body = xml.SubElement(root, f"{{{VALUES}}}Parameters")
    for parameter in estimate.problem.parameters:
        if isinstance(parameter, Parameter) and parameter.name in estimate.values:
            one = xml.SubElement(body, f"{{{VALUES}}}Parameter", {"name": parameter.name})
            xml.SubElement(one, f"{{{VALUES}}}Real", {"value": repr(float(estimate.values[parameter.name]))})
    xml.indent(root)
    return xml.tostring(root, encoding="UTF-8", xml_declaration=True)
