"""Check: what can be said before any fit?"""

from __future__ import annotations

import numpy as np

from dynident.linalg.finite_problem import ResidualJacobian
from dynident.problem.problem import Problem, Unknown, given_std
from dynident.statistics.covariance import magnitudes
from dynident.statistics.data_quality import record_findings
from dynident.statistics.diagnostic import SEVERITIES, Check, Diagnostic
from dynident.statistics.identifiability import Identifiability, identifiability
from dynident.statistics.identifiable_combinations import NOT_SHOWN

FEW_DATA = 10  # measured values per unknown; with fewer the noise is hardly known
POORLY_KNOWN = 1.0  # relative standard deviation; above it not even the sign is sure
SCALE_OFF = 1e4  # a given scale this far from the start serves no solver
WIDE_BOUNDS = 1e6  # upper over lower; a search over so many decades goes better in the logarithm
FAR_START = 1e3  # rms residual in units of the noise at the start

__all__ = ["Check", "Diagnostic", "diagnose"]


def diagnose(problem: Problem, linearization: ResidualJacobian) -> Check:
    """Everything worth saying about a problem around its start, where `linearization` was made."""
    known = identifiability(problem.names, linearization.values, magnitudes(problem, linearization.values),
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
    found = [Diagnostic("error", ", ".join(names), text,
                     "Hold one of them (free=False), give it a prior, or measure something that tells them apart."
                     if not text.startswith(NOT_SHOWN) else
                     "Hold it (free=False), or excite the part of the model in which it acts.")
             for names, text in zip(known.tied, known.combinations, strict=True)]
    found += [Diagnostic("warning", ", ".join(group.names), f"they are hard to tell apart around the start: their effects "
                      f"nearly cancel (collinearity index {group.index:.3g})",
                      "Expect wide intervals for each and a narrow one for their combination; other excitation helps.")
              for group in known.groups]
    if std_given:  # without a noise level a standard deviation at the start has no scale
        found += [Diagnostic("warning", name, f"with these data its standard deviation is about {100 * relative:.0f} % "
                          "of the start value", "More data, more excitation or a prior would help.")
                  for name, relative in zip(known.names, known.relative_std, strict=True)
                  if POORLY_KNOWN < relative < np.inf]
    return found


def _unknown_findings(unknown: Unknown, value: float) -> list[Diagnostic]:
    found = []
    for side, bound in (("lower", unknown.lower), ("upper", unknown.upper)):
        if value == bound:
            found.append(Diagnostic("warning", unknown.name, f"it starts on its {side} bound {bound:g}",
                                 "Start inside, so that the first step can go both ways."))
    bounded = np.isfinite(unknown.lower) and np.isfinite(unknown.upper)
    if unknown.start == 0 and unknown.scale is None and not bounded:
        found.append(Diagnostic("info", unknown.name, "it starts at 0, so nothing tells its typical size",
                             "Give scale=... or bounds."))
    ratio = abs(unknown.start) / unknown.scale if unknown.start and unknown.scale is not None else 1.0
    if not 1 / SCALE_OFF < ratio < SCALE_OFF:
        found.append(Diagnostic("warning", unknown.name, f"scale = {unknown.scale:g} and start = {unknown.start:g} are "
                             "orders of magnitude apart", "The scale is the value's typical magnitude; correct one."))
    if not unknown.log and unknown.lower > 0 and unknown.upper / unknown.lower >= WIDE_BOUNDS and bounded:
        found.append(Diagnostic("info", unknown.name, f"its bounds span {np.log10(unknown.upper / unknown.lower):.0f} "
                             "decades", "log=True searches such a range evenly."))
    return found


def _amount(problem: Problem) -> list[Diagnostic]:
    data, unknowns = problem.measured_values, len(problem.unknowns)
    if not unknowns or data >= FEW_DATA * unknowns:
        return []
    return [Diagnostic("warning", "data", f"{data} measured values for {unknowns} unknowns",
                    "Measure more or hold some unknowns; the intervals will lean on the assumed noise.")]


def _start_findings(linearization: ResidualJacobian) -> list[Diagnostic]:
    measured = linearization.residuals[linearization.rows.experiment >= 0]
    largest = float(np.max(np.abs(measured), initial=0.0))  # of a course that blows up even a square may be too large
    rms = largest * float(np.sqrt(np.mean((measured / largest) ** 2))) if largest else 0.0
    if rms < FAR_START:
        return []
    return [Diagnostic("info", "start", f"at the start the model misses the data by {rms:.2g} noise standard deviations",
                    "It may be far from the answer, or the noise std too small; several starts or multiple shooting "
                    "help from far away.")]
