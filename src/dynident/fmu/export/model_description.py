"""Model description: the modelDescription.xml of an FMU that we write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as xml

import casadi as ca
import numpy as np

from dynident import __version__
from dynident.models.equations import EquationModel
from dynident.problem.model import NominalValue


@dataclass(frozen=True, eq=False)
class ExportSpec:
    """What is written into an FMU."""

    model: EquationModel
    identifier: str
    starts: Mapping[str, float]
    given: Mapping[str, NominalValue]
    version: str  # "2" or "3"
    step: float
    token: str


@dataclass(frozen=True)
class ExportedVariable:
    """One variable."""

    name: str
    reference: int
    causality: str
    variability: str
    initial: str | None
    start: float | None
    derivative_of: str | None = None


def exported_variables(spec: ExportSpec) -> list[ExportedVariable]:
    """All variables in the order of their references; a state that is measured under its own name is an output."""
    m = spec.model
    nx, nu, ny = len(m.states), len(m.inputs), len(m.outputs)
    lines = [ExportedVariable(n, i, "output" if n in m.outputs else "local", "continuous", "exact", spec.starts[n])
             for i, n in enumerate(m.states)]
    lines += [ExportedVariable(f"der({n})", nx + i, "local", "continuous", None, None, n) for i, n in enumerate(m.states)]
    lines += [ExportedVariable(n, 2 * nx + i, "input", "continuous", None, 0.0) for i, n in enumerate(m.inputs)]
    lines += [ExportedVariable(n, 2 * nx + nu + i, "output", "continuous", None, None)
              for i, n in enumerate(m.outputs) if n not in m.states]
    lines += [ExportedVariable(n, 2 * nx + nu + ny + i, "parameter", "tunable", "exact", spec.starts[n])
              for i, n in enumerate(m.parameters)]
    return lines


def model_description(spec: ExportSpec) -> bytes:
    second = spec.version == "2"
    root = xml.Element("fmiModelDescription", {
        "fmiVersion": "2.0" if second else "3.0", "modelName": spec.model.name or spec.identifier,
        "guid" if second else "instantiationToken": spec.token, "generationTool": f"dynident {__version__}",
        "variableNamingConvention": "structured", **({"numberOfEventIndicators": "0"} if second else {})})
    abilities = {"modelIdentifier": spec.identifier}
    state = "canGetAndSetFMUstate" if second else "canGetAndSetFMUState"
    serial = "canSerializeFMUstate" if second else "canSerializeFMUState"
    derivative = "providesDirectionalDerivative" if second else "providesDirectionalDerivatives"
    common = {**abilities, state: "true", serial: "true", derivative: "true"}
    not_needed = {"completedIntegratorStepNotNeeded": "true"} if second else {}
    xml.SubElement(root, "ModelExchange", {**common, **not_needed})
    xml.SubElement(root, "CoSimulation", {**common, "canHandleVariableCommunicationStepSize": "true"})
    lines = exported_variables(spec)
    units = sorted({spec.model.units[line.name] for line in lines if spec.model.units.get(line.name)})
    if units:
        definitions = xml.SubElement(root, "UnitDefinitions")
        for unit in units:
            xml.SubElement(definitions, "Unit", {"name": unit})
    xml.SubElement(root, "DefaultExperiment", {"startTime": "0"})
    variables = xml.SubElement(root, "ModelVariables")
    if not second:
        last = max([line.reference for line in lines], default=-1) + 1
        top = 2 * len(spec.model.states) + sum(map(len, (spec.model.inputs, spec.model.outputs, spec.model.parameters)))
        xml.SubElement(variables, "Float64", {"name": _free_name("time", lines), "valueReference": str(max(last, top)),
                                              "causality": "independent", "variability": "continuous"})
    for line in lines:
        _write_variable(variables, spec, line, lines, second)
    (_write_structure2 if second else _write_structure3)(xml.SubElement(root, "ModelStructure"), spec, lines)
    xml.indent(root)
    return xml.tostring(root, encoding="UTF-8", xml_declaration=True)


def _free_name(name: str, lines: list[ExportedVariable]) -> str:
    while any(line.name == name for line in lines):
        name += "_"
    return name


def _write_variable(parent: xml.Element, spec: ExportSpec, line: ExportedVariable, lines: list[ExportedVariable],
                    second: bool) -> None:
    attributes = {"name": line.name, "valueReference": str(line.reference), "causality": line.causality,
                  "variability": line.variability}
    if line.initial:
        attributes["initial"] = line.initial
    number = {}
    unit = spec.model.units.get(line.name)
    if unit:
        number["unit"] = unit
    known = spec.given.get(line.name)
    if known is not None and np.isfinite(known.lower):
        number["min"] = repr(float(known.lower))
    if known is not None and np.isfinite(known.upper):
        number["max"] = repr(float(known.upper))
    if line.start is not None:
        number["start"] = repr(line.start)
    if line.derivative_of is not None:
        place = next(i for i, other in enumerate(lines) if other.name == line.derivative_of)
        number["derivative"] = str(place + 1 if second else lines[place].reference)
    if second:
        xml.SubElement(xml.SubElement(parent, "ScalarVariable", attributes), "Real", number)
    else:
        xml.SubElement(parent, "Float64", {**attributes, **number})


def _write_structure2(structure: xml.Element, spec: ExportSpec, lines: list[ExportedVariable]) -> None:
    place = {line.name: i + 1 for i, line in enumerate(lines)}
    needs = _dependencies(spec.model)
    outputs = xml.SubElement(structure, "Outputs") if spec.model.outputs else None
    for name in spec.model.outputs:
        needed = [] if name in spec.model.states else needs[name]
        needed = [name] if name in spec.model.states else needed
        assert outputs is not None
        xml.SubElement(outputs, "Unknown", {"index": str(place[name]), "dependencies": " ".join(
            str(place[n]) for n in needed)})
    if spec.model.states:
        derivatives = xml.SubElement(structure, "Derivatives")
        for name in spec.model.states:
            xml.SubElement(derivatives, "Unknown", {"index": str(place[f"der({name})"]), "dependencies": " ".join(
                str(place[n]) for n in needs[f"der({name})"])})
    unknown = [line for line in lines if line.derivative_of or (line.causality == "output" and line.initial is None)]
    if unknown:
        initial = xml.SubElement(structure, "InitialUnknowns")
        for line in unknown:
            xml.SubElement(initial, "Unknown", {"index": str(place[line.name])})


def _write_structure3(structure: xml.Element, spec: ExportSpec, lines: list[ExportedVariable]) -> None:
    reference = {line.name: line.reference for line in lines}
    needs = _dependencies(spec.model)
    for name in spec.model.outputs:
        needed = [name] if name in spec.model.states else needs[name]
        xml.SubElement(structure, "Output", {"valueReference": str(reference[name]), "dependencies": " ".join(
            str(reference[n]) for n in needed)})
    for name in spec.model.states:
        rate = f"der({name})"
        xml.SubElement(structure, "ContinuousStateDerivative", {"valueReference": str(reference[rate]),
                       "dependencies": " ".join(str(reference[n]) for n in needs[rate])})
    for line in lines:
        if line.derivative_of or (line.causality == "output" and line.initial is None):
            xml.SubElement(structure, "InitialUnknown", {"valueReference": str(line.reference)})


def _dependencies(model: EquationModel) -> dict[str, list[str]]:
    """States and inputs that each rate and output depends on."""
    t, x, u, p = (ca.SX.sym(n, k) for n, k in zip("txup", (1, len(model.states), len(model.inputs),
                                                          len(model.parameters)), strict=True))
    names = [*model.states, *model.inputs]
    found = {}
    for labels, value in (([f"der({n})" for n in model.states], model.rate(t, x, u, p)),
                          (model.outputs, model.output(t, x, u, p))):
        pattern = ca.jacobian(value, ca.vertcat(x, u)).sparsity()
        rows, columns = pattern.get_triplet()
        for i, label in enumerate(labels):
            found[label] = [names[c] for r, c in zip(rows, columns, strict=True) if r == i]
    return found
