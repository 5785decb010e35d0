"""Result: an estimate of the problem that inverse dynamics solves: torques along a given motion, without states."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynident.estimate.estimate import Estimate, Trajectory, Validation, validation_metrics
from dynident.estimate.robot_result import BaseParameter, JointErrors, RobotResult
from dynident.inverse_dynamics.consistency import INSTALL, consistent_parameters, have_clarabel, impossible_links
from dynident.inverse_dynamics.friction_choice import FrictionTrial
from dynident.inverse_dynamics.instruments import OVER_BANDWIDTH, check_motion_noise
from dynident.inverse_dynamics.run import TorqueFit, fit_torques, nominal_vector
from dynident.inverse_dynamics.setup import PARALLEL_CUTOFF, ArmAlongMotion, TorqueRecord, torque_record
from dynident.linalg.finite_problem import ResidualIndex, ResidualJacobian
from dynident.methods.build_estimate import build_estimate, information_criteria_of
from dynident.problem.experiment import Experiment
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.robots.model import RobotModel
from dynident.statistics.covariance import Covariance, covariance_from
from dynident.status import Status, StatusCode
from dynident.tolerances import SINGULAR_VALUE_EXACT

NO_PRICE = 1e-4  # of the largest RMS; less is not worth a number
MOVING = 0.03  # rad/s or m/s; slower joints stand, and their friction is any torque up to Coulomb's


def torque_estimate(method: Any, problem: Problem, fit: TorqueFit, records: Sequence[TorqueRecord],
                    along: Sequence[ArmAlongMotion], trials: Sequence[FrictionTrial], began: float) -> Estimate:
    """Everything that follows from the fitted torques."""
    arm = fit.arm
    parameters, price, notes = (_consistent(fit, records, along, method.towards_file) if method.consistent else
                                (_all(fit), {}, []))
    settled = fit.at(np.array([parameters[name] for name in arm.parameters]), records, along)
    torques = torque_problem(arm, records, settled)
    uncertainty = torque_covariance(torques, settled)
    base = _base(fit, torque_covariance(torque_problem(arm, records, fit), fit))
    check = check_motion_noise(fit, records) if method.instruments else None
    trajectories, residuals = _signals(arm, torques, settled)
    file = _of_file(fit, records, along, method.weighting)
    result = RobotResult(
        arm.definition(), base, (*arm.without_effect, *fit.idle), parameters, _errors(arm, records, settled, file), price,
        records[0].cutoff, records[0].parallel, tuple(map(str, trials)), of_file=_all(file))
    if check is not None:
        result = replace(result, hausman=check.hausman, instrumental=check.instrumental,
                         instrumental_std=check.instrumental_std, didim=check.didim)
    spent = f"after {fit.passes} pass{'es' * (fit.passes != 1)}"
    status = Status(f"Converged {spent}." if fit.converged else f"No convergence of weights {spent}.",
                    StatusCode.CONVERGED if fit.converged else StatusCode.ITERATION_LIMIT)
    values = {name: parameters[name] for name in torques.names}
    return build_estimate(
        torques, method, values, uncertainty, trajectories, residuals, converged=fit.converged, status=status,
        cost=float(np.sum(settled.stacked()[0] ** 2)), noise_std=dict(zip(arm.inputs, map(float, fit.std), strict=True)),
        notes=[*_notes(arm, result, len(fit.held)), *notes, *(_instruments(arm, records) if check is not None else ()),
               *(n for r in records for n in r.notes), *arm.notes],
        counts={"iterations": fit.passes, "base_parameters": len(base), "parameters": len(arm.parameters)},
        times={"fit": time.perf_counter() - began}, statistics=information_criteria_of(torques, residuals), robot=result)


# the problem that was solved


def torque_problem(arm: RobotModel, records: Sequence[TorqueRecord], fit: TorqueFit) -> Problem:
    """From positions, velocities and accelerations to torques; parameters that no torque tells are held."""
    experiments = []
    for record, rows in zip(records, fit.rows, strict=True):
        motion = {f"{kind}{k + 1}": getattr(record.motion, kind)[record.rows, k] for kind in ("q", "dq", "ddq")
                  for k in range(arm.dof)}
        experiments.append(Experiment(
            record.motion.time[record.rows], inputs={name: motion[name] for name in arm.inverse.inputs},
            outputs={name: rows.measured[:, k] for k, name in enumerate(arm.inputs)}, name=record.name,
            units={name: arm.units[name] for name in (*arm.inverse.inputs, *arm.inputs)}))
    kept, scale = set(fit.base.independent.tolist()), typical_sizes(arm)
    parameters = [Parameter(name, start=float(arm.nominal_values[name].start if i in kept else fit.values[i]), free=i in kept,
                            unit=arm.units[name], scale=scale.get(name)) for i, name in enumerate(arm.parameters)]
    return Problem(arm.inverse, experiments, parameters)


def typical_sizes(arm: RobotModel) -> dict[str, float]:
    """Of masses, moments and inertias: the largest of the arm; a file that says 0 for a moment does not mean it."""
    sizes: dict[str, float] = {}
    for name, value in zip(arm.inertial_names, arm.tree.inertial, strict=True):
        sizes[name[0]] = max(sizes.get(name[0], 0.0), abs(float(value)))
    return {name: sizes[name[0]] for name in arm.inertial_names if sizes[name[0]] > 0}


def torque_covariance(problem: Problem, fit: TorqueFit) -> Covariance:
    """With errors that are as autocorrelated as the residuals are, joint by joint."""
    residuals, jacobian = fit.stacked()
    rows = ResidualIndex(
        np.concatenate([np.full(r.measured.size, e) for e, r in enumerate(fit.rows)]),
        np.concatenate([np.tile(np.arange(fit.arm.dof), len(r.measured)) for r in fit.rows]),
        np.concatenate([np.repeat(np.arange(len(r.measured)), fit.arm.dof) for r in fit.rows]))
    kept = fit.base.independent
    return covariance_from(problem, ResidualJacobian.dense(fit.values[kept], residuals, jacobian[:, kept], rows), {},
                           True, smallest=SINGULAR_VALUE_EXACT)


def _signals(arm: RobotModel, problem: Problem, fit: TorqueFit
             ) -> tuple[tuple[Trajectory, ...], tuple[Mapping[str, np.ndarray], ...]]:
    trajectories = tuple(Trajectory(e.name, np.asarray(e.time), {}, {n: r.predicted[:, k] for k, n in enumerate(arm.inputs)})
                         for e, r in zip(problem.experiments, fit.rows, strict=True))
    return trajectories, tuple({n: r.residual[:, k] for k, n in enumerate(arm.inputs)} for r in fit.rows)


# what is said about the arm


def _base(fit: TorqueFit, uncertainty: Covariance) -> tuple[BaseParameter, ...]:
    """Base parameters; what is held adds a constant, so that their intervals are as wide as those of the kept ones."""
    arm, nominal = fit.arm, fit.base.values(nominal_vector(fit.arm))
    found = []
    for i, value in enumerate(fit.base.values(fit.values)):
        name = arm.parameters[fit.base.independent[i]]
        low, high = uncertainty.interval(name)
        shift = float(value) - float(fit.values[fit.base.independent[i]])
        found.append(BaseParameter(name, fit.base.words(i), fit.base.coefficients(i), float(value), uncertainty.std(name),
                                   (low + shift, high + shift), float(nominal[i]), arm.units[name]))
    return tuple(found)


def _all(fit: TorqueFit) -> dict[str, float]:
    """Every parameter by name; those without effect as the file has them."""
    return fit.arm.nominal_inertial() | dict(zip(fit.arm.parameters, map(float, fit.values), strict=True))


def _consistent(fit: TorqueFit, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion], towards_file: float
                ) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """Parameters that bodies could have, what that costs each joint, and what there is to say."""
    fitted, arm = _all(fit), fit.arm
    if not have_clarabel():
        impossible = impossible_links(arm, fitted)
        links = ", ".join(map(str, impossible))
        return fitted, {}, [f"No body has the inertias of link {links} as fitted. {INSTALL}"] * bool(impossible)
    found = consistent_parameters(arm, fitted, fit.stacked()[1], towards_file, fit.held)
    if not found.solved:
        given = f" with {', '.join(fit.held)} held" if fit.held else ""
        return fitted, {}, [f"No physically consistent parameters were found{given} ({found.status}); the fitted ones stand."]
    after = fit.at(np.array([found.values[name] for name in arm.parameters]), records, along).rms
    price = {name: float(a - b) for name, a, b in zip(arm.inputs, after, fit.rms, strict=True)}
    return dict(found.values), price, []


def _of_file(fit: TorqueFit, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion], weighting: str) -> TorqueFit:
    """The file's inertias, with friction and motors fitted where the arm has any: what a better description must beat."""
    if fit.arm.drive_names:
        return fit_torques(fit.arm, records, along, weighting, fit.arm.drive_names)
    return fit.at(nominal_vector(fit.arm), records, along)


def _errors(arm: RobotModel, records: Sequence[TorqueRecord], fit: TorqueFit, nominal: TorqueFit) -> tuple[JointErrors, ...]:
    """RMS of each joint, beside that of the file's inertias with friction of our own."""
    found = []
    for record, own, other in zip(records, fit.rows, nominal.rows, strict=True):
        speed = np.abs(record.motion.dq[record.rows])
        found += [JointErrors(name, record.name, *map(float, (
            rms(own.residual[:, k]), rms(own.residual[speed[:, k] > MOVING, k]), rms(other.residual[:, k]))))
            for k, name in enumerate(arm.inputs)]
    return tuple(found)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else float("nan")


def _notes(arm: RobotModel, result: RobotResult, held: int) -> list[str]:
    sought = len(arm.parameters) - held
    of = f"{sought} parameters" if not held else f"{sought} free parameters of {len(arm.parameters)}"
    notes = [f"The torques tell {len(result.base)} combination{'s' * (len(result.base) != 1)} of {of} (estimate.base); "
             f"{len(arm.parameters) - len(result.base)} are fixed, and intervals hold given their values."]
    unsure = sum(not b.differs_from_zero for b in result.base)
    notes += [f"{unsure} of these do not differ from zero."] * bool(unsure)
    notes += [f"{', '.join(result.without_effect)} act on nothing."] * bool(result.without_effect)
    if result.price:
        worst = max(result.price, key=lambda name: result.price[name])
        largest = max(e.rms for e in result.errors)
        adds = (f"adds {result.price[worst]:.2g} {arm.units[worst]} to the RMS of {worst} and less to the others"
                if result.price[worst] > NO_PRICE * largest else "costs nothing")
        notes.append(f"The values are physically consistent (each link's pseudo-inertia is positive), which {adds}; the base "
                     "parameters are given as fitted, without that.")
    notes += [f"Friction: {trial}." for trial in result.friction]
    notes += [str(check) for check in (result.hausman, result.didim) if check is not None]
    return notes


def _instruments(arm: RobotModel, records: Sequence[TorqueRecord]) -> list[str]:
    """Where the instruments come from."""
    without = [f"'{record.name}'" for record in records if record.command is None]
    if not without:
        return [f"The instruments are the regressor along the recorded command ({arm.commands[0]}, ...)."]
    return [f"No command was recorded in {', '.join(without)} ({arm.commands[0]}, ...): the instruments are the regressor "
            f"along the measured motion without all above {OVER_BANDWIDTH:g} times its bandwidth; noise below that stays."]


# another record


def torque_validation(estimate: Estimate, experiment: Experiment) -> Validation:
    """Torques along the motion of another record, filtered as those of the fit were."""
    if estimate.robot is None:  # pragma: no cover - every estimate of this method has one
        raise ValueError("no robot")
    arm = RobotModel.from_definition(estimate.robot.robot)
    rate = (experiment.samples - 1) / float(experiment.time[-1] - experiment.time[0])
    decimate = max(1, round(PARALLEL_CUTOFF * rate / estimate.robot.parallel_cutoff))
    record = torque_record(arm, experiment if experiment.name else experiment.with_name("validation"), estimate.robot.cutoff,
                           decimate)
    torque, _ = ArmAlongMotion.of(arm, record.motion).torque_and_jacobian(estimate.robot.parameters)
    when = record.motion.time[record.rows]
    predicted, measured = record.filtered(torque), record.filtered(record.torque)
    compared = Experiment(when, outputs={n: measured[:, k] for k, n in enumerate(arm.inputs)}, name=record.name)
    trajectory = Trajectory(record.name, when, {}, {n: predicted[:, k] for k, n in enumerate(arm.inputs)})
    speed, joints = np.abs(record.motion.dq[record.rows]), range(arm.dof)
    own = [rms((measured - predicted)[speed[:, k] > MOVING, k]) for k in joints]
    note = (f"RMS while the joint moves (faster than {MOVING:g}; at rest friction is any torque up to Coulomb's): "
            f"{_listed(own)} ({arm.inputs[0]} to {arm.inputs[-1]})")
    if estimate.robot.of_file is not None:
        file = record.filtered(ArmAlongMotion.of(arm, record.motion).torque_and_jacobian(estimate.robot.of_file)[0])
        beside = [rms((measured - file)[speed[:, k] > MOVING, k]) for k in joints]
        note += f"; with the inertias of the robot's file and friction fitted: {_listed(beside)}"
    found = validation_metrics(compared, trajectory, estimate.noise_std)
    return Validation(found.experiment, found.fit, found.rmse, found.tests, found.trajectory, found.residuals,
                      (f"{note}.", *record.notes))


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
