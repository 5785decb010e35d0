"""Method: the contract between `identify` and whatever finds an estimate of a grey-box model (equations with unknowns)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from dynident.estimate.estimate import Estimate, Validation
from dynident.methods.capabilities import Capabilities
from dynident.methods.options import plain_options
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.transcription.transcribed_problem import SimulatedProblem, TranscribedProblem

# Options that say how to look for the smallest sum, and for no method which sum it is.
HOW_TO_SEARCH = ("solver", "hessian", "segments", "max_restarts", "refine", "global_search", "initial_guess")


@runtime_checkable
class Method(Protocol):
    """A frozen dataclass of options; a class that states this contract inherits what it does not say itself."""

    kind: ClassVar[str]  # by which problem files and results call it

    @property
    def capabilities(self) -> Capabilities:
        """What of a problem it takes, with these options."""
        ...

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        """The estimate, converged or not; `report` takes each Iteration."""
        ...

    def check_supports(self, problem: Problem) -> None:
        """Raise what there is to say against the problem before anything is computed, as far as that can be said so early."""
        ...

    def options(self) -> dict[str, Any]:
        """The options as plain data with the key `kind`."""
        return plain_options(self)

    def objective_key(self) -> dict[str, Any]:
        """What tells the sum that it minimises from that of another method; costs compare where these are equal.

        Weights, losses and filters with other settings do not minimise the same; options that only say how to search do
        not matter.
        """
        return {name: value for name, value in self.options().items() if name not in HOW_TO_SEARCH}

    @property
    def inner_method(self) -> Method:
        """The method itself, of one that begins it many times."""
        return self

    @property
    def simulation_integrator(self) -> str:
        """By which integrator the model is simulated at the estimate."""
        return "runge_kutta"

    @property
    def chooses_integrator(self) -> bool:
        """Whether the integrator is chosen when the problem is known."""
        return False

    @property
    def usual_integrator(self) -> str:
        """The one that is chosen where the model is not stiff."""
        return "runge_kutta"

    @property
    def stiff_integrator(self) -> str:
        """The one that is chosen where it is."""
        return "radau5"

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> TranscribedProblem | None:
        """The finite problem that it solves; None for a method that solves none."""
        return None

    def simulated_problem(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> SimulatedProblem | None:
        """Of a method that takes black boxes: the finite problem of their simulations, to be solved again."""
        return None

    def validation(self, estimate: Estimate, experiment: Experiment) -> Validation | None:
        """Its own way to compare with another record; None for one that simulates."""
        return None

    def for_initial_states(self, least_iterations: int) -> Method | None:
        """Of a method that simulates: itself, with so many iterations or more, to fit the initial states of a record."""
        return None
