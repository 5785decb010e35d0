"""Check: what the data can tell, before any fit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.black_box.method import linearize_by_differences
from dynident.errors import NotSupported, SimulationDiverged, StartDiverged
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.linalg.rank import tolerance_for_growing_rows, unit_columns
from dynident.methods.indistinguishable import UnidentifiableGroup, unidentifiable_groups
from dynident.methods.linearize_at import linearize_at, with_secant_columns
from dynident.methods.noise_estimation import initial_noise_std, std_from_bounds
from dynident.methods.output_map import OutputMap, Outputs, null_space, touched
from dynident.methods.points_around import Region, beside, region_around
from dynident.methods.rank_by_differences import smallest_by_differences
from dynident.models.equations import EquationModel
from dynident.problem.model import is_robot
from dynident.problem.parameter import Transforms, transforms_of
from dynident.problem.problem import Problem
from dynident.solvers.safeguards import WAYS_OUT
from dynident.statistics.active_bounds import ActiveConstraints
from dynident.statistics.diagnostic import SEVERITIES, Check, Diagnostic, DiagnosticCode
from dynident.statistics.diagnostics import diagnose
from dynident.statistics.identifiability import identifiability, typical_values
from dynident.tolerances import CONSTRAINT_CHECK, NULL_SPACE_COMPONENT, SINGULAR_VALUE
from dynident.transcription.parameter_constraints import parameter_constraints
from dynident.transcription.transcribed_problem import SimulatedProblem
from dynident.verbs.structural_identifiability import IDENTIFIABILITY_SEED, structural_region

AS_EXACT_AS_DATA = 1.0  # an equality as one more measurement: enough for the rank, and it makes nothing look collinear
FIX_IT = "Fix it (free=False), or leave it out of the model."
FIX_ONE = "Fix one of them (free=False), give it a prior, or measure something that tells them apart."
UNDETERMINED = (DiagnosticCode.UNIDENTIFIABLE, DiagnosticCode.NO_EFFECT)  # as derivatives alone say it


@single_thread()
def check(problem: Problem) -> Check:
    """What the data can tell, before any fit: excitation, rank, collinear groups, constraints, scaling, sampling, with advice.

    The model is linearised at the start values. See the manual, howto/check.

    Parameters
    ----------
    problem : Problem
        Model, records and unknowns.

    Returns
    -------
    Check
        Findings, most severe first; `ok` where none of them is an error.

    Raises
    ------
    ProblemError
        Where the model cannot be simulated at the start values.
    NotSupported
        For a robot, whose torques say it in the fit itself.

    Examples
    --------
    >>> import dynident as di
    >>> twice = di.EquationModel(states={"x": "-a*b*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
    >>> found = di.check(di.Problem(twice, [record], [di.Parameter("a", start=1), di.Parameter("b", start=1)]))
    >>> found.ok
    False
    """
    if is_robot(problem.model):
        raise NotSupported("check() linearises a simulation, and an arm is identified without one: inverse_dynamics() takes a "
                           "second and says itself what the torques tell (estimate.base).")
    by_differences = not isinstance(problem.model, EquationModel) or bool(problem.filtered_outputs)
    finite, at = linearize_by_differences(problem) if by_differences else (None, linearization_at_start(problem))
    at, jumps = (at, []) if by_differences else _with_jumps(problem, at)
    coordinates = transforms_of(problem, at.values)
    constraints = ActiveConstraints.at(problem, coordinates, coordinates.coordinates(at.values)).equalities()
    tied, _ = constraints.append_as_measurements(at, AS_EXACT_AS_DATA)
    found = diagnose(problem, tied, SINGULAR_VALUE if finite is None else _smallest(problem, finite, tied)).findings
    if not by_differences:
        names = [name for finding in jumps for name in finding.names]
        found = (*_identifiability(problem, at.values, names), *(f for f in found if f.code not in UNDETERMINED))
    found = (*_contradictions(problem, coordinates, coordinates.coordinates(at.values)), *jumps, *found)
    return Check(tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))))


def _with_jumps(problem: Problem, at: ResidualJacobian) -> tuple[ResidualJacobian, list[Diagnostic]]:
    """With differences where unknowns act in jumps, which no derivative shows, and a word on each of them."""
    jacobian, found = with_secant_columns(problem, at, functools.partial(linearization_at_start, problem))
    return ResidualJacobian.dense(at.values, at.residuals, jacobian, at.rows), [
        Diagnostic.of(DiagnosticCode.PIECEWISE_CONSTANT, [problem.names[i]], ways_out=WAYS_OUT) for i in found]


def _smallest(problem: Problem, finite: SimulatedProblem, at: ResidualJacobian) -> float:
    """The relative singular value that counts as zero among differences; what they cannot tell, simulations decide."""
    if not np.all(np.isfinite(at.jacobian)):
        return SINGULAR_VALUE
    scales = typical_values(problem, at.values)

    def null_space(smallest: float) -> np.ndarray:
        return identifiability(problem.names, at.values, scales, at.jacobian, smallest).null_space

    by_differences = smallest_by_differences(finite, at, null_space, SINGULAR_VALUE)
    unit = BlockRows.of(unit_columns(at.jacobian, scales)[0])
    return tolerance_for_growing_rows(unit, range(len(problem.names)), by_differences)


def _contradictions(problem: Problem, coordinates: Transforms, start: np.ndarray) -> list[Diagnostic]:
    """Constraints between parameters that no values within the bounds seem to meet."""
    between = parameter_constraints(problem, coordinates)
    if not between.count or not start.size:
        return []
    from scipy.optimize import least_squares  # takes half a second to load, and few problems have constraints

    def off(xi: np.ndarray) -> np.ndarray:
        values = between.at(xi)[0]
        return np.asarray(values - np.clip(values, between.lower, between.upper))

    def slope(xi: np.ndarray) -> np.ndarray:
        return np.where(off(xi)[:, None] != 0, between.at(xi)[1], 0.0)

    scale = np.where(np.isfinite(coordinates.scale) & (coordinates.scale > 0), coordinates.scale, 1.0)
    found = least_squares(off, start, slope, (coordinates.lower, coordinates.upper), x_scale=scale)
    limits = np.where(np.isfinite(between.lower), between.lower, between.upper)
    sizes = np.abs(limits) + np.sum(np.abs(between.at(found.x)[1]) * scale, axis=1)
    missed = np.abs(off(found.x))
    worst = int(np.argmax(missed / sizes))
    if missed[worst] <= CONSTRAINT_CHECK * sizes[worst]:
        return []
    certain = between.hessian.nnz_out(0) == 0  # constraints that are linear have no second place to look at
    code = DiagnosticCode.INFEASIBLE_CONSTRAINTS if certain else DiagnosticCode.PERHAPS_INFEASIBLE_CONSTRAINTS
    return [Diagnostic.of(code, [f"'{between.texts[worst]}'"], violation=missed[worst])]


def _identifiability(problem: Problem, values: np.ndarray, jumps: Sequence[str]) -> list[Diagnostic]:
    """What is not determined, each sentence confirmed by simulation: by no input, on this record, or at this start alone."""
    try:
        record = OutputMap(problem, values)
        region = region_around(problem.unknowns, values, lambda at: [record.at(at)], IDENTIFIABILITY_SEED)
    except SimulationDiverged:
        return [Diagnostic.of(DiagnosticCode.START_DIVERGES, ["start"]), *_structural(problem, values, jumps, ())]
    near = region.generic()
    local = _growth(record.at(values), region.sizes) + _at_start(problem, region, near, jumps)
    if not near.directions:
        return local
    hidden = _hidden(problem, near.points[0], [record])
    if hidden is None:
        return local + _on_record(problem, near, None, jumps, ())
    groups = _without(jumps, unidentifiable_groups(problem, hidden, IDENTIFIABILITY_SEED))
    return local + _said_of_model(problem, groups) + _on_record(problem, near, hidden, jumps, groups)


def _growth(here: Outputs, sizes: np.ndarray) -> list[Diagnostic]:
    """Whether sensitivities at the end of a record are so large that its begin, which tells more, counts for nothing."""
    even = replace(here, weight=np.ones(here.weight.size))
    if null_space([even], sizes).shape[1] <= null_space([here], sizes).shape[1]:
        return []
    decades = float(np.log10(np.max(here.weight) / np.min(here.weight)))
    return [Diagnostic.of(DiagnosticCode.START_GROWS, ["start"], decades=decades)]


def _without(jumps: Sequence[str], groups: Sequence[UnidentifiableGroup]) -> list[UnidentifiableGroup]:
    return [group for group in groups if not set(group.names) & set(jumps)]


def _hidden(problem: Problem, values: np.ndarray, beside: Sequence[OutputMap]) -> Region | None:
    """Where other records have been looked at too; without inputs they begin elsewhere. None where they cannot be simulated."""
    try:
        return structural_region(problem, values, IDENTIFIABILITY_SEED, beside, initial=not problem.model.inputs)
    except NotSupported:
        return None


def _structural(problem: Problem, values: np.ndarray, jumps: Sequence[str], beside: Sequence[OutputMap]) -> list[Diagnostic]:
    hidden = _hidden(problem, values, beside)
    if hidden is None:
        return []
    return _said_of_model(problem, _without(jumps, unidentifiable_groups(problem, hidden, IDENTIFIABILITY_SEED)))


def _said_of_model(problem: Problem, groups: Sequence[UnidentifiableGroup]) -> list[Diagnostic]:
    no = "no input can tell" if problem.model.inputs else "no record of these outputs can tell, wherever it begins"
    return [Diagnostic.of(DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE, group.names, combination=str(group), no=no,
                          advice=(FIX_IT if group.without_effect else FIX_ONE)) for group in groups]


def _on_record(problem: Problem, near: Region, hidden: Region | None, jumps: Sequence[str],
               known: Sequence[UnidentifiableGroup]) -> list[Diagnostic]:
    """What these records do not tell, beside what no record would."""
    told = {(group.names, group.directions) for group in known}
    groups = [group for group in _without(jumps, unidentifiable_groups(problem, near, IDENTIFIABILITY_SEED))
              if (group.names, group.directions) not in told]
    found = []
    for group in _joined(groups, known):
        if hidden is None:  # nothing is known of other records
            code = DiagnosticCode.NO_EFFECT if group.without_effect else DiagnosticCode.UNIDENTIFIABLE
        else:
            code = DiagnosticCode.NOT_EXCITED if problem.model.inputs else DiagnosticCode.NOT_EXCITED_BY_START
        found.append(Diagnostic.of(code, group.names, combination=str(group)))
    return found


def _joined(groups: Sequence[UnidentifiableGroup], known: Sequence[UnidentifiableGroup]) -> list[UnidentifiableGroup]:
    """Unknowns without effect on this record that no record tells apart either: one fact, one line."""
    found = [group for group in groups if not group.without_effect]
    idle = [group for group in groups if group.without_effect]
    for tied in known:
        own = [group for group in idle if set(group.names) <= set(tied.names)]
        if len(own) > 1:
            names = tuple(name for group in own for name in group.names)
            idle = [group for group in idle if group not in own] + [UnidentifiableGroup(names, len(names))]
    return found + idle


def _at_start(problem: Problem, region: Region, near: Region, jumps: Sequence[str]) -> list[Diagnostic]:
    """What cannot be told at the start, and can beside it."""
    here, beside = region.nulls[0], near.nulls[0]
    more = here.shape[1] - beside.shape[1]
    if more <= 0:
        return []
    idle = _alone(here, region.sizes) & ~_alone(beside, region.sizes)
    names = [name for name, is_idle in zip(problem.names, idle, strict=True) if is_idle and name not in jumps]
    movers = _movers(problem, region)
    starts = ", ".join(f"{problem.names[i]} = {region.points[0][i]:.6g}" for i in movers)
    which = " or ".join(problem.names[i] for i in movers)
    found = [Diagnostic.of(DiagnosticCode.ZERO_SENSITIVITY, names, starts=starts, movers=which,
                           it="it" if len(names) == 1 else "them")] if names else []
    if more > len(names) and not (set(jumps) and not names):
        tied = touched(here, region.sizes) & ~idle & ~touched(beside, region.sizes)
        tied = tied if np.any(tied) else touched(here, region.sizes) & ~idle
        found.append(Diagnostic.of(DiagnosticCode.UNIDENTIFIABLE_AT_START,
                                   [name for name, part in zip(problem.names, tied, strict=True) if part],
                                   starts=starts, movers=which))
    return [finding for finding in found if finding.names]


def _alone(null: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(unknowns,) which change nothing when they change alone."""
    if not null.shape[1]:
        return np.zeros(len(null), bool)
    scaled = null / sizes[:, None]
    basis, _ = np.linalg.qr(scaled)
    return np.asarray(np.abs(1 - np.sum(basis**2, axis=1)) < NULL_SPACE_COMPONENT)


def _movers(problem: Problem, region: Region) -> list[int]:
    """Unknowns of which one, started elsewhere, shows more."""
    rng, found = np.random.default_rng(IDENTIFIABILITY_SEED), []
    for i in range(len(problem.names)):
        there = beside(problem.unknowns, region.points[0], region.sizes, rng, only=[i])
        try:
            null = null_space(region.outputs(there), region.sizes)
        except SimulationDiverged:
            continue
        if null.shape[1] < region.nulls[0].shape[1]:
            found.append(i)
    return found or [i for i, part in enumerate(touched(region.nulls[0], region.sizes)) if part]


def linearization_at_start(problem: Problem, values: np.ndarray | None = None) -> ResidualJacobian:
    """Residuals and sensitivities at the start, or at other values.

    Over the whole record, or segment by segment where that diverges. Of a model without equations they are differences.
    """
    if not isinstance(problem.model, EquationModel) or problem.filtered_outputs:
        return linearize_by_differences(problem)[1]
    try:
        return linearize_at(problem, values, initial_noise_std(problem) | std_from_bounds(problem))
    except SimulationDiverged as bad:
        raise StartDiverged(f"At the start values {bad}, even when each segment starts from the measurements. Choose other "
                            "start values.", bad.lost) from None
