"""Check: what the data can tell, before any fit."""

from __future__ import annotations

from dataclasses import replace

from dynident.discretizations.finite import Linearization
from dynident.discretizations.shooting import Shooting
from dynident.errors import NotSupported, ProblemError
from dynident.estimate.check import examine
from dynident.estimate.finding import Check, Finding
from dynident.integrators import integrator_named
from dynident.integrators.march import Diverged
from dynident.methods.black_box import differences_at_start
from dynident.methods.direct import ShootingMethod
from dynident.methods.noise import bound_sizes, first_sizes
from dynident.methods.structure import structure_of
from dynident.methods.substeps import choose_substeps
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem


def check(problem: Problem) -> Check:
    """Excitation, rank, collinear groups, scaling, sampling, with advice; around the start values."""
    return _blamed(problem, examine(problem, linearization_at_start(problem)))


def _blamed(problem: Problem, found: Check) -> Check:
    """Say of each thing that cannot be determined whether it is the model that hides it, or only these records."""
    hidden = [f for f in found.findings if f.severity == "error" and set(f.subject.split(", ")) <= set(problem.names)]
    if not hidden:
        return found
    try:
        shows = structure_of(problem)
    except NotSupported:
        return found

    def said(finding: Finding) -> Finding:
        if finding not in hidden:
            return finding
        if any(not shows.shows(name) for name in finding.subject.split(", ")):
            return replace(finding, advice=f"It is the model that hides it: no input can tell. {finding.advice}")
        return replace(finding, advice="It is the record that hides it: the model would show it with another input, "
                                       "which di.design_input (dynident design) finds. Until then hold it "
                                       "(free=False).")

    return Check(tuple(said(finding) for finding in found.findings))


def linearization_at_start(problem: Problem) -> Linearization:
    """Residuals and sensitivities at the start: over the whole record, or segment by segment where that diverges.

    A model without equations has no segments, and its sensitivities are differences.
    """
    if not isinstance(problem.model, EquationModel):
        return differences_at_start(problem)
    scheme = integrator_named("runge_kutta")
    sizes = first_sizes(problem) | bound_sizes(problem)
    for method in (ShootingMethod("check", 1), ShootingMethod("check")):
        segments = [method.segments_for(e.samples) for e in problem.experiments]

        def make(substeps: int, segments: list[int] = segments) -> Shooting:
            return Shooting(problem, scheme, segments, substeps, sizes)

        try:
            substeps, _ = choose_substeps(make, lambda finite: finite.start())
            finite = make(substeps)
            return finite.linearization(finite.start())
        except Diverged as bad:
            last = bad
    raise ProblemError(f"At the start values {last}, even when each segment starts from the measurements. Choose other "
                       "start values.")
