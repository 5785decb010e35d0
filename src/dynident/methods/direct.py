"""Direct: discretize, solve, ask how far to trust it; single and multiple shooting are two settings of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dynident.discretizations.finite import Point
from dynident.discretizations.losses import check_loss
from dynident.discretizations.shooting import Shooting
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.integrators.march import Diverged
from dynident.integrators.scheme import Adaptive
from dynident.kernels import compiler
from dynident.methods import noise
from dynident.methods.assemble import assemble
from dynident.methods.substeps import MOST, choose_substeps
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.outcome import Outcome

SOLVERS = {"levenberg_marquardt": LevenbergMarquardt, "gauss_newton": GaussNewton}
SAMPLES_PER_SEGMENT = 10  # at least, where the number of segments is not given
USUAL_SEGMENTS = 20
SIZE_SETTLED = 1e-3  # relative change of an estimated noise size that no longer matters
MOST_ROUNDS = 12  # of weights and sub-steps; each is a warm start


@dataclass(frozen=True)
class ShootingMethod:
    """Shooting with one or many segments per record.

    `segments`: None chooses about 20, fewer for short records; 1 is single shooting. `integrator`: see INTEGRATORS.
    `substeps`: steps between two samples, or "auto". `solver`: "auto", "levenberg_marquardt" (one segment only) or
    "gauss_newton". `loss`: "squared", or "huber", "soft_l1", "cauchy" for records with outliers.
    """

    kind: str
    segments: int | None = None
    integrator: str = "runge_kutta"
    substeps: int | str = "auto"
    solver: str = "auto"
    loss: str = "squared"
    iterations: int = 200

    def __post_init__(self) -> None:
        integrator_named(self.integrator)
        check_loss(self.loss)
        faults = []
        if self.segments is not None and (not _whole(self.segments) or self.segments < 1):
            faults.append(f"segments = {self.segments!r}; give a whole number from 1 on.")
        if self.substeps != "auto" and (not _whole(self.substeps) or self.substeps < 1):
            faults.append(f'substeps = {self.substeps!r}; give a whole number from 1 on, or "auto".')
        if self.solver not in ("auto", *SOLVERS):
            faults.append(f"There is no solver '{self.solver}'.{did_you_mean(self.solver, SOLVERS)}")
        if not _whole(self.iterations) or self.iterations < 1:
            faults.append(f"iterations = {self.iterations!r}; give a whole number from 1 on.")
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        fixed = ("segments",) if self.kind == "single_shooting" else ()  # what the name says already
        return {key: value for key, value in asdict(self).items() if value is not None and key not in fixed}

    def identify(self, problem: Problem, executor: Executor | None, tell: Callable[..., object]) -> Estimate:
        if not isinstance(problem.model, EquationModel):
            raise NotSupported(f"{self.kind} needs a model with equations, not a {type(problem.model).__name__}.")
        noise.require_gaussian(problem, self.kind)
        return _Fit(self, problem, tell).go()

    def segments_for(self, samples: int) -> int:
        if self.segments is not None:
            return self.segments
        return int(np.clip((samples - 1) // SAMPLES_PER_SEGMENT, 1, USUAL_SEGMENTS))


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


class _Fit:
    """One run of a shooting method: rounds of solving with better and better weights and sub-steps."""

    def __init__(self, method: ShootingMethod, problem: Problem, tell: Callable[..., object]):
        self.method, self.problem, self.tell = method, problem, tell
        self.integrator = integrator_named(method.integrator)
        self.segments = [method.segments_for(e.samples) for e in problem.experiments]
        self.sizes = noise.first_sizes(problem)
        self.substeps = 1 if method.substeps == "auto" else int(method.substeps)
        self.history: list = []
        self.counts = {"iterations": 0, "simulations": 0, "jacobians": 0}
        self.compiled = compiler.seconds_compiling, compiler.libraries_compiled
        self.began = time.perf_counter()

    def make(self, substeps: int) -> Shooting:
        return Shooting(self.problem, self.integrator, self.segments, substeps, self.sizes, self.method.loss)

    def go(self) -> Estimate:
        if self.method.substeps == "auto" and not isinstance(self.integrator, Adaptive):
            self.substeps, _ = choose_substeps(self.make, lambda finite: finite.start())
        finite = self.make(self.substeps)
        point = self.checked_start(finite)
        error = 0.0
        for _ in range(MOST_ROUNDS):
            finite = self.make(self.substeps)
            outcome = self.solve(finite, point)
            point = outcome.point
            if not outcome.converged:
                break
            again = self.better_sizes(finite, point)
            more, error = self.better_substeps(point)
            if not (again or more):
                break
        else:
            outcome = replace(outcome, converged=False, reason="because the estimated noise sizes did not settle")
        finite = self.make(self.substeps)  # with the final weights
        times = {"compile": compiler.seconds_compiling - self.compiled[0],
                 "fit": time.perf_counter() - self.began - (compiler.seconds_compiling - self.compiled[0])}
        counts = {**self.counts, "compiled": compiler.libraries_compiled - self.compiled[1],
                  "segments": max(self.segments), "substeps": self.substeps}
        outcome = replace(outcome, history=tuple(self.history))
        return assemble(self.problem, self.method, finite, outcome, self.sizes, error, counts, times)

    def checked_start(self, finite: Shooting) -> Point:
        """Refuse a start at which the model is not finite, with what the user needs to see why."""
        point = finite.start()
        try:
            finite.evaluate(point)
        except Diverged as bad:
            values = finite.coordinates.values(point.unknowns)
            listed = ", ".join(f"{n} = {v:.4g}" for n, v in zip(finite.names, values, strict=True))
            raise ProblemError(f"At the start values {bad} ({listed}). {self.advice()}") from None
        return point

    def advice(self) -> str:
        ways = ["Choose other start values"]
        if max(self.segments) == 1:
            ways.append("use multiple_shooting(), which starts from the measurements")
        if not isinstance(self.integrator, Adaptive):
            ways.append('try integrator="cvodes" or "radau" if the model is stiff')
        return ", or ".join(ways) + "."

    def solve(self, finite: Shooting, point: Point) -> Outcome:
        name = self.method.solver
        if name == "auto":
            name = "gauss_newton" if finite.equality_count else "levenberg_marquardt"
        solver = SOLVERS[name](iterations=self.method.iterations)

        def watch(page: Any) -> None:
            page = replace(page, number=len(self.history))
            self.history.append(page)
            self.tell(page)

        outcome = solver.solve(finite, point, watch)
        self.counts["iterations"] += len(outcome.history) - 1
        for key, count in finite.counts.items():
            self.counts[key] += count
        return outcome

    def better_sizes(self, finite: Shooting, point: Point) -> bool:
        """Take the noise sizes from the residuals; True if the fit depends on them and they changed."""
        if not self.sizes:
            return False
        at = finite.linearization(point)
        sizes = noise.sizes_from(self.problem, at, self.sizes, self.method.loss != "squared")
        change = max(abs(np.log(sizes[name] / self.sizes[name])) for name in sizes)
        measured = {name for e in self.problem.experiments for name in e.outputs}
        alone = len(measured) == 1 and not finite.frame.priors and self.method.loss == "squared" and (
            all(n.std is None for n in self.problem.noise_of(next(iter(measured)))))
        self.sizes = sizes
        return not alone and change > SIZE_SETTLED

    def better_substeps(self, point: Point) -> tuple[bool, float]:
        """Check the integrator's error where it counts, at the solution; True if it takes more sub-steps."""
        if isinstance(self.integrator, Adaptive):
            return False, 0.0
        if self.method.substeps != "auto":
            _, error = choose_substeps(lambda n: self.make(min(n, 2 * self.substeps)), lambda f: point, self.substeps)
            return False, error
        count, error = choose_substeps(self.make, lambda f: point, self.substeps)
        if count <= self.substeps or self.substeps == MOST:
            return False, error
        self.substeps = count
        return True, error
