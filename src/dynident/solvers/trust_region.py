"""Trust region, compiled: steps of Levenberg-Marquardt on one record, each in one call.

`trust_region.c` does what `iterate` of least_squares.py and `TrustRegion` of globalization.py do, as long as nothing out of the
ordinary happens; they are its twin, they decide when a search ends, and they go on where it hands a point back. A small fit is
some thirty simulations of a few microseconds: around each, Python takes ten times as long.
"""

from __future__ import annotations

import ctypes
import hashlib

import numpy as np

from dynident._util.frozen import changed
from dynident.codegen.c_source import kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import address
from dynident.linalg.compiled_arrowhead import PlacedBlocks
from dynident.linalg.condensing import blocks_by_role
from dynident.linalg.finite_problem import FiniteProblem, PlainRecord, Variables
from dynident.solvers.globalization import LEAST_DAMPING, MOST_DAMPING, TrustRegion
from dynident.solvers.least_squares import LeastSquaresLoop
from dynident.solvers.search_state import SearchState, condense, rounding_only
from dynident.solvers.solver_result import Iteration, Watch
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    COST_ROUNDING,
    LONGEST_LOG_STEP,
    MULTIPLIER_TOLERANCE,
    ROUNDING_STEP,
    SIMULATION_ROUNDING,
    SINGULAR_VALUE,
    SUFFICIENT_REDUCTION,
    UNOBSERVABLE_STEP,
)

POINTER, COUNT, NUMBER = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_double


class CompiledRecord(ctypes.Structure):
    """The problem as `trust_region.c` reads it; the same fields in the same order."""

    _fields_ = [*((name, POINTER) for name in ("march",)),
                *((name, COUNT) for name in ("segments", "nodes", "nx", "nf", "ny", "lead")),
                *((name, POINTER) for name in ("first", "time", "substeps", "u_begin", "u_end", "u_node", "wanted", "active",
                                               "measured", "weight", "state_scale", "p", "starts")),
                *((name, COUNT) for name in ("unknowns", "problem_unknowns", "free_nodes", "p_count", "x_count")),
                *((name, POINTER) for name in ("p_place", "p_unknown", "x_place", "x_unknown", "lower", "upper", "scale",
                                               "reach", "value_lower", "value_upper", "log")),
                *((name, COUNT) for name in ("blocks", "k", "s", "count", "bare", "bare_count")),
                *((name, POINTER) for name in ("which", "numbers", "columns", "own", "shared", "bare_which", "bare_numbers",
                                               "bare_columns", "follows", "X", "Y", "J", "X_end", "S_end", "no_links")),
                *((name, NUMBER) for name in ("rounding_cost", "residuals", "memory", "least", "most_damping", "least_damping",
                                              "sufficient", "step_tolerance", "rounding_step", "cost_rounding",
                                              "simulation_rounding", "singular", "multiplier", "unobservable"))]


class SearchPoint(ctypes.Structure):
    """Where the search stands, as `trust_region.c` reads and writes it."""

    _fields_ = [*((name, POINTER) for name in ("xi", "column_scale", "top", "border", "bounds")),
                *((name, NUMBER) for name in ("cost", "damping", "growth", "step", "max_defect")),
                *((name, COUNT) for name in ("simulations", "jacobians", "doubtful"))]


def compiled_steps(problem: FiniteProblem, memory: float, least: float, step_tolerance: float) -> CompiledTrustRegion | None:
    """None where there is no compiler, or the problem is not that of one plain record."""
    record, coordinates = problem.plain_record(), problem.coordinates
    if record is None or not np.all(np.isfinite(coordinates.scale)) or (library := _library()) is None:
        return None
    shared, groups = blocks_by_role(len(problem.names), record.unknown)
    main, *others = sorted(groups, key=lambda group: -group.k)  # a first state that is known makes a block without own unknowns
    if len(others) > 1 or any(group.k for group in others):
        return None
    bare = others[0] if others else None
    return CompiledTrustRegion(library, problem, record, shared, (main, bare), (memory, least, step_tolerance))


@remembered()
def _library() -> ctypes.CDLL | None:
    linear_algebra = "linalg/chain_qr.c", "linalg/arrowhead.c", "linalg/bounded_least_squares.c"
    text = kernel_text("vectors.c", "householder.c", *linear_algebra, "solvers/trust_region.c")
    library = load_library(f"trust region {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        library.dynident_trust_region_step.argtypes = [POINTER, POINTER]
    return library


class CompiledTrustRegion:
    """Takes as many ordinary steps as there are, and says where that led."""

    def __init__(self, library: ctypes.CDLL, problem: FiniteProblem, record: PlainRecord, shared: np.ndarray,
                 groups: tuple[PlacedBlocks, PlacedBlocks | None], options: tuple[float, float, float]):
        self.step, self.problem, self.shared = library.dynident_trust_region_step, problem, shared
        group, bare = groups
        of_bare = {} if bare is None else {"bare_which": bare.which, "bare_numbers": bare.numbers, "bare_columns": bare.columns}
        nodes, nx, nf, ny = record.measured.shape[0], *record.sizes
        segments, c = len(record.segment_starts) - 1, problem.coordinates
        value_bounds = c.value_bounds if c.value_bounds is not None else (c.lower, c.upper)
        own = record.problem_unknowns
        self._arrays: dict[str, np.ndarray] = {  # kept alive as long as their addresses are in use
            "first": np.asarray(record.segment_starts, np.int64), "measured": record.measured, "weight": record.weight,
            "state_scale": record.state_scale, "p": record.parameters.copy(), "starts": record.nodes.copy(),
            **dict(zip(("p_place", "p_unknown", "x_place", "x_unknown"), record.places, strict=True)),
            "lower": c.lower, "upper": c.upper, "scale": c.scale, "reach": np.where(c.log, LONGEST_LOG_STEP, np.inf),
            "value_lower": value_bounds[0][:own], "value_upper": value_bounds[1][:own], "log": c.log.astype(np.uint8),
            "which": group.which, "numbers": group.numbers, "columns": group.columns, "own": group.own, "shared": shared,
            **of_bare, "follows": record.unknown, "X": np.empty((nodes, nx)), "Y": np.full((nodes, ny), np.nan),
            "J": np.zeros((nodes, ny, nx + nf)), "X_end": np.empty((segments, nx)), "S_end": np.empty((segments, nx, nx + nf)),
            "no_links": np.zeros((segments, nx, nx + nf))}
        self._arrays = {name: np.ascontiguousarray(array, np.int64 if array.dtype.kind == "i" else None)
                        for name, array in self._arrays.items()}
        grid = dict(zip(("time", "substeps", "u_begin", "u_end", "u_node", "wanted", "active"), record.grid.pointers,
                        strict=True))
        lead = -1 if record.grid.unknown_first is None else len(record.grid.unknown_first)
        memory, least, step_tolerance = options
        self.record = CompiledRecord(
            march=record.march, segments=segments, nodes=nodes, nx=nx, nf=nf, ny=ny, lead=lead, **grid,
            **{name: address(array) for name, array in self._arrays.items()}, unknowns=len(problem.names),
            problem_unknowns=own, free_nodes=record.free_nodes, p_count=len(record.places[0]), x_count=len(record.places[2]),
            blocks=group.blocks, k=group.k, s=shared.size, count=group.numbers.size,
            bare=bare.blocks if bare else 0, bare_count=bare.numbers.size if bare else 0, rounding_cost=problem.rounding_cost,
            residuals=problem.residual_count, memory=memory, least=least, most_damping=MOST_DAMPING,
            least_damping=LEAST_DAMPING, sufficient=SUFFICIENT_REDUCTION, step_tolerance=step_tolerance,
            rounding_step=ROUNDING_STEP, cost_rounding=COST_ROUNDING, simulation_rounding=SIMULATION_ROUNDING,
            singular=SINGULAR_VALUE, multiplier=MULTIPLIER_TOLERANCE, unobservable=UNOBSERVABLE_STEP)

    def advance(self, loop: LeastSquaresLoop, state: SearchState, most: int, done: int, watch: Watch | None
                ) -> tuple[SearchState, int]:
        """The state after at most so many steps, and how many they were; `done` before."""
        problem, rows, s = self.problem, state.condensed.rows, self.shared.size
        xi, column_scale, bounds = state.variables.unknowns.copy(), state.column_scale.copy(), np.zeros(rows.unknowns, np.int64)
        top, border = rows.stacks[0].rows.copy() if rows.stacks else np.zeros(0), np.zeros((s + 1, s + 1))
        border[:s] = rows.last.rows
        at = SearchPoint(*(address(array) for array in (xi, column_scale, top, border, bounds)), state.evaluation.squares,
                         state.regularization, state.growth)
        history, interrupted = list(state.history), False
        record, point = ctypes.addressof(self.record), ctypes.addressof(at)
        try:
            while len(history) - len(state.history) < most and not at.doubtful and (moved := self.step(record, point)):
                if moved < 0:
                    raise MemoryError("a step is out of memory")
                values = tuple(problem.coordinates.values(xi).tolist())
                history.append(Iteration(len(history), at.cost, at.step, at.max_defect, values))
                if watch is not None:
                    watch(history[-1])
        except KeyboardInterrupt:
            interrupted = True
        problem.counts["simulations"] += at.simulations
        problem.counts["jacobians"] += at.jacobians
        state, taken = changed(state, regularization=at.damping, growth=at.growth), len(history) - len(state.history)
        if taken:
            state = self._at(state, Variables(xi, state.variables.nodes), column_scale, bounds, tuple(history))
        if interrupted:
            return state.ended(False, Status.of(StatusCode.INTERRUPTED)), taken
        if at.doubtful and isinstance(loop.globalization, TrustRegion):
            state = loop.globalization.end_if_stationary(problem, loop, state, done + taken)
        return state, taken

    def _at(self, state: SearchState, variables: Variables, column_scale: np.ndarray, bounds: np.ndarray,
            history: tuple[Iteration, ...]) -> SearchState:
        condensed = condense(self.problem.linearize(variables, state.spare), with_nodes=False)
        self.problem.counts["jacobians"] -= 1  # of a point that was counted when it was reached
        scale = self.problem.coordinates.scale
        return changed(state, variables=variables, condensed=condensed, spare=state.condensed.linear.workspace,
                       column_scale=column_scale, variable_scale=np.where(scale > 0, scale, 1.0), active_bounds=bounds,
                       history=history, at_rest=rounding_only(self.problem, variables, condensed))


