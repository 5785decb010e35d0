"""Which sections does the page have, in which order?"""

from dynident.report.sections import (
    convergence,
    correlation,
    enclosure,
    filtering,
    meaning,
    model_errors,
    problem,
    profiles,
    residuals,
    result,
    run,
    signals,
    starts,
    strides,
    unmeasured,
    validation,
)

SECTIONS = (
    result.SECTION,
    meaning.SECTION,
    enclosure.SECTION,
    signals.SECTION,
    filtering.SECTION,
    unmeasured.SECTION,
    model_errors.SECTION,
    residuals.SECTION,
    validation.SECTION,
    profiles.SECTION,
    correlation.SECTION,
    convergence.SECTION,
    strides.SECTION,
    starts.SECTION,
    problem.SECTION,
    run.SECTION,
)
