"""Export: a model with equations and its values as an FMU that other tools can load."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib import resources, util
from pathlib import Path

import casadi as ca
import numpy as np

from dynident.codegen import compiler
from dynident.codegen.c_source import c_source
from dynident.errors import NotSupported, ProblemError
from dynident.fmu.archive import platform_folders
from dynident.fmu.export.model_description import ExportSpec, model_description
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
    parts = resources.files("dynident.fmu.export")
    loops = [parts.joinpath(name).read_text() for name in ("model.c", f"fmi{spec.version}.c")]
    generated = c_source(functions).replace("CASADI_SYMBOL_EXPORT ", "static ")
    return "\n".join([generated, *head, *loops])


def _build(source: str, identifier: str, folder: Path, name: str, version: str) -> tuple[str, Path]:
    """The entry in the archive and the library on disk, for a named platform or this machine."""
    text = folder / f"{identifier}.c"
    text.write_text(source)
    zig = [sys.executable, "-m", "ziglang", "cc"] if util.find_spec("ziglang") is not None else None
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
