"""Prediction error method: its options, checked once. Without process noise it is the output error method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dynident.kalman.method import integrator_option, noise_levels, simulation_integrator
from dynident.methods.capabilities import Capabilities, Support, check_supports
from dynident.methods.method import Method
from dynident.methods.options import AUTOMATIC, check_options, documented, option, whole_number
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate


@documented
@dataclass(frozen=True)
class PredictionError(Method):
    """Likelihood of the one-step-ahead prediction errors; for noise in the inputs and in the model.

    Parameters are constants, found with the open noises by Fisher scoring from where output error ends. See the manual,
    methods/prediction_error.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=0.8, lower=0)],
    ...                      process_noise={"x": di.Gaussian(0.02)})
    >>> print(f"{di.identify(problem, di.prediction_error()).values['k']:.1f}")
    0.5
    """

    process_noise: Mapping[str, float | str] | str | None = option(
        None, 'By state (added in one second) or input (held over a sample) the standard deviation of what disturbs it, or '
        '"estimate". None: what the problem states; where it states nothing, output error is kept if its residuals are white, '
        "else noise of the velocities (of all states where there are none) is estimated, and kept if it explains the record "
        "better.",
        noise_levels, keep_empty=True)
    integrator: str = integrator_option()
    substeps: int | str = option("auto", 'Steps of the integrator between two samples; "auto": as many as output error needs.',
                                 whole_number(1, "auto"))
    max_iterations: int = option(100, "Scoring steps at the most.", whole_number(1))
    kind: ClassVar[str] = "prediction_error"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(nonlinear_algebraic_variables=Support.NO, constraints=Support.YES, process_noise=Support.YES,
                            input_noise=Support.YES, models_without_states=Support.YES)

    @property
    def chooses_integrator(self) -> bool:
        return self.integrator == AUTOMATIC

    @property
    def simulation_integrator(self) -> str:
        return simulation_integrator(self.integrator)

    def check_supports(self, problem: Problem) -> None:
        from dynident.kalman.prediction_error.run import stated_noise
        from dynident.kalman.prediction_error.setup import build_prediction
        from dynident.kalman.step_choice import first_step

        check_supports(problem, self.kind, self.capabilities)
        build_prediction(problem, stated_noise(self, problem) or {}, first_step(self), 1)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        from dynident.kalman.prediction_error.run import identify

        self.check_supports(problem)
        return identify(self, problem, report)
