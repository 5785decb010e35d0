"""Check: what the data can tell, before any fit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynident.black_box.method import linearize_by_differences
from dynident.errors import NotSupported, ProblemError, SimulationDiverged
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.linearize_at import linearize_at, with_secant_columns
from dynident.methods.noise_estimation import initial_noise_std, std_from_bounds
from dynident.models.equations import EquationModel
from dynident.problem.parameter import Parameter, Transforms, transforms_of
from dynident.problem.problem import Problem
from dynident.robots.model import RobotModel
from dynident.solvers.safeguards import WAYS_OUT
from dynident.statistics.active_bounds import ActiveConstraints
from dynident.statistics.diagnostic import Check, Diagnostic, DiagnosticCode
from dynident.statistics.diagnostics import diagnose
from dynident.statistics.identifiability import StructuralIdentifiability
from dynident.tolerances import CONSTRAINT_CHECK
from dynident.transcription.parameter_constraints import parameter_constraints
from dynident.verbs.structural_identifiability import SEED, structure_of

AS_EXACT_AS_DATA = 1.0  # an equality as one more measurement: enough for the rank, and it makes nothing look collinear
BESIDE = (0.2, 0.6)  # of an unknown's size: how far away these are
UNDETERMINED = (DiagnosticCode.UNIDENTIFIABLE, DiagnosticCode.NO_EFFECT)  # for a reason that is yet to be found


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
    if isinstance(problem.model, RobotModel):
        raise NotSupported("check() linearises a simulation, and an arm is identified without one: inverse_dynamics() takes a "
                           "second and says itself what the torques tell (estimate.base).")
    at, jumps = _with_jumps(problem, linearization_at_start(problem))
    coordinates = transforms_of(problem, at.values)
    constraints = ActiveConstraints.at(problem, coordinates, coordinates.coordinates(at.values)).equalities()
    tied, _ = constraints.append_as_measurements(at, AS_EXACT_AS_DATA)
    found = _attribute_cause(problem, diagnose(problem, tied))
    return Check((*_contradictions(problem, coordinates, coordinates.coordinates(at.values)), *jumps, *found.findings))


def _with_jumps(problem: Problem, at: ResidualJacobian) -> tuple[ResidualJacobian, list[Diagnostic]]:
    """With differences where unknowns act in jumps, which no derivative shows, and a word on each of them."""
    if not isinstance(problem.model, EquationModel):
        return at, []
    jacobian, found = with_secant_columns(problem, at, functools.partial(linearization_at_start, problem))
    return ResidualJacobian.dense(at.values, at.residuals, jacobian, at.rows), [
        Diagnostic.of(DiagnosticCode.PIECEWISE_CONSTANT, [problem.names[i]], ways_out=WAYS_OUT) for i in found]


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


def _attribute_cause(problem: Problem, found: Check) -> Check:
    """Say of each thing that cannot be determined whether it is the model that hides it, or only these records."""
    if not any(finding.code in UNDETERMINED for finding in found.findings):
        return found
    try:
        shows = structure_of(problem)
    except NotSupported:
        return found
    return Check(tuple(_with_cause(problem, finding, shows) if finding.code in UNDETERMINED else finding
                       for finding in found.findings))


def _with_cause(problem: Problem, finding: Diagnostic, shows: StructuralIdentifiability) -> Diagnostic:
    names = finding.names
    if any(not shows.shows(name) for name in names):
        words = dict(zip(map(frozenset, shows.groups), shows.combinations, strict=True))  # true at any values
        return Diagnostic.of(DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE, names, advice=finding.advice,
                             combination=words.get(frozenset(names), finding.sentence))
    if _shown_beside(problem, names):
        starts = ", ".join(f"{u.name} = {u.start:g}" for u in problem.unknowns if u.name in names and u.start is not None)
        code = (DiagnosticCode.ZERO_SENSITIVITY if finding.code is DiagnosticCode.NO_EFFECT
                else DiagnosticCode.UNIDENTIFIABLE_AT_START)
        return Diagnostic.of(code, names, combination=finding.sentence, starts=starts)
    code = DiagnosticCode.NOT_EXCITED if problem.model.inputs else DiagnosticCode.NOT_EXCITED_BY_START
    return Diagnostic.of(code, names, combination=finding.sentence)


def _shown_beside(problem: Problem, names: Sequence[str]) -> bool:
    """Whether it is only at their start that these unknowns cannot be told."""
    rng = np.random.default_rng(SEED)  # each its own way: what starts equal must not stay equal
    moved = []
    for it in problem.parameters:
        if it.free and isinstance(it, Parameter) and it.name in names and it.start is not None:
            way = (it.scale or abs(it.start) or 1.0) * rng.uniform(*BESIDE)
            aside = it.start + way if it.start + way <= it.upper else it.start - way
            it = replace(it, start=float(np.clip(aside, it.lower, it.upper)))
        moved.append(it)
    try:
        there = linearization_at_start(problem.replace(parameters=moved))
    except ProblemError:
        return False
    found = diagnose(problem, there)
    return not any(f.severity == "error" and set(f.names) & set(names) for f in found.findings)


def linearization_at_start(problem: Problem, values: np.ndarray | None = None) -> ResidualJacobian:
    """Residuals and sensitivities at the start, or at other values.

    Over the whole record, or segment by segment where that diverges. A model without equations has no segments, and its
    sensitivities are differences.
    """
    if not isinstance(problem.model, EquationModel):
        return linearize_by_differences(problem)
    try:
        return linearize_at(problem, values, initial_noise_std(problem) | std_from_bounds(problem))
    except SimulationDiverged as bad:
        raise ProblemError(f"At the start values {bad}, even when each segment starts from the measurements. Choose other "
                           "start values.") from None
