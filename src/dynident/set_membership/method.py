"""Set membership: the options of the method, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.methods.capabilities import Capabilities, Support
from dynident.methods.method import Method
from dynident.methods.options import (
    check_options,
    documented,
    is_number,
    one_of,
    option,
    plain_options,
    positive_number,
    true_or_false,
    unchecked,
    whole_number,
)
from dynident.problem.problem import Problem
from dynident.set_membership.bisection import Strategy, resolve_strategy
from dynident.set_membership.run import check_setup, run

ALGORITHMS = ("auto", "batch", "recursive", "paper")
PAPER_OPTIONS = ("factored_step", "standstill_barrier", "free_room")  # of the published algorithm alone
MAX_ORDER = 20  # beyond it coefficients only round


# checks


def taylor_order(name: str, value: Any) -> list[str]:
    good = value is None or (isinstance(value, (int, np.integer)) and 1 <= value <= MAX_ORDER)
    return [] if good else [f"{name} = {value!r}: of a Taylor polynomial, from 1 to {MAX_ORDER}."]


def fraction(name: str, value: Any) -> list[str]:
    good = isinstance(value, Real) and 0 < float(value) < 1
    return [] if good else [f"{name} = {value!r} is a share of the first box; use for instance 0.02."]


def positive_or_none(name: str, value: Any) -> list[str]:
    good = value is None or (is_number(value) and 0 < value < float("inf"))
    return [] if good else [f"{name} = {value!r}; give a positive number, or leave it out."]


def state_name(name: str, value: Any) -> list[str]:
    return [] if isinstance(value, str) else [f"{name} = {value!r}; give the name of a state."]


def seconds(name: str, value: Any) -> list[str]:
    good = isinstance(value, Real) and float(value) >= 0
    return [] if good else [f"{name} = {value!r} is a number of seconds that is not negative."]


def reset_table(name: str, value: Any) -> list[str]:
    good = isinstance(value, Mapping)
    return [] if good else [f"{name} = {value!r}; give a table from parameter to the output that stands still."]


def inflation_factor(name: str, value: Any) -> list[str]:
    return [] if isinstance(value, str) and value == "auto" else [
        f'{fault[:-1]}, or "auto".' for fault in positive_number(name, value)]


def radius_table(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{name} = {value!r}; give a table from input to the radius of its errors."]
    return [f"{name} of '{key}' is {radius!r}; give the radius of its errors, which is not negative."
            for key, radius in value.items() if not is_number(radius) or not np.isfinite(radius) or radius < 0]


@documented
@dataclass(frozen=True)
class SetMembership(Method):
    """Bounds outside of which no value can explain the data, proved; for errors that never exceed a bound.

    See the manual, methods/set_membership.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Bounded(0.02)}, initial={"x": 1})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0, upper=2)])
    >>> low, high = di.identify(problem, di.set_membership()).uncertainty.interval("k")
    >>> low < 0.5 < high
    True
    """

    algorithm: str = option("auto", '"batch" (all samples at once), "recursive" (box by box along the record), "paper" (as '
                            'published), or "auto".', one_of(ALGORITHMS))
    max_boxes: int = option(300, "Boxes at a time.", whole_number(1))
    subdivisions: int | None = option(None, "M: of a box, per sample.", whole_number(0, None))
    velocity_subdivisions: int = option(0, "M_v: of the state `velocity`.", whole_number(0))
    velocity: str = option("", "The state that is divided.", state_name)
    v_bar: float | None = option(None, "Width of `velocity`, in its unit, above which every box is divided into M_v; None: "
                                 "only the widest.", positive_or_none)
    factored_step: bool = option(False, 'Of algorithm="paper": a step of a mode that is linear in the states is taken with '
                                 "each state once, (1 + h alpha) x2 + ...", true_or_false)
    standstill_barrier: bool = option(False, 'Of algorithm="paper": modes to which no transition leads are not active, so that '
                                      "no motion passes through a standstill that holds.", true_or_false)
    free_room: bool = option(False, 'Of algorithm="paper": boxes are divided only as far as max_boxes leaves room.',
                             true_or_false)
    passes: int = option(1, "Over the record.", whole_number(1))
    reset: Mapping[str, str] = option(dict, '{"T": "speed"}: T may change once in each standstill, when the output `speed` has '
                                      "been measured as zero for `standstill_time`.", reset_table)
    standstill_time: float = option(0.0, "How long zero has to be measured.", seconds, unit="seconds")
    max_outliers: int = option(0, "So many samples may be wrong.", whole_number(0))
    inflate: float | str = option(1.0, 'Factor on every bound of the errors; "auto": the smallest with which something fits, '
                                  "where nothing does.", inflation_factor)
    input_error: Mapping[str, float] = option(dict, "By input, the bound of its errors, in its unit.", radius_table)
    tolerance: float = option(0.02, "Share of the first box below which a box is not divided.", fraction)
    order: int | None = option(None, "Of the Taylor polynomials in time.", taylor_order)
    taylor_degree: int = option(1, "Of the polynomials in the unknowns (batch).", whole_number(1))
    time_limit: float | None = option(None, "CPU time after which nothing more is tried: what is proved by then is the answer. "
                                      "A pass along a hybrid record is finished.", positive_or_none, unit="seconds")
    rigorous: bool = option(False, "Correctly rounded elementary functions (extra `verified`) in place of those of libm.",
                             true_or_false)
    strategy: Strategy | str | None = option(None, "Which box is divided, and where: a name or a function.", unchecked)
    kind: ClassVar[str] = "set_membership"

    def __post_init__(self) -> None:
        check_options(self, self._published_faults())
        if isinstance(self.strategy, str):
            resolve_strategy(self.strategy, "")

    def _published_faults(self) -> list[str]:
        faults = [f'{name} = true is for algorithm = "paper"; algorithm = "{self.algorithm}" needs none of it.'
                  for name in PAPER_OPTIONS if getattr(self, name) is True and self.algorithm != "paper"]
        if self.v_bar is not None and not self.velocity_subdivisions:
            faults.append("v_bar says which velocities are divided, but velocity_subdivisions is 0; give M_v, such as 20.")
        return faults

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            algebraic_variables=Support.NO, nonlinear_algebraic_variables=Support.NO, bounded_noise=Support.YES,
            gaussian_noise=Support.NO, estimated_noise=Support.NO, hybrid_models=Support.YES, uncertain_times=Support.YES,
            priors=Support.IGNORED, instead={"constraints": "it without: what it proves then holds with the constraint too"},
            refusals={"black_boxes": "{method} needs a model of equations, not {model}: only equations can be evaluated over "
                                     "boxes."})

    def options(self) -> dict[str, Any]:
        """A strategy written in Python has no name in a [method] table."""
        return plain_options(self, unread=() if isinstance(self.strategy, str) else ("strategy",))

    def check_supports(self, problem: Problem) -> None:
        check_setup(self, problem)

    def identify(self, problem: Problem, executor: Executor | None = None,
                 report: Callable[..., object] = lambda *_: None, /) -> Estimate:
        return run(self, problem)
