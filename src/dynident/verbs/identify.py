"""Identify: the one verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

from dynident._util.blas_threads import single_thread
from dynident._util.progress import reporter
from dynident.errors import NotConverged, ProblemError, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.methods.direct import DirectMethod
from dynident.methods.method import Method
from dynident.methods.noise_estimation import initial_noise_std
from dynident.methods.presets import method_from
from dynident.methods.substeps import choose_substeps
from dynident.methods.unstable_records import cut_unstable_records
from dynident.problem.model import is_robot
from dynident.problem.problem import Problem
from dynident.status import StatusCode
from dynident.verbs.simulated_arm import simulated_arm


def identify(problem: Problem, method: Method | str | Mapping[str, Any] | None = None, executor: Executor | None = None,
             progress: Callable[..., object] | bool | None = None) -> Estimate:
    """Find the unknowns of a problem.

    See the manual, start.

    Parameters
    ----------
    problem : Problem
        Model, records and unknowns.
    method : method, str or mapping, optional
        A method (`di.multiple_shooting(segments=20)`), its name, or a table of `kind` and options; left out, `automatic()`.
    executor : concurrent.futures.Executor, optional
        Runs side by side what a method has to do many times: the starts of `multistart`, the simulations of a black box.
        Methods that do one thing after the other do not use it.
    progress : callable or bool, optional
        Called with each iteration; False for silence.

    Returns
    -------
    Estimate
        A converged one.

    Raises
    ------
    NotConverged
        Where no optimum was reached, Ctrl-C included; the best point found is its `estimate`.
    NotSupported
        Where the method does not take such a problem; the text names one that does.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> print(f"{di.identify(problem).values['k']:.2f}")
    0.50
    """
    if not isinstance(problem, Problem):
        raise ProblemError(f"identify takes a Problem, not {type(problem).__name__}: di.Problem(model, [record], [di.Parameter("
                           "name, start)]) joins a model with records and unknowns.")
    arm = is_robot(problem.model)
    chosen = method_from("inverse_dynamics" if method is None and arm else method)
    problem, notes = simulated_arm(problem) if arm and chosen.kind != "inverse_dynamics" else (problem, ())
    with reporter(progress) as tell, single_thread():
        if arm and isinstance(chosen, DirectMethod) and (cut := _cut_at_start(problem, chosen)) is not None:
            problem, notes = cut[0], (*notes, cut[1])
        estimate = chosen.identify(problem, executor, tell)
        if estimate.status.code is StatusCode.UNSTABLE_RECORD and isinstance(chosen, DirectMethod):
            estimate = _in_pieces(problem, chosen, estimate, executor, tell)
        estimate = replace(estimate, notes=(*notes, *estimate.notes)) if notes else estimate
    if not estimate.converged:
        raise NotConverged(estimate.status, estimate)
    return estimate


def _cut_at_start(problem: Problem, method: DirectMethod) -> tuple[Problem, str] | None:
    """An arm's records in pieces, and a sentence on it, where no step over a whole one could pass; None where one could."""
    if method.initial_guess is not None:
        return None
    method.check_supports(problem)
    make = partial(method.transcribe_by_shooting, problem, noise_std=initial_noise_std(problem))
    try:
        shooting = make(choose_substeps(make)[0] if method.substeps == "auto" else int(method.substeps))
    except SimulationDiverged:
        return None
    return cut_unstable_records(shooting) if shooting.equality_count else None


def _in_pieces(problem: Problem, method: DirectMethod, stopped: Estimate, executor: Executor | None,
               tell: Callable[..., object]) -> Estimate:
    """Of records along which the model is unstable, cut where they can be; else what was stopped."""
    cut = cut_unstable_records(method.transcribe_by_shooting(problem, stopped.counts["substeps"], initial_noise_std(problem)))
    if cut is None:
        return stopped
    in_pieces, note = cut
    estimate = method.identify(in_pieces, executor, tell)
    return replace(estimate, notes=(note, *estimate.notes))
