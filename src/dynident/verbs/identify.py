"""Identify: the one verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

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
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.status import StatusCode
from dynident.tolerances import ZERO_OF_KIND

if TYPE_CHECKING:
    from dynident.robots.model import RobotModel


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
    problem, method, notes = _for_robots(problem, method)
    chosen = method_from(method)
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


def _for_robots(problem: Problem, method: Method | str | Mapping[str, Any] | None
                ) -> tuple[Problem, Method | str | Mapping[str, Any] | None, tuple[str, ...]]:
    """An arm by inverse dynamics, where no method is named; by any other one as its forward dynamics in equations.

    Also what there is to say: parameters that torques tell only in sums with others rest at their start values, since a search
    along the sums that change nothing would not end.
    """
    if not is_robot(problem.model):
        return problem, method, ()
    arm = cast("RobotModel", problem.model)
    chosen = method_from("inverse_dynamics" if method is None else method)
    if chosen.kind == "inverse_dynamics":
        return problem, chosen, ()
    declared = [p.name for p in problem.parameters if isinstance(p, Parameter)]
    resting = _dependent(problem, arm)
    sizes = _sizes(arm, problem)
    parameters = [replace(p, free=p.free and p.name not in resting, scale=p.scale or sizes.get(p.name))
                  if isinstance(p, Parameter) else p for p in problem.parameters]
    note = (f"{', '.join(resting)}: torques tell these only in sums with other parameters, or not at all; they "
            "rest at their start values, and the values and intervals of the others hold with these.",) if resting else ()
    return problem.replace(model=arm.forward(declared), parameters=parameters), chosen, note


def _sizes(arm: RobotModel, problem: Problem) -> dict[str, float]:
    """Typical sizes of parameters that start next to nothing beside others of their kind: 1e-7 is a zero, and no size."""
    starts = {name: abs(it.start) for name, it in arm.nominal_values.items()}
    starts |= {p.name: abs(p.start) for p in problem.parameters if isinstance(p, Parameter) and p.start is not None}
    largest: dict[str, float] = {}
    for name in arm.parameters:
        largest[_kind(name)] = max(largest.get(_kind(name), 0.0), starts[name])
    floor = {name: ZERO_OF_KIND * largest[_kind(name)] for name in arm.parameters}
    return {name: size for name, size in floor.items() if starts[name] < size}


def _kind(name: str) -> str:
    """m, h and I of links; drives by their law: Fc, Ia."""
    return name.rpartition("_")[0] if name[0] == "F" or name.startswith("Ia") else name[0]


def _dependent(problem: Problem, arm: RobotModel) -> tuple[str, ...]:
    """Free parameters of an arm, without bounds or priors, that act as sums of other free ones do, whatever the motion."""
    from dynident.inverse_dynamics.base_parameters import choose_base
    from dynident.inverse_dynamics.setup import ArmAlongMotion, JointMotion

    free = {p.name: p for p in problem.parameters if isinstance(p, Parameter) and p.free}
    if problem.constraints or not all(p.common for p in free.values()):
        return ()
    stated = {p.name: p.start for p in problem.parameters if isinstance(p, Parameter) and p.start is not None}
    values = {name: it.start for name, it in arm.nominal_values.items()} | stated
    motion = np.random.default_rng(0).uniform(-1.5, 1.5, (3, 2 * len(arm.parameters), arm.dof))
    along = ArmAlongMotion.of(arm, JointMotion(np.arange(len(motion[0]), dtype=float), *motion))
    jacobian = along.torque_and_jacobian(values)[1].reshape(-1, len(arm.parameters))
    base = choose_base(arm.parameters, jacobian * [name in free for name in arm.parameters])
    tied = {p.name for p in free.values() if p.prior is not None or np.isfinite([p.lower, p.upper]).any()}
    gathered = [tied.intersection(base.coefficients(i)) for i in range(len(base.independent))]
    blocked = {name for i, found in enumerate(gathered) if found for name in base.coefficients(i)}
    idle = {arm.parameters[j] for j in base.idle} & (free.keys() - tied)
    gathered_ones = {arm.parameters[j] for j in base.dependent} - blocked
    return tuple(name for name in arm.parameters if name in idle | gathered_ones)
