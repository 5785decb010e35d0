"""Simulated arm: what does a method that simulates get of a robot arm, and where does it begin?

Forward dynamics of the parameters that the problem declares. Torques are linear in these, so that least squares find start
values where nobody stated any; from a URDF without friction and motors a simulation is far from any record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.methods.presets import method_from
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.tolerances import ZERO_OF_KIND

if TYPE_CHECKING:
    from dynident.robots.model import RobotModel

POSITIONS = 20  # of a record; where one of them is singular its neighbours are nearly so


def simulated_arm(problem: Problem) -> tuple[Problem, tuple[str, ...]]:
    """The problem of an arm's forward dynamics in equations, and what there is to say about it.

    Parameters that torques tell only in sums with others rest at their start values, since a search along the sums that change
    nothing would not end.
    """
    from dynident.robots.singular_inertia import unresisted_joint

    arm = cast("RobotModel", problem.model)
    problem, begun = begun_by_torques(problem, arm)
    if fault := unresisted_joint(arm, _start_values(problem, arm), _recorded_positions(problem, arm)):
        raise ProblemError(f"{fault} These are the start values.")
    declared = [p.name for p in problem.parameters if isinstance(p, Parameter)]
    resting = dependent_parameters(problem, arm)
    sizes = _sizes(arm, problem)
    parameters = [replace(p, free=p.free and p.name not in resting, scale=p.scale or sizes.get(p.name))
                  if isinstance(p, Parameter) else p for p in problem.parameters]
    rest = (f"{', '.join(resting)}: torques tell these only in sums with other parameters, or not at all; they "
            "rest at their start values, and the values and intervals of the others hold with these.",) if resting else ()
    records = [arm.without_commands(e) for e in problem.experiments]
    return problem.replace(model=arm.forward(declared), experiments=records, parameters=parameters), (*begun, *rest)


def begun_by_torques(problem: Problem, arm: RobotModel) -> tuple[Problem, tuple[str, ...]]:
    """Free parameters that would start at the values of the arm's file begin at what inverse dynamics find in the same records.

    Those that start elsewhere stay there (so do values that the arm was given), and those whose bounds exclude what was found.
    """
    chosen = {p.name: p for p in problem.parameters if isinstance(p, Parameter) and p.free and p.common and p.prior is None
              and p.name not in arm.stated_values and p.start == arm.nominal_values[p.name].start}
    if not chosen:
        return problem, ()
    held = [Parameter(p.name, start=p.start, free=p.name in chosen) for p in problem.parameters
            if isinstance(p, Parameter) and p.common]
    silent = problem.with_output_noise_only()
    try:
        found = _found_by_torques(silent.replace(parameters=held, constraints=()), arm)
    except (NotSupported, ProblemError) as reason:
        said = " ".join(str(reason).split())
        return problem, (f"The start values are those of the robot's file: inverse dynamics find no better ones ({said}).",)
    begun = {name: found[name] for name, p in chosen.items() if p.lower <= found[name] <= p.upper}
    parameters = [replace(p, start=begun[p.name]) if isinstance(p, Parameter) and p.name in begun else p
                  for p in problem.parameters]
    return problem.replace(parameters=parameters), (
        f"{len(begun)} of {len(held)} parameters would start at the values of the robot's file, which tells little of friction "
        "and motors; they begin at what inverse_dynamics() finds in the same records instead.",) if begun else ()


def _found_by_torques(problem: Problem, arm: RobotModel) -> Mapping[str, float]:
    """Of possible bodies, by name; drives alone where the links would not be possible ones, which cannot be simulated."""
    from dynident.inverse_dynamics.consistency import impossible_links

    for sought in (arm.parameters, arm.drive_names):
        parameters = [replace(p, free=p.free and p.name in sought) for p in problem.parameters if isinstance(p, Parameter)]
        if any(p.free for p in parameters):
            found = method_from("inverse_dynamics").identify(problem.replace(parameters=parameters), None, _silence).robot
            if found is not None and (sought is arm.drive_names or not impossible_links(arm, found.parameters)):
                return found.parameters
    raise ProblemError("no body has the inertias that were found")


def _silence(*said: object, **more: object) -> None:
    """No word of progress: the fit is a start for another."""


def _start_values(problem: Problem, arm: RobotModel) -> dict[str, float]:
    stated = {p.name: float(p.start) for p in problem.parameters if isinstance(p, Parameter) and p.start is not None}
    return {name: it.start for name, it in arm.nominal_values.items()} | stated


def _recorded_positions(problem: Problem, arm: RobotModel) -> np.ndarray:
    """(m, dof) some of them, from records in which all joints were measured."""
    names = [f"q{k + 1}" for k in range(arm.dof)]
    whole = [np.column_stack([e.outputs[name] for name in names]) for e in problem.experiments
             if all(name in e.outputs for name in names)]
    return np.vstack([np.zeros((0, arm.dof)), *(q[np.linspace(0, len(q) - 1, POSITIONS).astype(int)] for q in whole)])


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


def dependent_parameters(problem: Problem, arm: RobotModel) -> tuple[str, ...]:
    """Free parameters of an arm, without bounds or priors, that act as sums of other free ones do, whatever the motion."""
    from dynident.inverse_dynamics.base_parameters import choose_base
    from dynident.inverse_dynamics.setup import ArmAlongMotion, JointMotion

    free = {p.name: p for p in problem.parameters if isinstance(p, Parameter) and p.free}
    if problem.constraints or not all(p.common for p in free.values()):
        return ()
    values = _start_values(problem, arm)
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
