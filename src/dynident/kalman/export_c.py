"""Filter in C: the same filter as one .c and one .h, C99, without dependencies and without allocation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np

from dynident import __version__
from dynident._util.atomic import atomic_write
from dynident.errors import NotSupported, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.estimate.filter_result import FilterCovariance
from dynident.integrators.operation_count import operation_counts
from dynident.kalman.backend import FilterLayout
from dynident.kalman.compiled_filter import compile_time_sizes, filter_text, memory_size, source_text, update_kernels
from dynident.kalman.likelihood import estimate_noise
from dynident.kalman.method import FilterMethod
from dynident.kalman.setup import FilterSetup, build_setup
from dynident.models.equations import EquationModel

NAME = re.compile(r"[a-z][a-z0-9_]*")

HEADER = """/* {name}: a Kalman filter for the model '{model}', written by dynident {version}.

{facts}

   Values stand in this order:
     inputs      {inputs}
     outputs     {outputs}
     states      {states}
     parameters  {parameters}

   {name}_init once, then {name}_update after each sample, in the order of time. Not for two threads at once with the
   same filter. Nothing is allocated; all calls take the same number of operations while samples come regularly. */

#ifndef {guard}
#define {guard}

#define {upper}_INPUTS {nu}
#define {upper}_OUTPUTS {ny}
#define {upper}_STATES {nx}
#define {upper}_PARAMETERS {nt}

#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {{ double memory[{memory}]; }} {name}_filter;

typedef struct {{
  double state[{nx}], state_std[{nx}];
  double parameter[{nt_size}], parameter_std[{nt_size}];
  double predicted[{ny}]; /* outputs as predicted before the sample */
  double nis;             /* normalised innovations squared: about {ny} on average */
}} {name}_result;

/* Each returns 0, or 1 (no longer finite), 2 (covariance no longer positive), 3 (time went back). After a fault
   begin anew with {name}_init. A missing output is NAN. u: inputs at t; y: outputs measured at t. The first
   sample sets the time. */
int {name}_init({name}_filter *filter);
int {name}_update({name}_filter *filter, double t, const double *u, const double *y, {name}_result *result);

/* Of states and parameters, row by row, {n} x {n}{coordinates}. */
void {name}_covariance(const {name}_filter *filter, double *P);

#ifdef __cplusplus
}}
#endif
#endif
"""


def export_filter(estimate: Estimate, folder: str | Path, name: str = "filter", warm: bool = False
                  ) -> tuple[Path, Path]:
    """Write the filter that made an estimate; `warm` starts it from the estimated parameters instead of their start."""
    if not isinstance(estimate.method, FilterMethod):
        raise NotSupported("Only a result of kalman() or moving_horizon() holds a filter to export. Fit with one of "
                           "them.")
    if not isinstance(estimate.problem.model, EquationModel):
        kind = type(estimate.problem.model).__name__
        raise NotSupported(f"A filter is written as C from equations, and a {kind} shows none.")
    setup, _ = estimate_noise(build_setup(estimate.method, estimate.problem))
    return write_filter(_start_warm(setup, estimate) if warm else setup, folder, name)


def _refuse_unexportable(setup: FilterSetup) -> None:
    """What the first record says of its own samples and nothing says of those to come."""
    record = setup.records[0]
    if len(record.variance) > 1:
        raise NotSupported(f"'{record.name}' has a standard deviation per sample, but the exported filter needs one for "
                           "all samples to come. Give Gaussian(std) with one number and fit again.")
    if record.start < record.time[0]:
        raise NotSupported(f"The initial state of '{record.name}' holds at t = {record.start:g}, before the first sample, "
                           "but the first sample sets the time of the exported filter. Leave `start` out and fit again.")


def write_filter(setup: FilterSetup, folder: str | Path, name: str = "filter") -> tuple[Path, Path]:
    """The two files of a filter; returns their paths (.c, .h)."""
    if not NAME.fullmatch(name):
        raise ProblemError(f"'{name}' cannot be the name of the filter in C; use small letters, digits and _.")
    _refuse_unexportable(setup)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    code, header = folder / f"{name}.c", folder / f"{name}.h"
    for path, text in ((code, c_text(setup, name)), (header, header_text(setup, name))):
        with atomic_write(path) as aside:
            Path(aside).write_text(text, encoding="utf-8")
    return code, header


def c_text(setup: FilterSetup, name: str) -> str:
    layout = FilterLayout(setup)
    record = setup.records[0]
    tables = {"SETTINGS_TABLE": _settings_table(setup, layout),
              "FIRST_X_TABLE": _row(np.concatenate([record.initial, setup.theta])),
              "FIRST_STD_TABLE": _row(np.concatenate([record.initial_std, setup.theta_std])),
              "VARIANCES_TABLE": _row(record.variance[0]), "FILTER_INIT": f"{name}_init",
              "FILTER_UPDATE": f"{name}_update", "FILTER_COVARIANCE": f"{name}_covariance",
              "FILTER_TYPE": f"{name}_filter", "RESULT_TYPE": f"{name}_result"}
    face = filter_text("filter_export.c")
    for key, text in tables.items():
        face = face.replace(key, text)
    head = f"/* Written by dynident {__version__}; see {name}.h. */\n\n#include \"{name}.h\"\n"
    loop = source_text(setup, update_kernels(setup.method.filter), [_user_units_function(setup)], lane=1)
    return "\n".join([head, loop, face])


def header_text(setup: FilterSetup, name: str) -> str:
    model, sizes = setup.augmented.model, compile_time_sizes(setup)
    words = {key: ", ".join(names) or "none" for key, names in (
        ("inputs", model.inputs), ("outputs", model.outputs), ("states", model.states),
        ("parameters", setup.augmented.names[len(model.states):]))}
    return HEADER.format(
        name=name, upper=name.upper(), guard=f"{name.upper()}_H", model=_without_comment_marks(model.name) or "unnamed",
        version=__version__, facts="\n".join(f"   {line}".rstrip() for line in facts(setup)), memory=memory_size(setup),
        nx=sizes["NX"], nt=sizes["NT"], nu=sizes["NU"], ny=sizes["NY"], nt_size=max(sizes["NT"], 1),
        n=setup.augmented.size, coordinates=_coordinate_note(setup), **words)


def _coordinate_note(setup: FilterSetup) -> str:
    moved = [n for n, c in zip(setup.augmented.names[len(setup.augmented.model.states):], setup.augmented.coordinates,
                               strict=True) if c.kind != "value"]
    return f"; of {', '.join(moved)} in the filter's own coordinates" if moved else ""


def facts(setup: FilterSetup) -> list[str]:
    """Which model, which discretization, how many operations: lines for the header."""
    model, method, integrator = setup.augmented.model, setup.method, setup.integrator
    free = setup.augmented.names[len(model.states):]
    step = operation_counts(model, integrator.name, free, jacobian=method.filter != "unscented")
    ways = {"horizon": f"moving horizon of {method.horizon} samples"}
    unmeasured = [n for n in model.outputs if n not in setup.problem.experiments[0].outputs]
    derived = "with its Jacobian " if method.filter != "unscented" else ""
    return [f"{_without_comment_marks(n)}' = {_without_comment_marks(text)}"
            for n, text in model.definition()["states"].items()] + [
        "", f"Filter: {ways.get(method.filter, method.filter)}, covariance update '{method.covariance_update}'.",
        f"Discretization: {integrator.name} (order {integrator.order}), steps of at most {setup.max_step:g} s.",
        f"One step {derived}takes {step}.",
        *([f"Not measured in the record: {', '.join(unmeasured)}. Hand over NAN for it: the size of its errors is not "
           "known."] if unmeasured else [])]


def _without_comment_marks(text: str) -> str:
    """Names come from files: nothing in them may end a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\\", " ")


def _user_units_function(setup: FilterSetup) -> ca.Function:
    """Values and slopes in the user's units, of the augmented state."""
    a = ca.SX.sym("a", setup.augmented.size)
    nx = len(setup.augmented.model.states)
    values = [a[i] if i < nx else setup.augmented.coordinates[i - nx].value(a[i]) for i in range(a.numel())]
    slopes = [ca.jacobian(v, a[i]) for i, v in enumerate(values)]
    return ca.Function("dyn_values", [a], [ca.densify(ca.vertcat(*values)), ca.densify(ca.vertcat(*slopes))])


def _settings_table(setup: FilterSetup, layout: FilterLayout) -> str:
    packed = layout.pack_settings(setup)
    single = ("per_sample", "max_step", "gate")
    rows = [f".{key} = {_number(packed[where][0]) if key in single else _row(packed[where])}"
            for key, where in layout.settings.items()]
    return "{\n  " + ",\n  ".join(rows) + "\n}"


def _row(values: np.ndarray) -> str:
    return "{" + ", ".join(_number(v) for v in np.atleast_1d(values)) + "}"


def _number(value: float) -> str:
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _start_warm(setup: FilterSetup, estimate: Estimate) -> FilterSetup:
    binding, problem = setup.problem.bindings[-1], setup.problem
    names = [problem.unknowns[binding.parameter_unknown[i]].name for i in setup.augmented.free]
    coordinates = setup.augmented.coordinates
    theta = np.array([c.coordinate(estimate.values[n]) for n, c in zip(names, coordinates, strict=True)])
    slopes = np.array([abs(float(c.derivative(z))) for c, z in zip(coordinates, theta, strict=True)])
    assert isinstance(estimate.uncertainty, FilterCovariance)
    std = np.array([estimate.uncertainty.std(n) for n in names]) / slopes
    return replace(setup, theta=theta, theta_std=std)
