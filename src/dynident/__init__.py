"""dynident: parameters of dynamical systems from measured records, with intervals that keep their promise."""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dynident._util import hooks

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dynident import maths, report
    from dynident.boundary.solve_bvp.solve import solve_bvp
    from dynident.design import criteria, signals
    from dynident.design.design_input import design_input
    from dynident.design.plan import Plan
    from dynident.errors import DynidentError, NotConverged, NotSupported, ProblemError
    from dynident.estimate.estimate import Estimate, Trajectory
    from dynident.estimate.validation import Validation
    from dynident.fleet.file import read_fleet
    from dynident.fleet.fleet import Fleet
    from dynident.fleet.run import fleet
    from dynident.fmu.model import FmuModel
    from dynident.io.problem_file.read import read_problem, write_problem
    from dynident.io.readers.csv import read_csv
    from dynident.io.readers.tables import read_mat, read_parquet, read_table
    from dynident.io.results.load import load
    from dynident.methods.presets import (
        boundary_value,
        full_discretization,
        kalman,
        least_squares,
        moving_horizon,
        multiple_shooting,
        multistart,
        set_membership,
        single_shooting,
    )
    from dynident.models import library
    from dynident.models.equations import EquationModel
    from dynident.models.hybrid import Mode, Transition
    from dynident.parallel.process_pool import process_pool
    from dynident.problem.experiment import Experiment
    from dynident.problem.noise import Bounded, Gaussian
    from dynident.problem.parameter import InitialState, Parameter, Prior
    from dynident.problem.problem import Problem
    from dynident.verbs.bootstrap import bootstrap, leave_one_out
    from dynident.verbs.check import check
    from dynident.verbs.compare import Comparison, compare
    from dynident.verbs.identify import identify
    from dynident.verbs.profile import profile
    from dynident.verbs.simulate import simulate
    from dynident.verbs.structural_identifiability import structural_identifiability

# Public names and where they live; loaded when first asked for, so that `import dynident` stays quick.
PUBLIC = {
    "Bounded": "problem.noise", "Comparison": "verbs.compare", "DynidentError": "errors",
    "EquationModel": "models.equations", "Estimate": "estimate.estimate", "Experiment": "problem.experiment",
    "Fleet": "fleet.fleet", "FmuModel": "fmu.model", "fleet": "fleet.run", "read_fleet": "fleet.file",
    "Gaussian": "problem.noise", "InitialState": "problem.parameter", "Mode": "models.hybrid", "NotConverged": "errors",
    "NotSupported": "errors", "Parameter": "problem.parameter", "Prior": "problem.parameter",
    "Problem": "problem.problem", "ProblemError": "errors", "Trajectory": "estimate.estimate",
    "Transition": "models.hybrid",
    "Validation": "estimate.validation", "check": "verbs.check", "compare": "verbs.compare",
    "full_discretization": "methods.presets", "identify": "verbs.identify", "kalman": "methods.presets",
    "least_squares": "methods.presets", "load": "io.results.load", "process_pool": "parallel.process_pool",
    "moving_horizon": "methods.presets",
    "multiple_shooting": "methods.presets", "multistart": "methods.presets",
    "Plan": "design.plan", "bootstrap": "verbs.bootstrap", "boundary_value": "methods.presets",
    "design_input": "design.design_input",
    "leave_one_out": "verbs.bootstrap",
    "profile": "verbs.profile", "structural_identifiability": "verbs.structural_identifiability",
    "read_csv": "io.readers.csv", "read_mat": "io.readers.tables", "read_parquet": "io.readers.tables",
    "read_problem": "io.problem_file.read", "read_table": "io.readers.tables", "set_membership": "methods.presets",
    "simulate": "verbs.simulate",
    "single_shooting": "methods.presets", "solve_bvp": "boundary.solve_bvp.solve", "write_problem": "io.problem_file.read",
}
MODULES = {"criteria": "design.criteria", "library": "models.library", "maths": "maths", "report": "report",
           "signals": "design.signals"}

__all__ = [
    "Bounded", "Comparison", "DynidentError", "EquationModel", "Estimate", "Experiment", "Fleet", "FmuModel", "Gaussian",
    "InitialState", "Mode", "NotConverged", "NotSupported", "Parameter", "Plan", "Prior", "Problem", "ProblemError",
    "Trajectory", "Transition", "Validation", "bootstrap", "boundary_value", "check", "compare", "criteria", "design_input",
    "fleet", "full_discretization", "identify", "kalman", "least_squares", "leave_one_out", "library", "load", "maths",
    "moving_horizon", "multiple_shooting", "multistart", "process_pool", "profile", "read_csv", "read_fleet", "read_mat",
    "read_parquet", "read_problem", "read_table", "report", "set_membership", "signals", "simulate", "single_shooting",
    "solve_bvp", "structural_identifiability", "write_problem",
]


# What data classes call of the layers above them: how they are printed, drawn, checked on other records and saved.
hooks.register({
    "estimate_text": "dynident.report.terminal.estimate_text",
    "estimate_html": "dynident.report.html_report.estimate_fragment",
    "estimate_figure": "dynident.report.figures.estimate_figure",
    "validate": "dynident.verbs.validate.validate",
    "save": "dynident.io.results.save.save",
    "comparison_text": "dynident.report.terminal.comparison_text",
    "text_table": "dynident.report.summaries.plain_table",
    "profile_text": "dynident.report.summaries.profile_text",
    "profile_figure": "dynident.report.figures.profile_figure",
    "plan_text": "dynident.report.summaries.plan_text",
    "plan_figure": "dynident.report.figures.plan_figure",
    "write_columns": "dynident.io.results.signal_tables.save_columns",
    "boundary_text": "dynident.report.summaries.boundary_text",
    "boundary_figure": "dynident.report.figures.boundary_figure",
    "iterations_figure": "dynident.report.figures.iterations_figure",
})


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(importlib.import_module(f"dynident.{PUBLIC[name]}"), name)
    if name in MODULES:
        return importlib.import_module(f"dynident.{MODULES[name]}")
    raise AttributeError(f"dynident has no attribute '{name}'")


class _PublicFirst(ModuleType):
    """A public function stays in front of the folder of the same name, which importing would put in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _PublicFirst


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
