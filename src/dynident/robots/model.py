"""RobotModel: how does a URDF become a model of a problem?"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import casadi as ca
import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.models.algebraic import solve_symmetric
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.model import NominalValue
from dynident.robots import rigid_body
from dynident.robots.drive_file import MOTOR_INERTIA, read_drives
from dynident.robots.friction import AUTO, FRICTION_LAWS, SIGN_VELOCITY, friction_per_joint, sign_of
from dynident.robots.kinematic_tree import INERTIAL_PARAMETERS, kinematic_tree
from dynident.robots.rigid_body import GRAVITY
from dynident.robots.urdf import Urdf, read_urdf

KIND = "robot"
MOST_EXPLICIT = 3  # joints whose accelerations are written out; the equations of more fill pages, and are not quicker
UNIT_OF = {"m": "kg", "h": "kg m", "I": "kg m^2"}  # by first letter


@final
class RobotModel:
    """A robot arm, or any tree of links, from a URDF file.

    Joints are numbered along the chain, in the order of the file where it branches: inputs are the torques `tau1`, ..., outputs
    the positions `q1`, ... and velocities `dq1`, .... Parameters of link k are its mass `m_k`, first moments `hx_k` and inertia
    `Ixx_k` about the origin of its joint's frame, in which all torques are linear; `Fc_2`, `Fv_2` are friction, `Ia_2` the
    inertia of a motor. Their values are those of the file unless a problem says otherwise. See
    the manual, methods/inverse_dynamics.

    Parameters
    ----------
    urdf : str, Path or Urdf
        The file, or its text.
    tool : str, optional
        A link; only joints on the way to it move.
    lock : mapping of str to float, or sequence of str, default ()
        Joints that stand still, at zero or at these positions (rad or m).
    friction : str, sequence of str, or mapping of str to sequence of str, default ('coulomb', 'viscous')
        Laws for all joints or by joint, "none", or "auto" (see `inverse_dynamics`).
    motor_inertia : bool, default False
        Whether each joint has the inertia of a motor as a parameter.
    offset : bool, default False
        Whether each joint has a constant torque as a parameter.
    gravity : sequence of float, default (0.0, 0.0, -9.81)
        In m/s^2 along the axes of the base.
    sign_velocity : float, default 0.01
        Velocity over which dry friction is smoothed, in rad/s or m/s.
    values : mapping of str to float, optional
        Parameters with other values than the file's, in SI units.

    Raises
    ------
    ProblemError
        For a file that is no URDF, inertias that no body can have, and names that are none.

    Examples
    --------
    >>> import dynident as di
    >>> arm = di.RobotModel(di.library.two_link_urdf())
    >>> arm.inputs, arm.outputs
    (('tau1', 'tau2'), ('q1', 'q2', 'dq1', 'dq2'))
    """

    def __init__(self, urdf: str | Path | Urdf, *, tool: str | None = None, lock: Mapping[str, float] | Sequence[str] = (),
                 friction: str | Sequence[str] | Mapping[str, Sequence[str]] = ("coulomb", "viscous"),
                 motor_inertia: bool = False, offset: bool = False, gravity: Sequence[float] = GRAVITY,
                 sign_velocity: float = SIGN_VELOCITY, values: Mapping[str, float] | None = None):
        self.urdf = urdf if isinstance(urdf, Urdf) else read_urdf(urdf)
        self.tree = kinematic_tree(self.urdf, tool, lock)
        self.joints = tuple(joint.name for joint in self.tree.joints)
        _check_inertias(self.urdf, self.tree)
        self.gravity = _vector(gravity)
        if not (math.isfinite(sign_velocity) and sign_velocity > 0):
            raise ProblemError(f"sign_velocity = {sign_velocity}; give a positive velocity.")
        self.sign_velocity = float(sign_velocity)
        self.choose_friction = isinstance(friction, str) and friction == AUTO
        self.friction = friction_per_joint(friction, self.joints, offset)
        self.motor_inertia = bool(motor_inertia)
        self._options: dict[str, Any] = {
            "tool": tool, "lock": dict(lock) if isinstance(lock, Mapping) else list(lock),
            "friction": AUTO if self.choose_friction else {name: list(laws) for name, laws in zip(self.joints, self.friction,
                                                                                                  strict=True)},
            "motor_inertia": self.motor_inertia, "offset": bool(offset), "gravity": list(self.gravity),
            "sign_velocity": self.sign_velocity, "values": {str(k): float(v) for k, v in (values or {}).items()}}
        self.name = self.urdf.name or "robot"
        n = range(1, self.dof + 1)
        self.inputs = tuple(f"tau{k}" for k in n)
        self.states = (*(f"q{k}" for k in n), *(f"dq{k}" for k in n))
        self.outputs = self.states
        known = (*self.inertial_names, *self.drive_names)
        if faults := [f"values: there is no parameter '{name}'.{did_you_mean(name, known)}" for name in self._options["values"]
                      if name not in known]:
            raise ProblemError(faults)

    @property
    def commands(self) -> tuple[str, ...]:
        """Positions that a controller asked for, as inputs of a record: instruments of `inverse_dynamics` follow them."""
        return tuple(f"q{k}_command" for k in range(1, self.dof + 1))

    def without_commands(self, experiment: Experiment) -> Experiment:
        """The record of what drives the arm itself."""
        return replace(experiment, inputs={n: u for n, u in experiment.inputs.items() if n not in self.commands},
                       hold={n: how for n, how in experiment.hold.items() if n not in self.commands},
                       units={n: unit for n, unit in experiment.units.items() if n not in self.commands})

    modes = ("",)
    hybrid = False
    stepwise: tuple[str, ...] = ()
    sample_time: float | None = None
    delays = ()

    def why_not_estimable(self, name: str) -> str:
        """Why an inertial parameter, or the friction of a law that was not asked for, is none of the parameters."""
        if name in self.without_effect:
            return f"'{name}' acts on no torque of this arm, so no record tells it."
        laws = {f"{law.prefix}_{k + 1}": key for key, law in FRICTION_LAWS.items() for k in range(self.dof)}
        return f"'{name}' belongs to the friction law \"{laws[name]}\", which this arm was not given." if name in laws else ""

    @property
    def dof(self) -> int:
        """Number of joints that move."""
        return self.tree.dof

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the file noticed, as sentences."""
        return self.urdf.notes

    # parameters

    @functools.cached_property
    def inertial_names(self) -> tuple[str, ...]:
        """Ten per body, in the order of `tree.inertial`."""
        return tuple(f"{name}_{k + 1}" for k in range(len(self.tree.bodies)) for name in INERTIAL_PARAMETERS)

    @functools.cached_property
    def drive_names(self) -> tuple[str, ...]:
        """Friction and motor inertia, joint by joint."""
        names = [f"{FRICTION_LAWS[law].prefix}_{k + 1}" for k, laws in enumerate(self.friction) for law in laws]
        return (*names, *(f"{MOTOR_INERTIA}_{k + 1}" for k in range(self.dof) if self.motor_inertia))

    @functools.cached_property
    def parameters(self) -> tuple[str, ...]:
        """All that have an effect on a torque."""
        return tuple(name for name in (*self.inertial_names, *self.drive_names) if name not in self.without_effect)

    @functools.cached_property
    def without_effect(self) -> tuple[str, ...]:
        """Inertial parameters that act on no torque, whatever the motion."""
        q, dq, ddq = (ca.SX.sym(name, self.dof) for name in ("q", "dq", "ddq"))
        matrix = rigid_body.regressor(self.tree, q, dq, ddq, self.gravity)
        return tuple(name for i, name in enumerate(self.inertial_names) if not matrix[:, i].nnz())

    @functools.cached_property
    def nominal_values(self) -> Mapping[str, NominalValue]:
        """The file's values; friction from `<dynamics>`, motor inertia zero."""
        values = dict(zip(self.inertial_names, map(float, self.tree.inertial), strict=True))
        for k, joint in enumerate(self.tree.joints):
            values |= {f"{law.prefix}_{k + 1}": 0.0 for law in FRICTION_LAWS.values()} | {f"{MOTOR_INERTIA}_{k + 1}": 0.0}
            values |= {f"Fc_{k + 1}": joint.friction, f"Fv_{k + 1}": joint.damping}
        values |= self._options["values"]
        return MappingProxyType({name: NominalValue(values[name], unit=self.units[name]) for name in self.parameters})

    @property
    def stated_values(self) -> Mapping[str, float]:
        """Parameters that were given other values than the file's."""
        return MappingProxyType(self._options["values"])

    def nominal_inertial(self) -> dict[str, float]:
        """All inertial parameters by name, those without effect included."""
        values = dict(zip(self.inertial_names, map(float, self.tree.inertial), strict=True))
        return values | {name: v for name, v in self._options["values"].items() if name in values}

    @functools.cached_property
    def units(self) -> Mapping[str, str]:
        """By name of a parameter or signal."""
        units = {"time": "s"} | {name: UNIT_OF[name[0]] for name in self.inertial_names}
        for k, joint in enumerate(self.tree.joints):
            prismatic = joint.kind == "prismatic"
            length = "m" if prismatic else "rad"
            units |= {f"q{k + 1}": length, f"dq{k + 1}": f"{length}/s", f"ddq{k + 1}": f"{length}/s^2",
                      f"tau{k + 1}": "N" if prismatic else "N m", f"{MOTOR_INERTIA}_{k + 1}": "kg" if prismatic else "kg m^2"}
            units |= {f"{law.prefix}_{k + 1}": law.prismatic_unit if prismatic else law.unit for law in FRICTION_LAWS.values()}
        return MappingProxyType(units)

    # equations

    def torques(self, q: ca.SX, dq: ca.SX, ddq: ca.SX, p: Mapping[str, Any]) -> ca.SX:
        """(dof, 1) torques of the drives: links, friction and motors; `p` holds a value or symbol by name (none: zero)."""
        inertial = ca.vertcat(*(ca.SX(p.get(name, 0)) for name in self.inertial_names))
        load = rigid_body.newton_euler(self.tree, q, dq, ddq, inertial, self.gravity)
        total = []
        for k, laws in enumerate(self.friction):
            sign = sign_of(dq[k], self.sign_velocity)
            lost = sum((p.get(f"{FRICTION_LAWS[law].prefix}_{k + 1}", 0) * FRICTION_LAWS[law].column(dq[k], sign, load[k])
                        for law in laws), ca.SX(0))
            total.append(load[k] + lost + p.get(f"{MOTOR_INERTIA}_{k + 1}", 0) * ddq[k])
        return ca.vertcat(*total)

    @functools.cached_property
    def inverse(self) -> EquationModel:
        """The inverse dynamics as equations without states: from q, dq and ddq to torques."""
        symbols = {name: ca.SX.sym(name) for name in self.parameters}
        motion = {f"{kind}{k + 1}": ca.SX.sym(f"{kind}{k + 1}") for kind in ("q", "dq", "ddq") for k in range(self.dof)}

        def torques_of(u: Mapping[str, Any], p: Mapping[str, Any]) -> ca.SX:
            q, dq, ddq = (ca.vertcat(*(u[f"{kind}{k + 1}"] for k in range(self.dof))) for kind in ("q", "dq", "ddq"))
            return self.torques(q, dq, ddq, p)

        used = {symbol.name() for symbol in ca.symvar(torques_of(motion, symbols))}
        inputs = [name for name in motion if name in used]  # nothing depends on where an arm stands on its turntable

        def output(t: Any, x: Any, u: Any, p: Any) -> dict[str, Any]:
            torque = torques_of({name: u[name] if name in used else 0.0 for name in motion},
                                {name: p[name] for name in self.parameters})
            return {f"tau{k + 1}": torque[k] for k in range(self.dof)}

        units = {name: self.units[name] for name in (*inputs, *self.parameters, *self.inputs)}
        return EquationModel(states=[], inputs=inputs, output=output, parameters=list(self.parameters), units=units,
                             name=f"{self.name}_inverse")

    @functools.cached_property
    def equations(self) -> EquationModel:
        """The forward dynamics as equations of all parameters."""
        return self.forward(self.parameters)

    def forward(self, parameters: Sequence[str]) -> EquationModel:
        """The forward dynamics as equations of these parameters, the others at their nominal values.

        Up to three joints M(q) ddq = tau - bias - friction is solved for ddq symbol by symbol. Accelerations of more joints,
        and those that load-dependent friction follows, are algebraic variables: torques(q, dq, ddq) = tau.
        """
        n = range(1, self.dof + 1)
        implicit = self.dof > MOST_EXPLICIT or any("load" in laws for laws in self.friction)

        def rate(t: Any, x: Any, u: Any, p: Any) -> list[Any]:
            q, dq = (ca.vertcat(*(x[f"{kind}{k}"] for k in n)) for kind in ("q", "dq"))
            values = {name: p[name] if name in parameters else it.start for name, it in self.nominal_values.items()}
            torque = ca.vertcat(*(u[f"tau{k}"] for k in n))
            if implicit:
                ddq = ca.vertcat(*(x[f"ddq{k}"] for k in n))
                moved = [*ca.vertsplit(ddq), *ca.vertsplit(self.torques(q, dq, ddq, values) - torque)]
            else:
                bias = self.torques(q, dq, ca.SX(self.dof, 1), values)
                moved = ca.vertsplit(solve_symmetric(self.mass_matrix(q, values), torque - bias))
            return [*(x[f"dq{k}"] for k in n), *moved]

        units = {name: self.units[name] for name in (*self.states, *self.inputs, *parameters)}
        return EquationModel(states=list(self.states), algebraic=[f"ddq{k}" for k in n] if implicit else None,
                             inputs=list(self.inputs), rate=rate, parameters=list(parameters), units=units, name=self.name)

    def mass_matrix(self, q: ca.SX, p: Mapping[str, Any]) -> ca.SX:
        """(dof, dof) of links and motors."""
        inertial = ca.vertcat(*(ca.SX(p.get(name, 0)) for name in self.inertial_names))
        motors = ca.vertcat(*(ca.SX(p.get(f"{MOTOR_INERTIA}_{k + 1}", 0)) for k in range(self.dof)))
        return rigid_body.mass_matrix(self.tree, q, inertial) + ca.diag(motors)

    @functools.cached_property
    def regressor(self) -> ca.Function:
        """(q, dq, ddq) -> (dof, 10 bodies) of the inertial parameters, all of them."""
        q, dq, ddq = (ca.SX.sym(name, self.dof) for name in ("q", "dq", "ddq"))
        return ca.Function("regressor", [q, dq, ddq],
                           [ca.densify(rigid_body.regressor(self.tree, q, dq, ddq, self.gravity))])

    # as data

    def with_friction(self, laws: Mapping[str, Sequence[str]]) -> RobotModel:
        """The same arm with other friction laws, by joint."""
        return RobotModel(self.urdf, **{**self._options, "friction": laws, "offset": False})

    def with_values(self, values: Mapping[str, float]) -> RobotModel:
        """The same arm with other nominal values, by name."""
        return RobotModel(self.urdf, **{**self._options, "values": {**self._options["values"], **values}})

    def definition(self) -> dict[str, Any]:
        """What the answer depends on, as plain data; the robot with its text."""
        return {"kind": KIND, "urdf": self.urdf.text, "source": self.urdf.source, **self._options}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> RobotModel:
        """The model that `definition()` describes."""
        return cls(definition["urdf"], **{k: v for k, v in definition.items() if k not in ("kind", "urdf", "source")})

    @classmethod
    def from_identified(cls, given: Any, arm: RobotModel | None = None) -> RobotModel:
        """The arm that an identification found, friction laws and motors included, as a model to compute and control with.

        Parameters
        ----------
        given : Estimate, str or Path
            An estimate by `inverse_dynamics`, or the path of a URDF that `to_urdf` wrote; the TOML file beside it is read too.
        arm : RobotModel, optional
            The arm that was fitted, for an estimate by a method that simulates: such an estimate holds equations only.

        Returns
        -------
        RobotModel
            Its nominal values are the identified parameters.

        Raises
        ------
        ProblemError
            For an estimate of no robot, and for files that do not belong together.

        Examples
        --------
        >>> import dynident as di
        >>> arm = di.RobotModel(di.library.two_link_urdf(), motor_inertia=True, friction=["coulomb", "cubic"])
        >>> path = arm.with_values({"Ia_2": 0.4, "F3_1": 0.2}).to_urdf("identified.urdf")
        >>> again = di.RobotModel.from_identified(path)
        >>> again.nominal_values["Ia_2"].start, again.friction[0]
        (0.4, ('coulomb', 'cubic'))
        """
        if isinstance(given, (str, Path)):
            urdf = read_urdf(given)
            return cls(urdf, **read_drives(given, [joint.name for joint in kinematic_tree(urdf).joints]))
        found = getattr(given, "robot", None)
        if found is not None:
            return cls.from_definition(found.robot).with_values(found.parameters)
        values = getattr(given, "values", None)
        if not isinstance(values, Mapping) or arm is None:
            raise ProblemError("from_identified takes an estimate of inverse_dynamics(), the path of a URDF that to_urdf "
                               "wrote, or the estimate of another method with the arm that it fitted: "
                               "from_identified(estimate, arm).")
        fitted = {name: float(value) for name, value in values.items() if name in arm.parameters}
        if not fitted:
            raise ProblemError(f"The estimate holds no parameter of {arm.name}; is it of another model?")
        return arm.with_values(fitted)

    def to_urdf(self, path: str | Path) -> Path:
        """Write this arm as a URDF, and what that cannot hold into a TOML file beside it; `from_identified` reads both."""
        from dynident.robots.write_urdf import write_urdf

        drives = {name: self.nominal_values[name].start for name in self.drive_names}
        return write_urdf(self, self.nominal_inertial() | drives, path)

    def renamed(self, experiment: Experiment) -> Experiment:
        """A record that names signals by joints, by our names: `shoulder` is its position, `shoulder_effort` its torque."""
        ours: dict[str, dict[str, str]] = {"inputs": {}, "outputs": {}}
        for k, joint in enumerate(self.joints, 1):
            ours["inputs"] |= dict.fromkeys((joint, f"{joint}_effort", f"{joint}_torque"), f"tau{k}")
            ours["inputs"] |= {f"{joint}_command": f"q{k}_command"}
            ours["outputs"] |= {joint: f"q{k}", f"{joint}_position": f"q{k}", f"{joint}_velocity": f"dq{k}"}
        own = {"inputs": (*self.inputs, *self.commands), "outputs": self.outputs}
        found = {kind: {name: new for name, new in names.items()
                        if name in getattr(experiment, kind) and new not in getattr(experiment, kind) and name not in own[kind]}
                 for kind, names in ours.items()}
        places = {"inputs": found["inputs"], "before": found["inputs"], "hold": found["inputs"], "outputs": found["outputs"],
                  "filters": found["outputs"], "initial": found["outputs"],
                  "noise": {**found["inputs"], **found["outputs"]}, "units": {**found["inputs"], **found["outputs"]}}
        changed: dict[str, Any] = {field: {names.get(key, key): value for key, value in getattr(experiment, field).items()}
                                   for field, names in places.items()}
        return replace(experiment, **changed)

    def __str__(self) -> str:
        lines = [f"RobotModel {self.name}: {self.dof} joints, {len(self.parameters)} parameters with an effect on torques"]
        for k, (joint, laws) in enumerate(zip(self.tree.joints, self.friction, strict=True)):
            body = next(b for b in self.tree.bodies if b.joint.name == joint.name)
            lines.append(f"  {k + 1} {joint.name} ({joint.kind}) moves {body.link}, {body.inertial[0]:.4g} kg; friction: "
                         f"{', '.join(laws) or 'none'}")
        lines += [f"  acts on nothing: {', '.join(self.without_effect)}"] * bool(self.without_effect)
        return "\n".join(lines)

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return RobotModel.from_definition, (self.definition(),)


def _check_inertias(urdf: Urdf, tree: Any) -> None:
    """Refuse a file with kinematics only; a massless tip would make the mass matrix singular."""
    if all(it is None for it in urdf.links.values()):
        raise ProblemError(f"{urdf.source} holds no <inertial> at all: kinematics only. Add masses and inertias, rough ones "
                           "will do as start values, or take the maker's description for simulation.")
    parents = {body.parent for body in tree.bodies}
    weightless = [body.link for i, body in enumerate(tree.bodies) if i not in parents and not body.inertial[0] > 0]
    if weightless:
        raise ProblemError([f"{urdf.source}: link '{link}' ends the arm and has no mass, so nothing resists its joint's "
                            "torque. Add its <inertial>, or lock the joint." for link in weightless])


def _vector(gravity: Sequence[float]) -> tuple[float, float, float]:
    try:
        values = np.asarray(gravity, float)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.shape != (3,) or not np.all(np.isfinite(values)):
        raise ProblemError(f"gravity = {gravity!r}; give three numbers along the axes of the base, as in (0, 0, -9.81).")
    x, y, z = map(float, values)
    return x, y, z
