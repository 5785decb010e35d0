"""Events: run a hybrid model along a record, through the transitions between its modes, with exact sensitivities.

A step of the scheme ends where a transition begins to hold; that place is located by shorter and shorter steps of the
same scheme, to 1e-14 of a step. The loop itself is `integrators/events.c` behind `event_location.c`, with the formulas;
`events_interpreted.py` is the same without a compiler. Steps are those of an explicit scheme, or those that `radau5` chooses.
"""

from __future__ import annotations

import ctypes
import hashlib

import casadi as ca
import numpy as np

from dynident.codegen.c_source import QUICK, c_source, kernel_text, static_source
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import address, addresses
from dynident.errors import NotSupported, SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.mode_functions import mode_rates
from dynident.integrators.propagation import FRONT, NO_WAY, Propagation, Propagator, allocate
from dynident.integrators.rate_functions import SPARSE_TEXT, STEP_TEXTS
from dynident.integrators.scheme import Adaptive, Explicit, Integrator, StepFunction
from dynident.integrators.step_functions import dense_function, output_functions, symbols
from dynident.models.equations import EquationModel

LOOP = "integrators/event_location.c", "integrators/events.c"
RATES = "integrators/mode_rates.c"
ADAPTIVE_LOOP = "integrators/radau5.c", "integrators/radau5_events.c", *LOOP
TEXTS = FRONT, "sparse_algebra.c", SPARSE_TEXT, RATES, *STEP_TEXTS, *ADAPTIVE_LOOP
ARRAYS = "step", "step_jac", "guards", "entry", "guard_jac", "reset", "reset_jac"
NOT_FINITE, TOO_MANY, NO_MODE, TOUCHED, UNDEFINED, NO_STEP = 1, 2, 3, 4, 5, 6  # why a march ended early, as in events.c


def event_propagator_for(model: EquationModel, integrator: Integrator, free: tuple[int, ...]) -> Propagator:
    """The fastest march through events that this machine can have."""
    recipe = EventPropagatorKey(model, require_events(integrator), free)
    compiled = _compiled(recipe)
    if compiled is not None:
        return compiled
    return interpreted_events(recipe)


def interpreted_events(recipe: EventPropagatorKey) -> Propagator:
    """The same march without a compiler."""
    if isinstance(recipe.integrator, Adaptive):
        from dynident.integrators.radau5_events_interpreted import InterpretedRadauEvents

        return InterpretedRadauEvents(recipe)
    from dynident.integrators.events_interpreted import InterpretedEventPropagator

    return InterpretedEventPropagator(recipe)


def require_events(integrator: Integrator) -> Explicit | Adaptive:
    """The scheme, if it can end a step at an event."""
    if isinstance(integrator, Explicit) and not integrator.position_velocity:
        return integrator
    if isinstance(integrator, Adaptive) and not integrator.plugin:
        return integrator
    raise NotSupported(f"'{integrator.name}' cannot follow the modes of a hybrid model: to end a step at an event "
                       "takes radau5 or an explicit scheme for any model. Use radau5, runge_kutta, simpson, heun or euler.")


class EventPropagatorKey:
    """A model, a scheme and the free parameters; equal where their content is."""

    def __init__(self, model: EquationModel, integrator: Explicit | Adaptive, free: tuple[int, ...]):
        self.model, self.integrator, self.free = model, integrator, free
        self.key = f"{model.content_hash()} {integrator.name} {free}"
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        self.leaving = [[k for k, each in enumerate(model.transitions) if each.source == name] for name in model.modes]
        self.targets = [model.modes.index(each.target) for each in model.transitions]

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventPropagatorKey) and other.key == self.key

    def functions(self) -> dict[str, list[ca.Function]]:
        """The functions that events.c names, each a list over modes or transitions; without their `dyn_`."""
        model = self.model
        s = symbols(model)
        t, x, u, p = s["t"], s["x"], s["u0"], s["p"]
        du, begin, end = ca.SX.sym("du", u.numel()), ca.SX.sym("s0"), ca.SX.sym("s1")
        place, span = [t, begin, x, u, du, p], [t, begin, end, x, u, du, p]
        q = ca.vertcat(x, p[list(self.free), 0], begin)  # what a derivative is taken by
        here = t + begin, x, u + begin * du, p
        made: dict[str, list[ca.Function]] = {name: [] for name in ARRAYS}

        def add(name: str, arguments: list[ca.SX], results: list[ca.SX]) -> None:
            made[name].append(dense_function(f"dyn_{name}_{len(made[name])}", arguments, results))

        for name, leaving in zip(model.modes, self.leaving, strict=True):
            rate = model.mode(name).rate
            if isinstance(self.integrator, Explicit):
                after = self.integrator.next_state(
                    StepFunction(rate, t + begin, end - begin, x, u + begin * du, u + end * du, p))
                add("step", span, [after])
                add("step_jac", span, [after, ca.jacobian(after, ca.vertcat(q, end))])
            guards = ca.vertcat(*[model.transitions[k].guard(*here) for k in leaving]) if leaving else ca.SX(-1)
            slopes = ca.jtimes(guards, x, rate(*here)) + ca.jacobian(guards, begin)
            add("guards", place, [guards])
            add("entry", place, [guards, slopes])
        for each in model.transitions:
            guard, reset = each.guard(*here), each.reset(*here)
            add("guard_jac", place, [guard, ca.jacobian(guard, q)])
            add("reset", place, [reset])
            add("reset_jac", place, [reset, ca.jacobian(reset, q)])
        possible = ca.vertcat(*[model.mode(name).possible(t, x, u, p) for name in model.modes])
        made["possible"] = [dense_function("dyn_possible", [t, x, u, p], [possible])]
        made["out"], made["out_jac"] = ([f] for f in output_functions(model, s, self.free))
        return made


@remembered(maxsize=64)
def _compiled(recipe: EventPropagatorKey) -> CompiledEventPropagator | None:
    ours = hashlib.sha256(kernel_text(*TEXTS).encode()).hexdigest()
    library = load_library(f"events {ours} casadi {ca.__version__} {recipe.key}", lambda: _source(recipe), QUICK)  # type: ignore[attr-defined]
    return None if library is None else CompiledEventPropagator(recipe, library)


def _source(recipe: EventPropagatorKey) -> str:
    """Generated functions, sizes and tables, and the loop."""
    model, made = recipe.model, recipe.functions()
    most = max(1, *(len(leaving) for leaving in recipe.leaving))
    sizes = {"NX": len(model.states), "NU": len(model.inputs), "NP": len(model.parameters), "NF": len(recipe.free),
             "NY": len(model.outputs), "NM": len(model.modes), "NT": max(1, len(model.transitions)), "NG": most}
    rates = mode_rates(model, recipe.free) if isinstance(recipe.integrator, Adaptive) else None
    arrays = {name: made[name] for name in ARRAYS} | (rates.functions if rates else {})
    functions = [f for group in (made | arrays).values() for f in group]
    lines = [f"#define {name} {size}" for name, size in (sizes | (rates.sizes() if rates else {"ADAPTIVE": 0})).items()]
    lines.append("typedef int (*evaluator)(const casadi_real **, casadi_real **, casadi_int *, casadi_real *, int);")
    lines += [f"static const evaluator {name.upper()}[] = {{{', '.join(f.name() for f in group) or '0'}}};"
              for name, group in arrays.items()]
    padded = [leaving + [-1] * (most - len(leaving)) for leaving in recipe.leaving]
    lines.append(f"static const int COUNT[] = {_braces(len(leaving) for leaving in recipe.leaving)};")
    lines.append(f"static const int LEAVING[][NG] = {{{', '.join(_braces(row) for row in padded)}}};")
    lines.append(f"static const int TARGET[] = {_braces(recipe.targets or [-1])};")
    if rates is None:
        return "\n".join([kernel_text(FRONT), c_source(functions), *lines, kernel_text(*LOOP)])
    chosen = f"#define RELATIVE_TOLERANCE {recipe.integrator.relative_tolerance!r}"  # type: ignore[union-attr]
    return "\n".join([kernel_text(FRONT), static_source(functions), *lines, chosen, kernel_text("sparse_algebra.c", RATES),
                      rates.stage_source(), kernel_text(*STEP_TEXTS, *ADAPTIVE_LOOP)])


def _braces(numbers: object) -> str:
    return f"{{{', '.join(str(number) for number in numbers)}}}"  # type: ignore[attr-defined]


class CompiledEventPropagator:
    """The loop in C around the generated functions."""

    def __init__(self, recipe: EventPropagatorKey, library: ctypes.CDLL):
        self.recipe, self.library = recipe, library
        self.call = library.dynident_events
        self.call.restype = ctypes.c_longlong
        self.call.argtypes = [ctypes.c_longlong, *[ctypes.c_void_p] * 9, ctypes.c_int, ctypes.c_int,
                              *[ctypes.c_void_p] * 7]

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        out = allocate(grid, len(first) - 1, self.recipe.sizes, sensitivities, reuse, modes=True)
        first = np.ascontiguousarray(first, dtype=np.int64)
        nodes = np.ascontiguousarray(nodes, dtype=float)
        p = np.ascontiguousarray(p, dtype=float)
        report = np.zeros(3)
        arrays = [first, grid.time, grid.substeps, grid.u_begin, grid.u_end, grid.u_node, p, nodes, grid.output_mask]
        results = [out.states, out.outputs, out.jacobian, out.end_states, out.end_jacobian, out.modes, report]
        bad = self.call(len(first) - 1, *addresses(*arrays), grid.first_mode, int(sensitivities),
                        *[None if a is None else address(a) for a in results])
        if bad >= 0:
            why, time, last = report
            segment = min(int(np.searchsorted(first, bad, side="right")), len(nodes)) - 1
            raise event_error(self.recipe.model, int(why), float(time), int(bad), int(last), nodes[segment])
        return out


def event_error(model: EquationModel, why: int, time: float, node: int, last: int, state: np.ndarray) -> SimulationDiverged:
    """Why the modes could not be followed."""
    at = ", ".join(f"{name} = {value:g}" for name, value in zip(model.states, state, strict=True))
    taken = model.transitions[last] if last >= 0 else None
    said = f"{taken.source} -> {taken.target}" if taken else ""
    what = {
        NOT_FINITE: "the simulation is no longer finite",
        TOO_MANY: f"transitions follow each other without time passing (the last is {said}; where the system comes to "
                  "rest this way, add a mode in which it rests)",
        NO_MODE: f"no mode is possible with {at} (no invariant holds; correct them, or say in which mode the "
                 "experiment begins)",
        TOUCHED: f"the condition of {said} is touched but not crossed (the result has no derivative there)",
        UNDEFINED: f"the condition \"{taken.when if taken else ''}\" of {said} is no longer a number (write it so that "
                   "it has a value on both sides of its border)",
        NO_STEP: NO_WAY}
    return SimulationDiverged(time, node, what=what[why])
