"""Diagnostics: what can be said before any fit?"""

from __future__ import annotations

import numpy as np

from dynident.linalg.finite_problem import ResidualJacobian
from dynident.problem.problem import Problem, Unknown, given_std
from dynident.statistics.covariance import typical_values
from dynident.statistics.data_quality import record_findings
from dynident.statistics.diagnostic import SEVERITIES, Check, Diagnostic, DiagnosticCode
from dynident.statistics.identifiability import Identifiability, identifiability
from dynident.statistics.identifiable_combinations import NOT_SHOWN

FEW_DATA = 10  # measured values per unknown; with fewer the noise is hardly known
POORLY_KNOWN = 1.0  # relative standard deviation; above it not even the sign is sure
SCALE_OFF = 1e4  # a given scale this far from the start serves no solver
WIDE_BOUNDS = 1e6  # upper over lower; a search over so many decades goes better in the logarithm
FAR_START = 1e3  # rms residual in units of the noise at the start


def diagnose(problem: Problem, linearization: ResidualJacobian) -> Check:
    """Everything worth saying about a problem around its start, where `linearization` was made."""
    known = identifiability(problem.names, linearization.values, typical_values(problem, linearization.values),
                            linearization.jacobian)
    std_given = all(given_std(e, name) is not None for e in problem.experiments for name in e.outputs)
    found = _determined(known, std_given)
    for unknown, value in zip(problem.unknowns, linearization.values, strict=True):
        found += _unknown_findings(unknown, float(value))
    found += _amount(problem)
    found += _start_findings(linearization) if std_given else []
    for experiment in problem.experiments:
        found += record_findings(experiment)
    return Check(tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))))


def _determined(known: Identifiability, std_given: bool) -> list[Diagnostic]:
    found = [Diagnostic.of(DiagnosticCode.NO_EFFECT if text.startswith(NOT_SHOWN) else DiagnosticCode.UNIDENTIFIABLE,
                           names, combination=text) for names, text in zip(known.tied, known.combinations, strict=True)]
    found += [Diagnostic.of(DiagnosticCode.COLLINEAR, group.names, index=group.index) for group in known.groups]
    if std_given:  # without a noise level a standard deviation at the start has no scale
        found += [Diagnostic.of(DiagnosticCode.POORLY_DETERMINED, [name], percent=100 * relative)
                  for name, relative in zip(known.names, known.relative_std, strict=True)
                  if POORLY_KNOWN < relative < np.inf]
    return found


def _unknown_findings(unknown: Unknown, value: float) -> list[Diagnostic]:
    found, names = [], [unknown.name]
    for side, bound in (("lower", unknown.lower), ("upper", unknown.upper)):
        if value == bound:
            found.append(Diagnostic.of(DiagnosticCode.START_AT_BOUND, names, side=side, bound=bound))
    bounded = np.isfinite(unknown.lower) and np.isfinite(unknown.upper)
    if unknown.start == 0 and unknown.scale is None and not bounded:
        found.append(Diagnostic.of(DiagnosticCode.NO_SCALE, names))
    ratio = abs(unknown.start) / unknown.scale if unknown.start and unknown.scale is not None else 1.0
    if not 1 / SCALE_OFF < ratio < SCALE_OFF:
        found.append(Diagnostic.of(DiagnosticCode.SCALE_OFF, names, scale=unknown.scale, start=unknown.start))
    if not unknown.log and unknown.lower > 0 and unknown.upper / unknown.lower >= WIDE_BOUNDS and bounded:
        found.append(Diagnostic.of(DiagnosticCode.WIDE_BOUNDS, names, decades=np.log10(unknown.upper / unknown.lower)))
    return found


def _amount(problem: Problem) -> list[Diagnostic]:
    data, unknowns = problem.measured_values, len(problem.unknowns)
    if not unknowns or data >= FEW_DATA * unknowns:
        return []
    return [Diagnostic.of(DiagnosticCode.FEW_DATA, ["data"], data=data, unknowns=unknowns)]


def _start_findings(linearization: ResidualJacobian) -> list[Diagnostic]:
    measured = linearization.residuals[linearization.rows.experiment >= 0]
    largest = float(np.max(np.abs(measured), initial=0.0))  # of a course that blows up even a square may be too large
    rms = largest * float(np.sqrt(np.mean((measured / largest) ** 2))) if largest else 0.0
    return [] if rms < FAR_START else [Diagnostic.of(DiagnosticCode.FAR_START, ["start"], rms=rms)]
