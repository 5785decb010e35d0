"""Payload: what hangs on an arm, from a record without it and one with it?

The arm's own parameters are the same in both; ten more act in the loaded record only, with the columns of the last link. One
weighted least squares problem finds both, so that what is not known of the arm widens the payload's intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.errors import NotSupported, ProblemError
from dynident.inverse_dynamics.base_parameters import choose_base
from dynident.inverse_dynamics.method import InverseDynamics
from dynident.inverse_dynamics.run import TorqueFit, TorqueRows, fit_torques, refit
from dynident.inverse_dynamics.setup import ArmAlongMotion, torque_record
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex
from dynident.linalg.rank import pseudo_inverse_of_independent
from dynident.problem.experiment import Experiment
from dynident.robots.kinematic_tree import INERTIAL_PARAMETERS
from dynident.robots.model import RobotModel
from dynident.statistics.autocorrelation import coloured_noise, effective_dof
from dynident.statistics.distributions import student_quantile

UNITS = {"m": "kg", "h": "kg m", "I": "kg m^2", "c": "m"}


@dataclass(frozen=True, eq=False)
class RobotPayload:
    """The payload of an arm: mass, first moments, centre and inertia in the frame of the last joint.

    Inertias are about the origin of that frame; an interval is infinite where the motion does not tell. See the manual,
    methods/inverse_dynamics.

    Attributes
    ----------
    link : str
        On which it hangs.
    values : dict of str to float
        `m` (kg), `hx`, `hy`, `hz` (kg m), `Ixx`, ... (kg m^2), and the centre `cx`, `cy`, `cz` (m).
    std : dict of str to float
        Standard deviations of these.
    dof : float
        Fewest degrees of freedom of a variance.
    rms : dict of str to float
        Residuals of the loaded record by joint, in N m.
    rms_without : dict of str to float
        The same without payload.

    Examples
    --------
    >>> import dynident as di
    >>> names = ("m", "cx", "cy", "cz")
    >>> load = di.RobotPayload("flange", dict.fromkeys(names, 2.0), dict.fromkeys(names, 0.1), 100.0, {}, {})
    >>> low, high = load.interval("m")
    >>> print(f"{low:.1f} to {high:.1f} kg")
    1.8 to 2.2 kg
    """

    link: str
    values: dict[str, float]  # m, hx, hy, hz, Ixx, ..., and the centre cx, cy, cz
    std: dict[str, float]
    dof: float  # fewest degrees of freedom of a variance
    rms: dict[str, float]  # of the loaded record, by joint
    rms_without: dict[str, float]  # the same without payload

    def interval(self, name: str) -> tuple[float, float]:
        """(low, high) at 95 %, from the t distribution."""
        reach = student_quantile(0.975, self.dof) * self.std[name]
        return self.values[name] - reach, self.values[name] + reach

    @property
    def mass(self) -> float:
        """In kg."""
        return self.values["m"]

    @property
    def centre(self) -> tuple[float, float, float]:
        """Centre of mass, in m."""
        return self.values["cx"], self.values["cy"], self.values["cz"]

    def __str__(self) -> str:
        lines = [f"Payload on {self.link}, in the frame of its joint"]
        for name in ("m", "cx", "cy", "cz", *INERTIAL_PARAMETERS[4:]):
            low, high = self.interval(name)
            lines.append(f"  {name:4} {self.values[name]:10.4g} +- {(high - low) / 2:.2g} {UNITS[name[0]]}")
        return "\n".join(lines)


@single_thread()
def identify_payload(arm: RobotModel, empty: Sequence[Experiment] | Experiment, loaded: Sequence[Experiment] | Experiment,
                     method: InverseDynamics | None = None) -> RobotPayload:
    """The payload of the last link, from records without and with it.

    See the manual, methods/inverse_dynamics.

    Parameters
    ----------
    arm : RobotModel
        With friction laws that are linear and chosen, without "load".
    empty : Experiment or sequence of Experiment
        Records without the payload: torques as inputs, positions (and velocities) as outputs.
    loaded : Experiment or sequence of Experiment
        Records with it.
    method : inverse_dynamics, optional
        Whose filters and weights are used; `inverse_dynamics()` if left out.

    Returns
    -------
    RobotPayload
        Mass, centre and inertia, each with its interval.

    Raises
    ------
    ProblemError
        For a record that is missing.
    NotSupported
        For friction that depends on the load, or that is to be chosen.

    Examples
    --------
    >>> import numpy as np
    >>> import dynident as di
    >>> arm, t = di.RobotModel(di.library.two_link_urdf(), friction="none"), np.linspace(0, 20, 1001)
    >>> motion = {"q1": np.sin(t), "dq1": np.cos(t), "ddq1": -np.sin(t),
    ...           "q2": np.sin(2*t), "dq2": 2*np.cos(2*t), "ddq2": -4*np.sin(2*t)}
    >>> def record(hz):
    ...     values = {name: it.start for name, it in arm.nominal_values.items()} | {"hz_2": 0.75 + hz}
    ...     inputs = {name: motion[name] for name in arm.inverse.inputs}
    ...     torques = di.simulate(arm.inverse, values, di.Experiment(t, inputs)).outputs
    ...     return di.Experiment(t, torques, {name: motion[name] for name in arm.outputs}, hold="linear")
    >>> payload = di.identify_payload(arm, record(0.0), record(0.5))  # 0.5 kg m further out
    >>> print(f"{payload.values['hz']:.2f}")
    0.50
    """
    method = method or InverseDynamics()
    if any("load" in laws for laws in arm.friction) or arm.choose_friction:
        raise NotSupported("A payload is found with friction laws that are linear and chosen: name them, without \"load\".")
    runs = [list([e] if isinstance(e, Experiment) else e) for e in (empty, loaded)]
    if not all(runs):
        raise ProblemError("give at least one record without and one with the payload.")
    records = [torque_record(arm, e, method.filter, method.decimate) for e in (*runs[0], *runs[1])]
    along = [ArmAlongMotion.of(arm, record.motion) for record in records]
    without = fit_torques(arm, records, along, method.weighting)
    columns = [record.filtered(it.links[:, :, -10:]) for record, it in zip(records, along, strict=True)]
    fit = _with_payload(without, [k >= len(runs[0]) for k in range(len(records))], columns, method.weighting)
    return _payload(arm, fit, without, len(runs[0]))


def _with_payload(fit: TorqueFit, carries: Sequence[bool], columns: Sequence[np.ndarray], weighting: str) -> TorqueFit:
    """The same least squares problem with ten more columns, zero where nothing is carried."""
    rows = tuple(TorqueRows(r.measured, r.predicted, np.concatenate([r.jacobian, c * float(on)], axis=2))
                 for r, c, on in zip(fit.rows, columns, carries, strict=True))
    names = (*fit.arm.parameters, *(f"{name}_payload" for name in INERTIAL_PARAMETERS))
    stacked = np.concatenate([(r.jacobian / fit.std[:, None]).reshape(-1, len(names)) for r in rows])
    count = len(fit.arm.parameters)
    order = [*range(count, len(names)), *range(count)]  # the payload is kept where it can be
    numbered = [f"Fc_{k}" for k in range(10)] + [names[i] for i in order[10:]]
    chosen = choose_base(numbered, stacked[:, order])
    kept = np.array(sorted(order[i] for i in chosen.independent))
    wider = replace(fit, values=np.append(fit.values, np.zeros(10)), rows=rows, base=replace(chosen, independent=kept))
    return refit(wider, weighting)


def _payload(arm: RobotModel, fit: TorqueFit, without: TorqueFit, first: int) -> RobotPayload:
    kept, count = fit.base.independent, len(arm.parameters)
    residuals, jacobian = fit.stacked()
    index = ResidualIndex(np.concatenate([np.full(r.measured.size, e) for e, r in enumerate(fit.rows)]),
                          np.concatenate([np.tile(np.arange(arm.dof), len(r.measured)) for r in fit.rows]),
                          np.concatenate([np.repeat(np.arange(len(r.measured)), arm.dof) for r in fit.rows]))
    basis = np.linalg.qr(jacobian[:, kept])[0]
    noise, gain = coloured_noise(residuals, index, BlockRows.of(basis)), pseudo_inverse_of_independent(jacobian[:, kept])
    own = [int(np.flatnonzero(kept == count + i)[0]) if count + i in kept else -1 for i in range(10)]
    seen = [k for k in own if k >= 0]
    covariance = np.full((10, 10), 0.0)
    covariance[np.ix_([k >= 0 for k in own], [k >= 0 for k in own])] = noise.covariance_of(gain[seen].T)
    std = {name: float(np.sqrt(covariance[i, i])) if own[i] >= 0 else np.inf for i, name in enumerate(INERTIAL_PARAMETERS)}
    values = dict(zip(INERTIAL_PARAMETERS, map(float, fit.values[count:]), strict=True))
    for i, axis in enumerate("xyz", 1):  # c = h / m
        values[f"c{axis}"] = values[f"h{axis}"] / values["m"] if values["m"] else np.nan
        slope = np.array([-values[f"c{axis}"], 1.0]) / values["m"] if values["m"] else np.zeros(2)
        known = own[0] >= 0 and own[i] >= 0
        std[f"c{axis}"] = float(np.sqrt(slope @ covariance[np.ix_([0, i], [0, i])] @ slope)) if known else np.inf
    leverage = 1 - np.sum(basis**2, axis=1)
    moves = BlockRows.of(gain[seen].T)  # each column how errors move an unknown
    dof = float(np.min(effective_dof(noise, moves, lambda some: np.eye(len(seen))[:, some], leverage))) if seen else np.inf

    def of(it: TorqueFit) -> dict[str, float]:
        errors = np.concatenate([r.residual for r in it.rows[first:]])
        return dict(zip(arm.inputs, map(float, np.sqrt(np.mean(errors**2, axis=0))), strict=True))

    return RobotPayload(arm.tree.bodies[-1].link, values, std, dof, of(fit), of(without))
