"""Export: a model with equations and its values as an FMU (description, code) that other tools can load."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources, util
from pathlib import Path
from xml.etree import ElementTree as xml

import casadi as ca
import numpy as np

from dynident import __version__
from dynident._util.new_process import python_module
from dynident.codegen import compiler
from dynident.codegen.c_source import c_source
from dynident.errors import NotSupported, ProblemError
from dynident.fmu.archive import platform_folders
from dynident.models.equations import EquationModel
from dynident.problem.model import NominalValue

USUAL_STEP = 1e-3  # seconds: longest step of the Runge-Kutta method inside, where nothing is spec
VERSIONS = ("2.0", "3.0")
# zig's name of a machine, its folder in FMI 2.0 and 3.0, and the suffix of a library
PLATFORMS = {"linux": ("x86_64-linux-gnu.2.17", "linux64", "x86_64-linux", ".so"),
             "linux-arm": ("aarch64-linux-gnu", "aarch64-linux", "aarch64-linux", ".so"),
             "windows": ("x86_64-windows-gnu", "win64", "x86_64-windows", ".dll"),
             "macos": ("x86_64-macos", "darwin64", "x86_64-darwin", ".dylib"),
             "macos-arm": ("aarch64-macos", "aarch64-darwin", "aarch64-darwin", ".dylib")}
FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-w")


def export_fmu(model: EquationModel, path: str | Path, values: Mapping[str, float], *, version: str = "2.0",
               step: float = USUAL_STEP, platforms: Sequence[str] = (), given: Mapping[str, NominalValue] | None = None
               ) -> Path:
    """Write an FMU (Co-Simulation and Model Exchange) whose start values are `values`: parameters, and initial states
    as 'q(0)' (0 where not given). Parameters stay tunable.

    Inside, Co-Simulation integrates by Runge-Kutta with steps of at most `step` seconds and held inputs. `platforms` is
    empty for this machine, or names from PLATFORMS, for which the package ziglang is needed.
    """
    target = Path(path)
    if faults := _export_faults(model, target, values, version, step, platforms):
        raise ProblemError(faults)
    starts = {n: float(values[n]) for n in model.parameters}
    starts |= {n: float(values.get(f"{n}(0)", 0.0)) for n in model.states}
    identifier = re.sub(r"\W", "_", target.stem) or "model"
    identifier = identifier if re.match(r"[A-Za-z_]", identifier) else f"model_{identifier}"
    spec = ExportSpec(model, identifier, starts, given or {}, version[0], step, _make_token(model, starts, version, step))
    with tempfile.TemporaryDirectory() as folder:
        aside = _write_archive(spec, Path(folder), platforms or ("",), version)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(aside.read_bytes())
        except OSError as error:
            raise ProblemError(f"{target} cannot be written: {error.strerror or error}. Choose another place.") from error
    return target


def _export_faults(model: EquationModel, target: Path, values: Mapping[str, float], version: str, step: float,
                   platforms: Sequence[str]) -> list[str]:
    faults = [f"export needs a value for the parameter '{n}'." for n in model.parameters if n not in values]
    if model.algebraic_system is not None and not model.algebraic_system.affine:
        faults.append(f"the algebraic variable '{model.algebraic[0]}' enters nonlinearly; an exported FMU holds formulas and "
                      "no Newton's method. Solve for it by hand.")
    faults += [f"there is no platform '{p}'; known: {', '.join(PLATFORMS)}." for p in platforms if p not in PLATFORMS]
    faults += [f"FMI {version} cannot be written; known: {', '.join(VERSIONS)}."] * (version not in VERSIONS)
    faults += [f"the output '{n}' has the name of an input; rename it." for n in model.outputs if n in model.inputs]
    faults += [f"the value of '{n}' is {value}; an FMU holds finite numbers." for n, value in values.items()
               if not np.isfinite(value)]
    faults += [f"{target} is a folder; name a file in it, such as {target / 'model.fmu'}."] * target.is_dir()
    if not (step > 0 and np.isfinite(step)):
        faults.append(f"step = {step}; give a positive number of seconds.")
    return faults


def _write_archive(spec: ExportSpec, folder: Path, platforms: Sequence[str], version: str) -> Path:
    """The FMU in a folder for what is made on the way; a platform without a name is this machine."""
    source, aside = _write_source(spec), folder / "made.fmu"
    built = [_build(source, spec.identifier, folder, name, version) for name in platforms]
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", model_description(spec))
        for entry, library in built:
            archive.write(library, entry)
        archive.writestr(f"sources/{spec.identifier}.c", source)
        if version == "3.0":
            archive.writestr("sources/buildDescription.xml", _build_description(spec.identifier))
    return aside


def _make_token(model: EquationModel, starts: Mapping[str, float], version: str, step: float) -> str:
    identity = json.dumps([model.definition(), sorted(starts.items()), version, step], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return f"{{{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}}}"


def _write_source(spec: ExportSpec) -> str:
    model = spec.model
    sizes = {"NX": len(model.states), "NU": len(model.inputs), "NY": len(model.outputs), "NP": len(model.parameters)}
    t, x, u, p = (ca.SX.sym(name, size) for name, size in zip("txup", (1, *[sizes[k] for k in ("NX", "NU", "NP")]),
                                                              strict=True))
    rate, output = model.rate(t, x, u, p), model.output(t, x, u, p)
    seeds = [ca.SX.sym(f"along_{name}", len(names)) for name, names in (("x", model.states), ("u", model.inputs),
                                                                        ("p", model.parameters))]
    change = ca.jtimes(ca.vertcat(rate, output), ca.vertcat(x, u, p), ca.vertcat(*seeds))
    functions = [ca.Function(name, [t, x, u, p, *more], [ca.densify(value)]) for name, more, value in (
        ("dyn_rate", [], rate), ("dyn_output", [], output), ("dyn_forward", seeds, change))]
    line = [*(spec.starts[n] for n in model.states), *np.zeros(sizes["NX"] + sizes["NU"] + sizes["NY"]),
            *(spec.starts[n] for n in model.parameters), 0.0]
    head = [f"#define {name} {size}" for name, size in sizes.items()]
    head += [f"#define STEP {spec.step!r}", f'#define TOKEN "{spec.token}"',
             f"static const double START[] = {{{', '.join(float(v).hex() for v in line)}}};"]
    parts = resources.files("dynident.fmu")
    loops = [parts.joinpath(name).read_text() for name in ("export_model.c", f"export_fmi{spec.version}.c")]
    generated = c_source(functions).replace("CASADI_SYMBOL_EXPORT ", "static ")
    return "\n".join([generated, *head, *loops])


def _build(source: str, identifier: str, folder: Path, name: str, version: str) -> tuple[str, Path]:
    """The entry in the archive and the library on disk, for a named platform or this machine."""
    text = folder / f"{identifier}.c"
    text.write_text(source)
    zig = [*python_module("ziglang"), "cc"] if util.find_spec("ziglang") is not None else None
    if name:
        target, second, third, suffix = PLATFORMS[name]
        if zig is None:
            raise NotSupported(f"An FMU for {name} needs the package ziglang: pip install \"dynident[export]\".")
        command = [*zig, "-target", target]
    else:
        second, third, suffix = platform_folders()
        own = compiler.compiler()
        if own is None and zig is None:
            raise NotSupported("An export needs a C compiler; install one, or: pip install \"dynident[export]\".")
        command = [own] if own is not None else list(zig or ())
    library = folder / f"{third}{suffix}"
    made = subprocess.run([*command, *FLAGS, str(text), "-o", str(library), *([] if suffix == ".dll" else ["-lm"])],
                          capture_output=True, text=True, check=False)
    if made.returncode:
        raise NotSupported(f"The FMU could not be compiled{f' for {name}' if name else ''}: "
                           f"{(made.stderr.strip() or 'no reason given').splitlines()[0]}")
    return f"binaries/{second if version == '2.0' else third}/{identifier}{suffix}", library


def _build_description(identifier: str) -> str:
    return ('<?xml version="1.0" encoding="UTF-8"?>\n<fmiBuildDescription fmiVersion="3.0">\n'
            f'  <BuildConfiguration modelIdentifier="{identifier}">\n    <SourceFileSet language="C99">\n'
            f'      <SourceFile name="{identifier}.c"/>\n    </SourceFileSet>\n  </BuildConfiguration>\n'
            "</fmiBuildDescription>\n")


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
    abilities = (("canGetAndSetFMUstate", "canSerializeFMUstate", "providesDirectionalDerivative") if second else
                 ("canGetAndSetFMUState", "canSerializeFMUState", "providesDirectionalDerivatives"))
    common = {"modelIdentifier": spec.identifier, **dict.fromkeys(abilities, "true")}
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
    _write_structure(xml.SubElement(root, "ModelStructure"), spec, lines, second)
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
    unit, known = spec.model.units.get(line.name), spec.given.get(line.name)
    limits = {"min": known.lower, "max": known.upper} if known is not None else {}
    number = {"unit": unit} if unit else {}
    number |= {key: repr(float(limit)) for key, limit in limits.items() if np.isfinite(limit)}
    if line.start is not None:
        number["start"] = repr(line.start)
    if line.derivative_of is not None:
        place = next(i for i, other in enumerate(lines) if other.name == line.derivative_of)
        number["derivative"] = str(place + 1 if second else lines[place].reference)
    if second:
        xml.SubElement(xml.SubElement(parent, "ScalarVariable", attributes), "Real", number)
    else:
        xml.SubElement(parent, "Float64", {**attributes, **number})


def _write_structure(structure: xml.Element, spec: ExportSpec, lines: list[ExportedVariable], second: bool) -> None:
    """Which variables are outputs, derivatives and unknown at the start, and what they depend on; FMI 2.0 counts variables,
    3.0 names their references."""
    number = {line.name: str(i + 1 if second else line.reference) for i, line in enumerate(lines)}
    needs = _dependencies(spec.model) | {name: [name] for name in spec.model.outputs if name in spec.model.states}
    unknown = [line.name for line in lines if line.derivative_of or (line.causality == "output" and line.initial is None)]
    for group, tag, names in (("Outputs", "Output", spec.model.outputs),
                              ("Derivatives", "ContinuousStateDerivative", [f"der({n})" for n in spec.model.states]),
                              ("InitialUnknowns", "InitialUnknown", unknown)):
        parent = xml.SubElement(structure, group) if second and names else structure
        for name in names:
            depends = {} if group == "InitialUnknowns" else {"dependencies": " ".join(number[n] for n in needs[name])}
            xml.SubElement(parent, "Unknown" if second else tag,
                           {"index" if second else "valueReference": number[name], **depends})


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
