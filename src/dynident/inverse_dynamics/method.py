"""Inverse dynamics: the options of the method, checked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar

from dynident.errors import NotSupported
from dynident.estimate.estimate import Estimate, Validation
from dynident.inverse_dynamics.consistency import TOWARDS_NOMINAL
from dynident.inverse_dynamics.friction_choice import FrictionTrial, choose_friction
from dynident.inverse_dynamics.result import torque_estimate, torque_validation
from dynident.inverse_dynamics.run import WEIGHTINGS, fit_torques
from dynident.inverse_dynamics.setup import ArmAlongMotion, torque_record
from dynident.methods.capabilities import Capabilities, Support, check_supports
from dynident.methods.method import Method
from dynident.methods.options import (
    check_options,
    documented,
    is_number,
    one_of,
    option,
    positive_number,
    true_or_false,
    whole_number,
)
from dynident.problem.experiment import Experiment
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.robots.model import RobotModel


def frequency(name: str, value: Any) -> list[str]:
    good = value == "auto" if isinstance(value, str) else is_number(value) and value > 0
    return [] if good else [f"{name} = {value!r}; give a frequency in Hz, or \"auto\"."]

DISTURBED = ("{method} takes torques as all that moves the arm, but the problem states process noise of {names}. Leave it "
             "out (problem.with_output_noise_only()): what disturbs the arm is among the errors of the torques, "
             "which the fit finds.")
NOISY_TORQUES = ("{method} finds the errors of the torques itself, from what the fit leaves over, but the problem states noise "
                 "of {names}. Leave it out (problem.with_output_noise_only()).")


@documented
@dataclass(frozen=True)
class InverseDynamics(Method):
    """Robots: least squares on torques that are linear in the parameters, along the measured and filtered motion.

    See the manual, methods/inverse_dynamics.

    Examples
    --------
    >>> import dynident as di
    >>> di.inverse_dynamics(filter=8.0, decimate=4).weighting
    'joints'
    """

    filter: float | str = option("auto", "Cut-off of the zero-phase filter of the motion; \"auto\": from its bandwidth.",
                                 frequency, unit="Hz")
    decimate: int | str = option("auto", "Every so many-th sample is kept, after both sides passed a low-pass below it.",
                                 whole_number(1, "auto"))
    weighting: str = option("joints", "\"joints\": each joint by its own errors; \"huber\": robust too; \"none\".",
                            one_of(WEIGHTINGS))
    consistent: bool = option(True, "Give parameters that real bodies could have (with the extra `robots`).", true_or_false)
    towards_file: float = option(TOWARDS_NOMINAL, "Of consistent values: weight of staying near the robot's file, relative to "
                                 "that of the torques; so small it decides only what torques do not.", positive_number)
    instruments: bool = option(False, "Instrumental variables, DIDIM, and the test whether least squares is biased.",
                               true_or_false)
    kind: ClassVar[str] = "inverse_dynamics"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(bounds=Support.NO, priors=Support.NO, gaussian_noise=Support.IGNORED, black_boxes=Support.YES,
                            robust_losses=Support.YES, refusals={"process_noise": DISTURBED, "input_noise": NOISY_TORQUES})

    def check_supports(self, problem: Problem) -> None:
        if not isinstance(problem.model, RobotModel):
            raise NotSupported(f"inverse_dynamics takes a RobotModel, not {type(problem.model).__name__}; for equations use "
                               "multiple_shooting().")
        tied = [u.name for u in problem.unknowns if not u.initial and (u.prior is not None or abs(u.lower) < 1e300
                                                                       or abs(u.upper) < 1e300)]
        if tied:
            raise NotSupported(f"inverse_dynamics takes no bounds or priors, and {', '.join(tied)} has one. Physical bounds "
                               "hold by consistent=True; fix a value with free=False.")
        if problem.constraints:
            raise NotSupported(f"inverse_dynamics takes no constraints, and the problem has '{problem.constraints[0].text}'.")
        check_supports(problem, self.kind, self.capabilities, fits=False)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        self.check_supports(problem)
        began = time.perf_counter()
        arm = problem.model.with_values({p.name: p.start for p in problem.parameters if isinstance(p, Parameter)})
        records = [torque_record(arm, e, self.filter, self.decimate) for e in problem.experiments]
        along: Sequence[ArmAlongMotion] = [ArmAlongMotion.of(arm, record.motion) for record in records]
        trials: tuple[FrictionTrial, ...] = ()
        if arm.choose_friction:
            arm, trials = choose_friction(arm, records, along, self.weighting)
            along = [it.with_arm(arm) for it in along]
        fit = fit_torques(arm, records, along, self.weighting, _free(problem, arm))
        return torque_estimate(self, problem, fit, records, along, trials, began)

    def validation(self, estimate: Estimate, experiment: Experiment) -> Validation:
        """Torques predicted along the motion of another record."""
        return torque_validation(estimate, experiment)


def _free(problem: Problem, arm: RobotModel) -> list[str]:
    """The parameters that a problem declares as free, with those of friction laws that were chosen since; all that it does not
    hold where it declares none."""
    declared = [p for p in problem.parameters if isinstance(p, Parameter)]
    free = [p.name for p in declared if p.free]
    if free:
        return [*free, *(name for name in arm.parameters if name not in problem.model.parameters)]
    return [name for name in arm.parameters if name not in {p.name for p in declared}]
