"""Check: what the data can tell, before any fit."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from dynident.black_box.method import linearize_by_differences
from dynident.errors import NotSupported, ProblemError, SimulationDiverged
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.methods.active_constraints import ActiveConstraints
from dynident.methods.linearize_at import linearize_at
from dynident.methods.noise_estimation import initial_noise_std, std_from_bounds
from dynident.methods.secant_jacobian import with_secant_columns
from dynident.models.equations import EquationModel
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.problem.transforms import Transforms, transforms_of
from dynident.solvers.stationary_start import WAYS_OUT
from dynident.statistics.diagnostic import Check, Diagnostic
from dynident.statistics.diagnostics import diagnose
from dynident.statistics.identifiable_combinations import NOT_SHOWN
from dynident.transcription.parameter_constraints import parameter_constraints
from dynident.verbs.structural_identifiability import structure_of

AS_EXACT_AS_DATA = 1.0  # an equality as one more measurement: enough for the rank, and it makes nothing look collinear
SEED = 1  # of the places beside a start
BESIDE = (0.2, 0.6)  # of an unknown's size: how far away these are
OTHER_INPUT = ("It is the record that hides it: the model would show it with another input, which di.design_input (dynident "
               "design) finds. Until then hold it (free=False).")
OTHER_RECORD = ("It is the record that hides it: the model would show it from another initial state, over another time, or "
                "sampled faster. Until then hold it (free=False).")
MET = 1e-4  # relative; a constraint that is off by less is met


def check(problem: Problem) -> Check:
    """Excitation, rank, collinear groups, constraints, scaling, sampling, with advice; around the start values."""
    at, jumps = _with_jumps(problem, linearization_at_start(problem))
    coordinates = transforms_of(problem, at.values)
    constraints = ActiveConstraints.at(problem, coordinates, coordinates.coordinates(at.values)).equalities()
    tied, _ = constraints.joined(at, AS_EXACT_AS_DATA)
    found = _blamed(problem, diagnose(problem, tied))
    return Check((*_contradictions(problem, coordinates, coordinates.coordinates(at.values)), *jumps, *found.findings))


def _with_jumps(problem: Problem, at: ResidualJacobian) -> tuple[ResidualJacobian, list[Diagnostic]]:
    """With differences where unknowns act in jumps, which no derivative shows, and a word on each of them."""
    if not isinstance(problem.model, EquationModel):
        return at, []
    jacobian, found = with_secant_columns(problem, at, functools.partial(linearization_at_start, problem))
    return replace(at, jacobian=jacobian), [Diagnostic(
        "error", problem.names[i], "what is measured depends on it in jumps only: its derivative is zero, and every method "
        "that uses derivatives leaves it where it starts", f"{WAYS_OUT}.") for i in found]


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
    if missed[worst] <= MET * sizes[worst]:
        return []
    certain = between.hessian.nnz_out(0) == 0  # constraints that are linear have no second place to look at
    return [Diagnostic("error" if certain else "warning", f"'{between.texts[worst]}'",
                    f"no values within the bounds {'meet' if certain else 'were found that meet'} all constraints; at best "
                    f"this one is off by {missed[worst]:.3g}", "Correct a constraint or a bound; a fit would not converge.")]


def _blamed(problem: Problem, found: Check) -> Check:
    """Say of each thing that cannot be determined whether it is the model that hides it, or only these records."""
    hidden = [f for f in found.findings if f.severity == "error" and set(f.subject.split(", ")) <= set(problem.names)]
    if not hidden:
        return found
    try:
        shows = structure_of(problem)
    except NotSupported:
        return found

    def said(finding: Diagnostic) -> Diagnostic:
        if finding not in hidden:
            return finding
        names = finding.subject.split(", ")
        if any(not shows.shows(name) for name in names):
            words = dict(zip(map(frozenset, shows.groups), shows.combinations, strict=True))  # true at any values
            return replace(finding, sentence=words.get(frozenset(names), finding.sentence),
                           advice=f"It is the model that hides it: no input can tell. {finding.advice}")
        if _shown_beside(problem, names):
            return _start_blamed(problem, finding, names)
        return replace(finding, advice=OTHER_INPUT if problem.model.inputs else OTHER_RECORD)

    return Check(tuple(said(finding) for finding in found.findings))


def _start_blamed(problem: Problem, finding: Diagnostic, names: list[str]) -> Diagnostic:
    starts = ", ".join(f"{u.name} = {u.start:g}" for u in problem.unknowns if u.name in names and u.start is not None)
    if finding.sentence.startswith(NOT_SHOWN):
        return replace(finding, sentence=f"nothing measured changes with it at {starts}, though elsewhere it does",
                       advice="Start it somewhere else: this is a place where its slope vanishes, as that of a**2 at 0.")
    return replace(finding, sentence=f"{finding.sentence} at {starts}, though elsewhere more is",
                   advice="It is the start that hides it. Start them somewhere else, each at its own place.")


def _shown_beside(problem: Problem, names: list[str]) -> bool:
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
        there = linearization_at_start(problem.changed(parameters=moved))
    except ProblemError:
        return False
    found = diagnose(problem, there)
    return not any(f.severity == "error" and set(f.subject.split(", ")) & set(names) for f in found.findings)


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
