"""Fit folder: how is a problem file fitted, validated and kept? What the command line and the workbench both call."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from dynident._util.blas_threads import single_thread
from dynident._util.progress import Tell
from dynident.errors import DynidentError, NotConverged
from dynident.estimate.estimate import Estimate
from dynident.io.problem_file.read import ProblemFile
from dynident.io.results.result_folder import reserve_folder, write
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem


def fit_to_folder(said: ProblemFile, method: Any, folder: Path, as_given: bytes, tell: Tell, name: str = ""
                  ) -> tuple[Estimate, bool]:
    """The estimate as it was written into the folder, and whether it was interrupted; `as_given` is the user's own file.

    After Ctrl-C the best point so far is written, and marked; raises NotConverged where there is no point at all.
    """
    with reserve_folder(folder), single_thread():  # the verdict's matrices and the report's are as thin as the fit's
        estimate = best_point(said.problem, method, tell)
        interrupted = was_interrupted(estimate)
        try:
            estimate = validated(estimate, () if interrupted else said.validation)
        except KeyboardInterrupt:  # the fit itself is done, and worth keeping
            interrupted = True
        write(estimate, folder, as_given, name)
    return estimate, interrupted


def best_point(problem: Problem, method: Any, tell: Tell) -> Estimate:
    """The estimate, converged or not."""
    from dynident.verbs.identify import identify

    try:
        return identify(problem, method, progress=tell)
    except NotConverged as error:
        if error.estimate is None:
            raise
        return error.estimate


def was_interrupted(estimate: Estimate) -> bool:
    return bool(estimate.counts.get("interrupted"))


def validated(estimate: Estimate, records: tuple[Experiment, ...]) -> Estimate:
    """The estimate with the validations on these records added; one that fails is a note, not the end of the fit."""
    for record in records:
        try:
            estimate = dataclasses.replace(estimate, validations=(*estimate.validations, estimate.validate(record)))
        except DynidentError as error:
            failed = f"The validation on '{record.label}' failed: {error}"
            estimate = dataclasses.replace(estimate, notes=(*estimate.notes, failed))
    return estimate
