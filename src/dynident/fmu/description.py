"""Description: what does an FMU say about itself? FMPy parses and validates; here it becomes plain data, and a table."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

from dynident.errors import NotSupported, ProblemError
from dynident.fmu.archive import description_text, entry_names, find_library
from dynident.fmu.source_code import BuildPlan, build_plan

INSTALL = "FMUs need the package FMPy: pip install \"dynident[fmu]\"."
NUMBER_TYPES = ("Real", "Float64", "Float32", "Integer", "Boolean", "Enumeration", "Int8", "UInt8", "Int16", "UInt16",
                "Int32", "UInt32", "Int64", "UInt64")
TEXT_TYPE = "String"
TRIGGER_TYPES = ("Clock", "Binary")  # of FMI 3.0, which no record holds
REAL_TYPES = ("Real", "Float64", "Float32")
INTERFACES = ("model_exchange", "co_simulation")
MAX_ELEMENTS = 100_000  # of one array; beyond it, its elements are not offered by name
HEAD = ("name", "type", "causality", "variability", "start", "unit", "between", "can be")


@dataclass(frozen=True)
class FmuVariable:
    """One number of an FMU by its name; an element of an array is `name[2]` or `name[1,3]`, counted from 1."""

    name: str
    reference: int
    element: int  # in the flat array behind the reference; 0 for scalars
    size: int  # of that array
    type: str
    causality: str
    variability: str
    initial: str | None
    start: float | None
    lower: float
    upper: float
    nominal: float | None
    unit: str
    description: str

    @property
    def real(self) -> bool:
        return self.type in REAL_TYPES

    @property
    def event_only(self) -> bool:
        """An input that Model Exchange may set in event mode alone."""
        return self.causality == "input" and (not self.real or self.variability == "discrete")

    @property
    def place(self) -> tuple[str, int, int]:
        """Where the number stands in the FMU; two names with one place are aliases."""
        return self.type, self.reference, self.element

    @property
    def settable_before_start(self) -> bool:
        """May be given a value before initialisation, other than an input."""
        if self.causality in ("input", "independent", "calculatedParameter") or self.variability == "constant":
            return False
        if self.causality == "structuralParameter":
            return False  # it changes sizes, in a mode of its own
        stated = self.initial is None and self.start is not None  # some tools give a start value and not what it is for
        return self.causality == "parameter" or self.initial in ("exact", "approx") or stated

    @property
    def can_be_estimated(self) -> bool:
        return self.real and self.causality == "parameter" and self.variability in ("fixed", "tunable") and (
            self.start is not None)


@dataclass(frozen=True, eq=False)
class FmuInterface:
    """What an FMU offers as Model Exchange or Co-Simulation."""

    kind: str
    identifier: str
    library: str  # entry of the archive
    variable_steps: bool
    directional: bool
    once_per_process: bool
    needs_tool: bool
    needs_completed_step: bool
    build: BuildPlan | None = None  # how to make the library, where the FMU brings source code only


@dataclass(frozen=True, eq=False)
class FmuDescription:
    """Everything that is needed to run an FMU, read from its model description."""

    path: Path
    version: int  # 2 or 3
    name: str
    tool: str
    token: str
    tolerance: float | None
    start_time: float
    stop_time: float | None
    step_size: float | None
    interfaces: dict[str, FmuInterface]
    missing: dict[str, str]  # per interface without a library for this machine: why
    variables: dict[str, FmuVariable]
    states: tuple[str, ...]  # continuous states in the order of the derivatives
    rates: tuple[str, ...]  # these derivatives
    indicators: int
    platforms: tuple[str, ...]
    feedthrough: bool  # an output may depend directly on an input
    complaints: tuple[str, ...]  # of the validation
    structured: bool  # it says which variables are outputs, states and rates


def read_description(path: Path) -> FmuDescription:
    _refuse_other_versions(path)
    parsed, complaints = _parse(path)
    version = parsed.fmiMajorVersion
    names = entry_names(path)
    interfaces, missing = _interfaces(parsed, path, version, names)
    variables: dict[str, FmuVariable] = {}
    for variable in parsed.modelVariables:
        for it in _elements(variable):
            variables.setdefault(it.name, it)
    states = [unknown.variable.derivative for unknown in parsed.derivatives]
    indicators = parsed.numberOfEventIndicators if version == 2 else sum(_size(u.variable) for u in parsed.eventIndicators)
    if any(state is None for state in states):
        raise ProblemError(f"{path.name}: a derivative in the model structure names no state.")
    experiment = parsed.defaultExperiment
    platforms = sorted({n.split("/")[1] for n in names if n.startswith("binaries/") and n.count("/") >= 2})
    return FmuDescription(
        path=path, version=version, name=parsed.modelName, tool=parsed.generationTool or "",
        token=parsed.instantiationToken or "", tolerance=_number(getattr(experiment, "tolerance", None)),
        start_time=_number(getattr(experiment, "startTime", None)) or 0.0,
        stop_time=_number(getattr(experiment, "stopTime", None)),
        step_size=_number(getattr(experiment, "stepSize", None)), interfaces=interfaces, missing=missing,
        variables=variables, states=tuple(n.name for state in states for n in _elements(state)),
        rates=tuple(n.name for rate in parsed.derivatives for n in _elements(rate.variable)),
        indicators=indicators, platforms=tuple(platforms), feedthrough=_feedthrough(parsed), complaints=tuple(complaints),
        structured=xml.fromstring(description_text(path)).find("ModelStructure") is not None)


def _refuse_other_versions(path: Path) -> None:
    """Before anything else of the description is looked at: what another version writes is not ours to understand."""
    try:
        version = xml.fromstring(description_text(path)).get("fmiVersion", "")
    except xml.ParseError as error:
        raise ProblemError(f"{path.name} cannot be understood: modelDescription.xml is not XML ({error}).") from None
    if version.split(".")[0] not in ("2", "3"):
        raise NotSupported(f"{path.name} is an FMU of FMI {version or '(no version)'}; dynident runs FMI 2.0 and 3.0. "
                           "Export it again as one of these.")


def grouped_complaints(complaints: list[str]) -> list[str]:
    """Complaints that differ in names and line numbers only, as one line."""
    kinds: dict[str, list[str]] = {}
    for complaint in complaints:
        kinds.setdefault(re.sub(r"\"[^\"]*\"|'[^']*'|\d+", "", complaint), []).append(complaint.strip())
    return [some[0] + (f" ({len(some) - 1} more of this kind)" if len(some) > 1 else "") for some in kinds.values()]


def _parse(path: Path) -> tuple[Any, list[str]]:
    try:
        from fmpy.model_description import ValidationError, read_model_description
    except ImportError:
        raise NotSupported(INSTALL) from None
    text = description_text(path)
    complaints: list[str] = []
    try:
        return _read(read_model_description, path, text, True), complaints
    except ValidationError as error:  # many tools write what the schema does not allow; what can be read is used
        complaints += grouped_complaints([str(problem) for problem in error.problems])
    except NotSupported:
        raise
    except Exception as error:  # fmpy raises the bare kind
        complaints.append(str(error))
    try:
        return _read(read_model_description, path, text, False), complaints
    except Exception as error:
        raise ProblemError(f"{path.name} cannot be understood: {error}") from error


def _read(reader: Any, path: Path, text: bytes, validate: bool) -> Any:
    """Through a zip of the description alone, so that nothing else of the archive meets the parser."""
    import zipfile

    alone = io.BytesIO()
    with zipfile.ZipFile(alone, "w") as archive:
        archive.writestr("modelDescription.xml", text)
    alone.seek(0)
    return reader(alone, validate=validate)


def _interfaces(parsed: Any, path: Path, version: int, names: list[str]) -> tuple[dict[str, FmuInterface], dict[str, str]]:
    found: dict[str, FmuInterface] = {}
    missing: dict[str, str] = {}
    for kind, it in (("model_exchange", parsed.modelExchange), ("co_simulation", parsed.coSimulation)):
        if it is None:
            continue
        plan = None
        try:
            library = find_library(names, path, version, it.modelIdentifier)
        except NotSupported as error:
            plan = build_plan(path, version, it)
            library = "" if plan is None else plan.library
            if plan is None:
                missing[kind] = str(error)
        found[kind] = FmuInterface(
            kind, it.modelIdentifier, library, bool(getattr(it, "canHandleVariableCommunicationStepSize", True)),
            _directional(path, it), bool(it.canBeInstantiatedOnlyOncePerProcess),
            bool(it.needsExecutionTool), bool(getattr(it, "needsCompletedIntegratorStep", False)), plan)
    if not found:
        other = ", only Scheduled Execution, by clocks that a record does not hold" if getattr(
            parsed, "scheduledExecution", None) is not None else ""
        raise NotSupported(f"{path.name} offers neither Model Exchange nor Co-Simulation{other}.")
    return found, missing


def _directional(path: Path, interface: Any) -> bool:
    """FMPy reads the flag of FMI 2.0 only; in 3.0 it ends with an s."""
    if interface.providesDirectionalDerivative:
        return True
    root = xml.fromstring(description_text(path))
    return any(element.get("providesDirectionalDerivatives") in ("true", "1")
               for element in root.findall(type(interface).__name__))


def _number(text: Any) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _shape(variable: Any) -> tuple[int, ...]:
    shape = []
    for dimension in getattr(variable, "dimensions", ()) or ():
        size = dimension.start if dimension.start is not None else getattr(dimension.variable, "start", None)
        shape.append(int(size or 0))
    return tuple(shape)


def _size(variable: Any) -> int:
    return math.prod(_shape(variable))


def _starts(variable: Any, size: int) -> list[float | None]:
    words = {"true": 1.0, "false": 0.0}
    start = variable.start
    if start is None or variable.type not in NUMBER_TYPES:
        return [None] * size
    values = [words.get(word.strip().lower(), _number(word)) for word in str(start).split()]
    return values if len(values) == size else values[:1] * size


def _attribute(variable: Any, name: str) -> Any:
    own = getattr(variable, name, None)
    return own if own is not None else getattr(variable.declaredType, name, None)


def _elements(variable: Any) -> list[FmuVariable]:
    shape = _shape(variable)
    size = math.prod(shape)
    if size > MAX_ELEMENTS:
        return []
    unit = _attribute(variable, "unit")
    places = [""] if not shape else [
        f"[{','.join(str(i + 1) for i in index)}]" for index in product(*(range(n) for n in shape))]
    lower, upper = _number(_attribute(variable, "min")), _number(_attribute(variable, "max"))
    return [FmuVariable(
        f"{variable.name}{place}", int(variable.valueReference), i, size, variable.type,
        variable.causality or "local", variable.variability or ("continuous" if variable.type in REAL_TYPES else "discrete"),
        variable.initial, start,
        -math.inf if lower is None else lower, math.inf if upper is None else upper,
        _number(_attribute(variable, "nominal")), str(getattr(unit, "name", unit) or ""), variable.description or "")
        for i, (place, start) in enumerate(zip(places, _starts(variable, size), strict=True))]


def _feedthrough(parsed: Any) -> bool:
    """Whether an output may depend on an input at the same time; what is not parsed is possible."""
    for output in parsed.outputs:
        if output.dependencies is None or any(v.causality == "input" for v in output.dependencies):
            return True
    return not parsed.outputs


def summarize(description: FmuDescription, chosen: str | None = None) -> str:
    """A few lines: from where, which interfaces, which platforms."""
    d = description
    lines = [f"{d.path.name}: FMI {d.version}.0, model '{d.name}'{f', made by {d.tool}' if d.tool else ''}"]
    for kind in INTERFACES:
        if kind in d.interfaces:
            it = d.interfaces[kind]
            can = [words for words, yes in (
                ("any step", kind == "co_simulation" and it.variable_steps),
                ("equal steps only", kind == "co_simulation" and not it.variable_steps),
                ("directional derivatives", it.directional), ("one instance per process", it.once_per_process),
                ("needs its tool", it.needs_tool)) if yes]
            use = " (used)" if kind == chosen else ""
            lines.append(f"  {kind.replace('_', ' ')}{use}{': ' if can else ''}{', '.join(can)}")
            if it.build is not None:
                lines.append("    built here from its source code, by the C compiler of this machine")
            if kind in d.missing:
                lines.append(f"    {d.missing[kind]}")
    lines.append(f"  code for: {', '.join(d.platforms) or 'no platform'}")
    lines.append(f"  {len(d.states)} continuous states, {d.indicators} event indicators, {len(d.variables)} variables")
    if d.stop_time is not None:
        lines.append(f"  default experiment: {d.start_time:g} to {d.stop_time:g} s"
                     f"{f', step {d.step_size:g} s' if d.step_size else ''}")
    lines += [f"  its description is not valid: {complaint}" for complaint in d.complaints]
    return "\n".join(lines)


def possible_use(d: FmuDescription, v: FmuVariable) -> str:
    """What a problem can do with a variable."""
    if v.can_be_estimated:
        return "estimated"
    if v.name in d.states and v.settable_before_start and v.start is not None:
        return "estimated as initial state"
    if v.causality == "input":
        return "input of a record"
    if v.type not in NUMBER_TYPES:
        return ""
    if v.settable_before_start:
        return "set"
    return "measured" if v.causality != "independent" else ""


def variable_rows(description: FmuDescription, every: bool) -> list[tuple[str, ...]]:
    """One row per variable: parameters, inputs, outputs and states, or all."""
    d = description
    shown = []
    for v in d.variables.values():
        if every or v.causality in ("parameter", "input", "output", "structuralParameter") or v.name in d.states:
            between = "" if math.isinf(v.lower) and math.isinf(v.upper) else f"{v.lower:g} .. {v.upper:g}"
            start = "" if v.start is None else f"{v.start:g}"
            shown.append((v.name, v.type, v.causality, v.variability, start, v.unit, between, possible_use(d, v)))
    return shown  # type: ignore[return-value]


def variable_table(description: FmuDescription, every: bool) -> str:
    body = variable_rows(description, every)
    widths = [max(len(row[k]) for row in [HEAD, *body]) for k in range(len(HEAD))]
    lines = ["  ".join(word.ljust(w) for word, w in zip(row, widths, strict=True)).rstrip() for row in [HEAD, *body]]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
