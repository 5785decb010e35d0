"""Which sections does the page have, in which order?"""

from dynident.report.sections import (
    convergence,
    correlation,
    enclosure,
    filtering,
    interpretation,
    model_errors,
    problem,
    profiles,
    pseudo_time_steps,
    residuals,
    result,
    run_info,
    signals,
    starts,
    unmeasured_states,
    validation,
)

SECTIONS = (
    result.SECTION,
    interpretation.SECTION,
    enclosure.SECTION,
    signals.SECTION,
    filtering.SECTION,
    unmeasured_states.SECTION,
    model_errors.SECTION,
    residuals.SECTION,
    validation.SECTION,
    profiles.SECTION,
    correlation.SECTION,
    convergence.SECTION,
    pseudo_time_steps.SECTION,
    starts.SECTION,
    problem.SECTION,
    run_info.SECTION,
)
