"""Which sections does the page have, in which order?"""

from dynident.report.sections.convergence import CONVERGENCE, ROOT_FINDER_STEPS, STAGES, STARTS
from dynident.report.sections.enclosure import ENCLOSURE
from dynident.report.sections.problem import PROBLEM, RUN_INFO
from dynident.report.sections.residuals import RESIDUALS
from dynident.report.sections.result import CORRELATION, INTERPRETATION, PROFILES, RESULT
from dynident.report.sections.robot import ROBOT
from dynident.report.sections.signals import SIGNALS, VALIDATION
from dynident.report.sections.states import FILTERING, MODEL_ERRORS, UNMEASURED_STATES

SECTIONS = (VALIDATION, SIGNALS, ENCLOSURE, RESULT, INTERPRETATION, ROBOT, FILTERING, UNMEASURED_STATES, MODEL_ERRORS,
            RESIDUALS, PROFILES, CORRELATION, STAGES, CONVERGENCE, ROOT_FINDER_STEPS, STARTS, PROBLEM, RUN_INFO)
