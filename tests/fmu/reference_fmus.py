"""Reference FMUs: in the manner of the Modelica Association's, written by us in C for what our exporter never does.

Events of all kinds, types other than Float64, arrays, aliases, a Co-Simulation with explicit Euler inside, directional
derivatives that are right for states and 0 for parameters. `sources/frame.c` is the interface around each model.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from fmu_makers import FOLDER, fmpy

from dynident.codegen import compiler
from dynident.fmu.archive import platform_folders

SECOND = {"Float64": "Real", "Int32": "Integer", "Boolean": "Boolean", "Enumeration": "Enumeration", "String": "String"}
NO_EVENTS = """
static void indicators(Model *m, double *z) { (void)m; (void)z; }
static int event(Model *m, double *next, int *end) { (void)m; (void)next; (void)end; return 0; }
static int step_event(Model *m) { (void)m; return 0; }
"""
NO_SLOPES = "static int slope(Model *m, int unknown, int known, double *value) { (void)m; return 0; }\n"


@dataclass(frozen=True)
class V:
    """One variable: 'continuous' unless said; `of` names the state of a rate, `shape` makes an array."""

    name: str
    causality: str = "local"
    variability: str = "continuous"
    start: float | str | None = None
    type: str = "Float64"
    initial: str | None = None
    of: str | None = None
    shape: tuple[int, ...] = ()
    alias: str | None = None
    attributes: dict = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Reference:
    """A model: its variables in the order of their references, its C text and what its description says of it."""

    name: str
    variables: tuple[V, ...]
    code: str
    solver_step: float = 0.01
    indicators: int = 0
    slopes: bool = False
    any_step: bool = True
    steps_matter: bool = False  # completedIntegratorStep is needed
    needs: dict = field(default_factory=dict, hash=False)  # what an output or a rate depends on, by names

    @property
    def states(self) -> list[str]:
        return [v.of for v in self.variables if v.of]


def macro(name: str) -> str:
    return re.sub(r"\W", "_", name)


def source_of(model: Reference, version: int) -> str:
    at, places, lengths = 0, [], []
    for v in model.variables:
        places.append(at)
        lengths.append(prod(v.shape))
        at += prod(v.shape)
    where = dict(zip([v.name for v in model.variables], places, strict=True))
    size = {v.name: prod(v.shape) for v in model.variables}
    states = [where[n] + i for n in model.states for i in range(size[n])]
    rates = [where[v.name] + i for v in model.variables if v.of for i in range(size[v.of])]
    head = [f"#define FMI {version}", f"#define NX {len(states)}", f"#define NZ {model.indicators}", f"#define NV {at}",
            f"#define SOLVER_STEP {model.solver_step!r}", f'#define TOKEN "{{{model.name}}}"',
            "typedef struct { double v[NV + 1], time, begin, stop, next_event, tolerance, step; long steps;",
            "                 int continuous; } Model;",
            *(f"static const int {name}[] = {{{', '.join(map(str, [*values, 0]))}}};" for name, values in (
                ("AT", places), ("LENGTH", lengths), ("STATE", states), ("RATE", rates))),
            *(f"enum {{ at_{macro(n)} = {i} }};\n#define {macro(n)}_ m->v[at_{macro(n)}]" for n, i in where.items())]
    begin = [f"  m->v[{where[v.name] + i}] = {value};" for v in model.variables if v.type != "String"
             and v.start is not None for i, value in enumerate(str(v.start).lower().replace("true", "1").replace(
                 "false", "0").split())]
    starts = "\n".join(["static void start(Model *m) {", *begin, "}"])
    frame = Path(__file__).with_name("sources") / "frame.c"
    return "\n".join(["#include <math.h>", *head, starts, model.code, frame.read_text()])


def description_of(model: Reference, version: int) -> str:
    second = version == 2
    slopes = ' providesDirectionalDerivative="true"' if model.slopes and second else (
        ' providesDirectionalDerivatives="true"' if model.slopes else "")
    not_needed = "" if model.steps_matter or not second else ' completedIntegratorStepNotNeeded="true"'
    needed = ' needsCompletedIntegratorStep="true"' if model.steps_matter and not second else ""
    any_step = ' canHandleVariableCommunicationStepSize="true"' if model.any_step else ""
    indicators = f' numberOfEventIndicators="{model.indicators}"' if second else ""
    token = f'guid="{{{model.name}}}"' if second else f'instantiationToken="{{{model.name}}}"'
    lines = [f'<fmiModelDescription fmiVersion="{version}.0" modelName="{model.name}" {token}{indicators}>',
             f'<ModelExchange modelIdentifier="{model.name}"{slopes}{not_needed}{needed}/>',
             f'<CoSimulation modelIdentifier="{model.name}"{slopes}{any_step}/>']
    if any(v.type == "Enumeration" for v in model.variables):
        items = '<Item name="One" value="1"/><Item name="Two" value="2"/>'
        lines.append(f'<TypeDefinitions><SimpleType name="Option"><Enumeration>{items}</Enumeration></SimpleType>'
                     "</TypeDefinitions>" if second else
                     f'<TypeDefinitions><EnumerationType name="Option">{items}</EnumerationType></TypeDefinitions>')
    lines += ['<DefaultExperiment startTime="0" stopTime="3"/>', "<ModelVariables>"]
    if not second:
        lines.append(f'<Float64 name="time" valueReference="{len(model.variables)}" causality="independent" '
                     'variability="continuous"/>')
    lines += [_variable2(model, i, v) if second else _variable3(model, i, v) for i, v in enumerate(model.variables)]
    lines += ["</ModelVariables>", "<ModelStructure>", *_structure(model, second), "</ModelStructure>",
              "</fmiModelDescription>"]
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + "\n".join(lines)


def _attributes(**given: object) -> str:
    return "".join(f' {key}="{value}"' for key, value in given.items() if value is not None)


def _variable2(model: Reference, i: int, v: V) -> str:
    names = [other.name for other in model.variables]
    outer = _attributes(name=v.name, valueReference=i if v.alias is None else names.index(v.alias),
                        causality=v.causality, variability=v.variability, initial=v.initial)
    inner = _attributes(declaredType="Option" if v.type == "Enumeration" else None,
                        derivative=None if v.of is None else names.index(v.of) + 1, start=v.start, **v.attributes)
    return f"<ScalarVariable{outer}><{SECOND[v.type]}{inner}/></ScalarVariable>"


def _variable3(model: Reference, i: int, v: V) -> str:
    names = [other.name for other in model.variables]
    if v.alias is not None:
        return ""  # stands inside of the variable that it is another name of
    start = v.start if v.type != "String" else None
    text = _attributes(name=v.name, valueReference=i, causality=v.causality, variability=v.variability,
                       initial=v.initial, declaredType="Option" if v.type == "Enumeration" else None,
                       derivative=None if v.of is None else names.index(v.of), start=start, **v.attributes)
    inside = "".join(f'<Dimension start="{n}"/>' for n in v.shape)
    inside += f'<Start value="{v.start}"/>' if v.type == "String" else ""
    inside += "".join(f'<Alias name="{other.name}"/>' for other in model.variables if other.alias == v.name)
    return f"<{v.type}{text}>{inside}</{v.type}>" if inside else f"<{v.type}{text}/>"


def _structure(model: Reference, second: bool) -> list[str]:
    names = [v.name for v in model.variables]
    outputs = [v.name for v in model.variables if v.causality == "output" and (second or v.alias is None)]
    rates = [v.name for v in model.variables if v.of]
    unknown = [v.name for v in model.variables if v.of or (v.name in outputs and v.initial is None)]

    def line(tag: str, name: str) -> str:
        place = names.index(name)
        known = model.needs.get(name)
        needs = None if known is None else " ".join(str(names.index(n) + second) for n in known)
        key = f'index="{place + 1}"' if second else f'valueReference="{place}"'
        return f"<{tag} {key}{_attributes(dependencies=needs)}/>"

    if not second:
        return ([line("Output", n) for n in outputs] + [line("ContinuousStateDerivative", n) for n in rates]
                + [line("InitialUnknown", n) for n in unknown]
                + [f'<EventIndicator valueReference="{names.index(v.name)}"/>' for v in model.variables
                   if v.name.startswith("z") and model.indicators])
    blocks = (("Outputs", outputs), ("Derivatives", rates), ("InitialUnknowns", unknown))
    return [f"<{tag}>{''.join(line('Unknown', n) for n in some)}</{tag}>" for tag, some in blocks if some]


@functools.cache
def reference_fmu(model: Reference, version: int = 3) -> Path:
    """The FMU as a file; made once."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    text = source_of(model, version)
    (folder / "model.c").write_text(text)
    headers = Path(fmpy.__file__).parent / "c-code"
    asked = re.findall(rf"fmi{version}\w+TYPE +(fmi{version}\w+);", (headers / f"fmi{version}Functions.h").read_text())
    ours = set(re.findall(rf"fmi{version}\w+", text)) | {f"fmi{version}{n}" for n in re.findall(r"F\((\w+)\)", text)}
    ours |= {f"fmi3{verb}{kind}" for kind in re.findall(r"ACCESS\((\w+), fmi3", text) for verb in ("Get", "Set")}
    (folder / "rest.c").write_text("".join(f"int {name}(void) {{ return 3; }}\n" for name in asked if name not in ours))
    made = subprocess.run([compiler.compiler(), "-O1", "-fPIC", "-shared", "-w", f"-I{headers}", "model.c", "rest.c",
                           "-o", "model.so", "-lm"], cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    second, third, suffix = platform_folders()
    path = folder / f"{model.name}.fmu"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", description_of(model, version))
        archive.write(folder / "model.so", f"binaries/{second if version == 2 else third}/{model.name}{suffix}")
        archive.writestr("binaries/other-platform/readme.txt", "code for another machine")
    return path


DAHLQUIST = Reference("Dahlquist", (
    V("x", "output", start=1.0, initial="exact"), V("der_x", of="x"), V("k", "parameter", "fixed", 1.0, initial="exact")),
    "static void compute(Model *m) { der_x_ = -k_ * x_; }" + NO_EVENTS + NO_SLOPES, solver_step=0.1,
    needs={"x": ["x"], "der_x": ["x"]})

VAN_DER_POL = Reference("VanDerPol", (
    V("x0", "output", start=2.0, initial="exact"), V("der_x0", of="x0"), V("x1", "output", start=0.0, initial="exact"),
    V("der_x1", of="x1"), V("mu", "parameter", "fixed", 1.0, initial="exact")), """
static void compute(Model *m) { der_x0_ = x1_; der_x1_ = mu_ * ((1 - x0_ * x0_) * x1_) - x0_; }
/* right for states; 0 with status OK for the parameter, as the official one does */
static int slope(Model *m, int unknown, int known, double *value) {
  *value = unknown == known;
  if (unknown == at_der_x0) *value = known == at_x1;
  if (unknown == at_der_x1) *value = known == at_x0 ? -2 * mu_ * x0_ * x1_ - 1 : known == at_x1 ? mu_ * (1 - x0_ * x0_) : 0;
  return 1;
}
""" + NO_EVENTS, solver_step=0.01, slopes=True,
    needs={"x0": ["x0"], "x1": ["x1"], "der_x0": ["x1"], "der_x1": ["x0", "x1"]})

BALL = Reference("BouncingBall", (
    V("h", "output", start=1.0, initial="exact", attributes={"min": "0"}), V("der_h", of="h"),
    V("v", "output", start=0.0, initial="exact"), V("der_v", of="v"), V("g", "parameter", "fixed", -9.81, initial="exact"),
    V("e", "parameter", "tunable", 0.7, initial="exact", attributes={"min": "0.5", "max": "1"}),
    V("v_min", "local", "constant", 0.1, initial="exact"), V("z", "local")), """
static void compute(Model *m) { der_h_ = v_; der_v_ = g_; z_ = h_; }
static void indicators(Model *m, double *z) { *z = h_ == 0 && v_ > 0 ? 1 : h_; }
static int event(Model *m, double *next, int *end) {
  if (h_ > 0 || v_ > 0) return 0;
  h_ = 2.2250738585072014e-308;
  v_ = -e_ * v_;
  if (v_ < v_min_) { v_ = 0; g_ = 0; }
  return 1;
}
static int step_event(Model *m) { (void)m; return 0; }
""" + NO_SLOPES, indicators=1, needs={"h": ["h"], "v": ["v"], "der_h": ["v"], "der_v": []})

STAIR = Reference("Stair", (V("counter", "output", "discrete", 1, "Int32", "exact"),), """
static void compute(Model *m) { (void)m; }
static void indicators(Model *m, double *z) { (void)m; (void)z; }
static int event(Model *m, double *next, int *end) {
  if (m->time >= m->next_event) { counter_++; }
  m->next_event = *next = counter_;
  *end = counter_ >= 10;
  return 0;
}
static int step_event(Model *m) { (void)m; return 0; }
""" + NO_SLOPES, solver_step=0.2)

FEEDTHROUGH = Reference("Feedthrough", (
    V("real_fixed_param", "parameter", "fixed", 0.0, initial="exact"),
    V("real_tunable_param", "parameter", "tunable", 0.0, initial="exact"),
    V("int_param", "parameter", "fixed", 3, "Int32", "exact"),
    V("bool_param", "parameter", "fixed", "true", "Boolean", "exact"),
    V("string_param", "parameter", "fixed", "Set me!", "String", "exact"),
    V("real_in", "input", start=0.0), V("real_out", "output"), V("real_discrete_in", "input", "discrete", 0.0),
    V("real_discrete_out", "output", "discrete"), V("int_in", "input", "discrete", 0, "Int32"),
    V("int_out", "output", "discrete", None, "Int32"), V("bool_in", "input", "discrete", "false", "Boolean"),
    V("bool_out", "output", "discrete", None, "Boolean"), V("enum_in", "input", "discrete", 1, "Enumeration"),
    V("enum_out", "output", "discrete", None, "Enumeration"), V("also_real_out", "output", alias="real_out")), """
static void compute(Model *m) {
  const double a = real_fixed_param_, b = real_tunable_param_;
  real_out_ = real_in_ + a + b;
  real_discrete_out_ = real_discrete_in_;
  int_out_ = int_in_ + (bool_param_ ? 0 : int_param_);
  bool_out_ = bool_in_;
  enum_out_ = enum_in_;
}
""" + NO_EVENTS + NO_SLOPES)
NAMED = Reference("Named", (
    V("label", "parameter", "fixed", "Set me!", "String", "exact"), V("x", "output", start=1.0, initial="exact"),
    V("der_x", of="x"), V("local_gain", "local", "continuous", 2.0, initial="exact"), V("letters", "output")), """
static void compute(Model *m) { der_x_ = -local_gain_ * x_; letters_ = label_; }
""" + NO_EVENTS + NO_SLOPES)
PENDULUM = Reference("FrictionPendulum", (
    V("angle", "output", start=1.0, initial="exact"), V("der_angle", of="angle"),
    V("rate", "output", start=0.0, initial="exact"), V("der_rate", of="rate"),
    V("inertia", "parameter", "fixed", 1.0, initial="exact"),
    V("friction", "parameter", "fixed", 0.3, initial="exact")), """
#define ADAPTIVE
static void compute(Model *m) {
  der_angle_ = rate_;
  der_rate_ = (-9.81 * sin(angle_) - friction_ * tanh(rate_ / 0.05)) / inertia_;
}
""" + NO_EVENTS + NO_SLOPES)
SINGLE = Reference("Single", (
    V("gain", "parameter", "tunable", 1.5, "Float32", "exact"), V("small", "parameter", "tunable", 7, "UInt8", "exact"),
    V("u", "input", "continuous", 0.0, "Float32"), V("y", "output", "continuous", None, "Float32"),
    V("n", "input", "discrete", 0, "Int16"), V("twice", "output", "discrete", None, "Int64")),
    "static void compute(Model *m) { y_ = (float)(gain_ * u_); twice_ = 2 * n_; }" + NO_EVENTS + NO_SLOPES)

STATE_SPACE = Reference("StateSpace", (
    V("A", "parameter", "tunable", "-1 2 0 -3", initial="exact", shape=(2, 2)),
    V("B", "parameter", "tunable", "1 0 0 1", initial="exact", shape=(2, 2)),
    V("C", "parameter", "fixed", "1 0 0 1", initial="exact", shape=(2, 2)), V("u", "input", start="0 0", shape=(2,)),
    V("y", "output", shape=(2,)), V("x", "local", start="0 0", initial="exact", shape=(2,)),
    V("der_x", of="x", shape=(2,))), """
static void compute(Model *m) {
  const double *A = &A_, *B = &B_, *C = &C_, *u = &u_, *x = &x_;
  int i;
  for (i = 0; i < 2; i++) {
    (&der_x_)[i] = A[2 * i] * x[0] + A[2 * i + 1] * x[1] + B[2 * i] * u[0] + B[2 * i + 1] * u[1];
    (&y_)[i] = C[2 * i] * x[0] + C[2 * i + 1] * x[1];
  }
}
""" + NO_EVENTS + NO_SLOPES)

WHEEL = Reference("Wheel", (
    V("angle", "output", start=0.0, initial="exact"), V("der_angle", of="angle"), V("turns", "output", "discrete", 0, "Int32",
                                                                                    "exact"),
    V("speed", "parameter", "tunable", 5.0, initial="exact")), """
static void compute(Model *m) { der_angle_ = speed_; }
static void indicators(Model *m, double *z) { (void)m; (void)z; }
/* the angle is kept below a turn by an event that the end of a step asks for */
static int event(Model *m, double *next, int *end) {
  if (angle_ < 1) return 0;
  while (angle_ >= 1) { angle_ -= 1; turns_++; }
  return 1;
}
static int step_event(Model *m) { return angle_ >= 1; }
""" + NO_SLOPES, steps_matter=True)

STIFF = Reference("Stiff", (
    V("fast", "output", start=0.0, initial="exact"), V("der_fast", of="fast"), V("u", "input", start=0.0),
    V("rate", "parameter", "tunable", 1e6, initial="exact")), """
static void compute(Model *m) { der_fast_ = rate_ * (u_ - fast_); }
static int slope(Model *m, int unknown, int known, double *value) {
  if (unknown != at_der_fast) { *value = unknown == known; return 1; }
  *value = known == at_fast ? -rate_ : known == at_u ? rate_ : known == at_rate ? u_ - fast_ : 0;
  return 1;
}
""" + NO_EVENTS, slopes=True, needs={"fast": ["fast"], "der_fast": ["fast", "u"]})
SLOW = replace(STIFF, name="Slow", variables=tuple(
    replace(v, start=2.0) if v.name == "rate" else v for v in STIFF.variables))
