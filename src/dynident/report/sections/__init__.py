"""Which sections does the page have, in which order?"""

from dynident.report.sections import (
    convergence,
    correlation,
    filtering,
    meaning,
    problem,
    residuals,
    result,
    run,
    signals,
    validation,
)

SECTIONS = (
    result.SECTION,
    meaning.SECTION,
    signals.SECTION,
    filtering.SECTION,
    residuals.SECTION,
    validation.SECTION,
    correlation.SECTION,
    convergence.SECTION,
    problem.SECTION,
    run.SECTION,
)
