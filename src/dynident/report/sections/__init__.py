"""Which sections does the page have, in which order?"""

from dynident.report.sections import (
    convergence,
    correlation,
    enclosure,
    filtering,
    meaning,
    problem,
    profiles,
    residuals,
    result,
    run,
    signals,
    starts,
    validation,
)

SECTIONS = (
    result.SECTION,
    meaning.SECTION,
    enclosure.SECTION,
    signals.SECTION,
    filtering.SECTION,
    residuals.SECTION,
    validation.SECTION,
    profiles.SECTION,
    correlation.SECTION,
    convergence.SECTION,
    starts.SECTION,
    problem.SECTION,
    run.SECTION,
)
