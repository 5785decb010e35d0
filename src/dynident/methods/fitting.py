"""Fitting: rounds of solving with better and better weights and steps, the same for every transcription."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from dynident.discretizations.finite import Point
from dynident.discretizations.shooting import Shooting
from dynident.errors import GivenUp, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.estimate.residuals import follows_data
from dynident.integrators.march import Diverged
from dynident.integrators.scheme import Adaptive, Integrator
from dynident.kernels import compiler
from dynident.methods import noise
from dynident.methods.assemble import assemble
from dynident.methods.easier import easier_start
from dynident.methods.substeps import choose_substeps, integration_error
from dynident.methods.tight import Tight, fixed_unknowns
from dynident.problem.noise import Gaussian
from dynident.problem.problem import Problem
from dynident.solvers.beside import unless_between_slopes
from dynident.solvers.beyond import unless_run_off
from dynident.solvers.outcome import Outcome, because, iterations_in_words

SIZE_SETTLED = 1e-3  # relative change of an estimated noise size that no longer matters
FAR = 1e3  # typical sizes from the start; who goes there may have passed the optimum on the way
AT_START, REACHED = "At the start values", "At the values reached so far"
MOST_ROUNDS = 12  # of weights and steps; each is a warm start


class Transcription(Protocol):
    """How a method turns a problem into a finite one; what `Fit` needs to know of the method."""

    @property
    def loss(self) -> str: ...

    @property
    def iterations(self) -> int: ...

    def integrate(self) -> Integrator: ...

    def steps(self) -> int | str:
        """Steps between two samples, or "auto"."""
        ...

    def finite(self, problem: Problem, steps: int, sizes: Mapping[str, float]) -> Any:
        """The finite problem to solve, a FiniteProblem with `records`, `frame` and `counts`."""
        ...

    def shooting(self, problem: Problem, steps: int, sizes: Mapping[str, float]) -> Shooting:
        """The same by shooting, to measure the integrator's error and for derivatives along time."""
        ...

    def as_shooting(self, finite: Any, point: Point) -> tuple[Shooting, Point]:
        """A point of the finite problem as one of shooting."""
        ...

    def carried(self, point: Point, before: Any, after: Any) -> Point:
        """A point of one finite problem on the grid of another."""
        ...

    def solver(self, finite: Any) -> Any: ...

    def advice(self, problem: Problem) -> list[str]:
        """Ways out when the start is not finite."""
        ...


class Fit:
    """One run of a direct method."""

    def __init__(self, method: Transcription, problem: Problem, tell: Callable[..., object]):
        self.method, self.problem, self.tell = method, problem, tell
        self.adaptive = isinstance(method.integrate(), Adaptive)
        self.sizes = noise.first_sizes(problem)
        self.automatic = method.steps() == "auto" and not self.adaptive
        self.steps = 1 if method.steps() == "auto" else int(method.steps())
        self.history: list = []
        self.counts = {"iterations": 0, "simulations": 0, "jacobians": 0}
        self.compiled = compiler.seconds_compiling, compiler.libraries_compiled
        self.began = time.perf_counter()
        self.solver_name = ""
        self.beside = ""  # where the solver began, if not at the start
        self.fewer = False  # steps have been found to be more than needed
        self.reached: tuple[Any, Outcome, int] | None = None  # the best so far with its steps, for whoever interrupts
        self.made: tuple[int, Mapping[str, float], Any] | None = None  # steps, sizes, and the finite problem made of them
        self.shot: tuple[Any, Point, tuple[Shooting, Point]] | None = None  # a finite problem's point as one of shooting

    def go(self) -> Estimate:
        try:
            return self.rounds()
        except KeyboardInterrupt:  # between two solves; within one, the solver answers for itself
            if self.reached is None:
                raise
            return self.ended("by the user", interrupted=True)
        except GivenUp as end:  # the same
            if self.reached is None:
                raise
            return self.ended(because(end))

    def ended(self, reason: str, interrupted: bool = False) -> Estimate:
        """With the best so far, before anything converged."""
        assert self.reached is not None
        finite, outcome, self.steps = self.reached
        return self.estimate(finite, replace(outcome, converged=False, reason=reason, interrupted=interrupted,
                                             history=tuple(self.history)), 0.0)

    def rounds(self) -> Estimate:
        if self.automatic:
            self.steps = self.first_steps()
        finite = self.make()
        start = self.checked_start(finite)
        easier = self.easier_first(finite)
        if easier is not None and easier.interrupted:
            return self.estimate(finite, replace(easier, history=tuple(self.history)), 0.0)
        point = start if easier is None else easier.point
        error = 0.0
        for rounds in range(1, MOST_ROUNDS + 1):
            outcome = self.first_solve(finite, start, point) if rounds == 1 else self.solve(finite, point, REACHED)
            if rounds == 1:
                outcome, self.beside = unless_between_slopes(finite, outcome, start.unknowns, self.anew(finite))
            self.reached = finite, outcome, self.steps
            if not outcome.converged:
                break
            again = self.better_sizes(finite, outcome)
            more, error = self.better_steps(finite, outcome)
            if not (again or more):
                outcome = self.counted(outcome, rounds)
                break
            before, finite = finite, self.make()
            point = self.method.carried(outcome.point, before, finite)
        else:
            outcome = replace(outcome, converged=False, reason="because the estimated noise sizes did not settle")
        follows = not self.sizes and follows_data(outcome.evaluation.cost, finite.residual_count - len(finite.names))
        outcome = unless_run_off(finite, outcome, start.unknowns, finite.names, follows, self.anew(finite, told=False))
        return self.estimate(finite, replace(outcome, history=tuple(self.history)), error)

    def first_steps(self) -> int:
        """Good enough at the start; a simulation that is lost there is refused at once."""
        try:
            return choose_substeps(self.shooting, lambda shooting: shooting.start())[0]
        except Diverged as bad:
            finite = self.make()
            raise self.refusal(finite, finite.start(), bad) from None

    def counted(self, outcome: Outcome, rounds: int) -> Outcome:
        """The last round alone would sound as if what came before had cost nothing."""
        spent = f"after {iterations_in_words(self.counts['iterations'])}" + (f" in {rounds} rounds" if rounds > 1 else "")
        why = "" if outcome.reason.startswith("after ") else f", {outcome.reason}"
        return replace(outcome, reason=spent + self.beside + why)

    def make(self) -> Any:
        """The finite problem for the steps and sizes of now; the last one where these are its own."""
        if self.made is None or self.made[:2] != (self.steps, self.sizes):
            self.made = self.steps, self.sizes, self.method.finite(self.problem, self.steps, self.sizes)
        return self.made[2]

    def as_shooting(self, finite: Any, point: Point) -> tuple[Shooting, Point]:
        """Asked for again and again at a solution, and made once."""
        if self.shot is None or self.shot[0] is not finite or self.shot[1] is not point:
            self.shot = finite, point, self.method.as_shooting(finite, point)
        return self.shot[2]

    def shooting(self, steps: int) -> Shooting:
        return self.method.shooting(self.problem, steps, self.sizes)

    def estimate(self, finite: Any, outcome: Outcome, error: float) -> Estimate:
        compiling = compiler.seconds_compiling - self.compiled[0]
        times = {"compile": compiling, "fit": time.perf_counter() - self.began - compiling}
        size = {"variables": len(finite.names) + finite.equality_count, "equalities": finite.equality_count}
        counts = {**self.counts, "compiled kernels": compiler.libraries_compiled - self.compiled[1],
                  "substeps": self.steps, **size}
        again = self.make()  # with the final weights

        def told(outcome: Outcome) -> Estimate:
            shooting, point = self.as_shooting(again, self.method.carried(outcome.point, finite, again))
            return assemble(self.problem, self.method, shooting, replace(outcome, point=point), self.sizes, error, counts,
                            times, self.solver_name, Tight.at(self.problem, finite.coordinates, outcome.point.unknowns))

        try:
            return told(outcome)
        except Diverged as bad:  # states that fit no trajectory of the model
            if outcome.converged:
                raise
            why = f"{outcome.reason}; where it stopped {bad}, so that the values below are those of the start"
            try:
                return told(replace(outcome, point=finite.start(), reason=why))
            except Diverged as bad:
                raise self.refusal(finite, finite.start(), bad) from None

    def checked_start(self, finite: Any) -> Point:
        """Refuse a start at which the model is not finite, with what the user needs to see why."""
        point = finite.start()
        try:
            evaluation = finite.evaluate(point)
        except Diverged as bad:
            raise self.refusal(finite, point, bad) from None
        if finite.cheap_slopes:  # else the start alone is not worth the simulations that its intervals take
            held = np.zeros(len(finite.names), int)
            self.reached = finite, Outcome(point, evaluation, False, "at the start", (), held), self.steps
        return point

    def astray(self, finite: Any, outcome: Outcome, start: Point) -> bool:
        """Lost, neither by the user nor for want of iterations, or far away: another start may do better."""
        if outcome.interrupted or outcome.converged:
            gone = np.abs(outcome.point.unknowns - start.unknowns) / finite.coordinates.scale  # NaN without a scale
            return not outcome.interrupted and bool(np.any(gone > FAR))
        return len(outcome.history) <= self.method.iterations

    def refusal(self, finite: Any, point: Point, bad: Diverged, where: str = AT_START) -> ProblemError:
        values = finite.coordinates.values(point.unknowns)
        listed = ", ".join(f"{n} = {v:.4g}" for n, v in zip(finite.names, values, strict=True))
        ways = ", or ".join(["Choose other start values", *self.method.advice(self.problem)])
        said = str(bad).rstrip(".")
        return ProblemError(f"{where} {said}{f' ({listed})' if listed else ''}. {ways}.")

    def easier_first(self, finite: Any) -> Outcome | None:
        """A better start where states have to meet and are measured."""
        if not finite.equality_count:
            return None
        start = easier_start(self.problem, self.method.integrate(), self.steps, self.sizes, self.method.loss,
                             self.method.iterations, self.run)
        if start is None:
            return None
        point = finite.from_states(start.unknowns, start.times, start.states)
        return replace(start.outcome, point=point, held=start.outcome.held[:len(finite.names)])

    def first_solve(self, finite: Any, start: Point, point: Point) -> Outcome:
        """From a point that easier problems led to, and from the user's start where that leads astray or cannot begin."""
        if point is start:
            return self.solve(finite, start)
        try:
            outcome = self.begun(finite, point)
        except Diverged:
            return self.solve(finite, start)
        if not self.astray(finite, outcome, start):
            return outcome
        try:
            return min(outcome, self.begun(finite, start), key=lambda o: (not o.converged, o.evaluation.cost))
        except Diverged:
            return outcome

    def solve(self, finite: Any, point: Point, where: str = AT_START) -> Outcome:
        try:
            return self.begun(finite, point)
        except Diverged as bad:
            raise self.refusal(finite, point, bad, where) from None

    def begun(self, finite: Any, point: Point) -> Outcome:
        """Raises Diverged where the solver cannot even begin: derivatives that are not finite."""
        solver = self.method.solver(finite)
        self.solver_name = solver.name
        return self.run(solver, finite, point, finite.counts)

    def anew(self, finite: Any, told: bool = True) -> Callable[[Point], Outcome]:
        """To solve once more from another point; raises Diverged where that cannot begin."""
        return lambda point: self.run(self.method.solver(finite), finite, point, finite.counts, told)

    def run(self, solver: Any, finite: Any, point: Point, counts: Mapping[str, int], told: bool = True) -> Outcome:
        """Let a solver work, and keep its counts, and its diary where it is to be told."""

        def watch(page: Any) -> None:
            page = replace(page, number=len(self.history), values=page.values[:len(self.problem.names)])
            self.history.append(page)
            self.tell(page)

        before = dict(counts)
        outcome = solver.solve(finite, point, watch if told else None)
        self.counts["iterations"] += len(outcome.history) - 1
        for key, count in counts.items():
            self.counts[key] += count - before[key]
        return outcome

    def better_sizes(self, finite: Any, outcome: Outcome) -> bool:
        """Take the noise sizes from the residuals; True if the fit depends on them and they changed."""
        if not self.sizes:
            return False
        shooting, there = self.as_shooting(finite, outcome.point)
        fixed = fixed_unknowns(outcome.held, Tight.at(self.problem, finite.coordinates, outcome.point.unknowns))
        robust = self.method.loss != "squared"
        sizes = noise.sizes_from(self.problem, shooting.linearization(there), self.sizes, robust, fixed)
        change = max(abs(np.log(sizes[name] / self.sizes[name])) for name in sizes)
        measured = {name for e in self.problem.experiments for name in e.outputs}
        alone = len(measured) == 1 and not finite.frame.priors and not robust and (
            all(isinstance(n, Gaussian) and n.std is None for n in self.problem.noise_of(next(iter(measured)))))
        self.sizes = sizes
        return not alone and change > SIZE_SETTLED

    def better_steps(self, finite: Any, outcome: Outcome) -> tuple[bool, float]:
        """Check the integrator's error where it counts, at the solution; True if it takes another number of steps.

        The number follows from the solution alone, so that all methods that find it take the same.
        """
        if self.adaptive:
            return False, 0.0
        shooting, there = self.as_shooting(finite, outcome.point)
        level = 1.0 if self.sizes else self.residual_level(finite, outcome.evaluation.cost)
        if not self.automatic:
            coarse = self.shooting(self.steps) if self.sizes else shooting  # sizes may just have changed
            fine = self.shooting(2 * self.steps)
            return False, integration_error(coarse, fine, there, level, linked=True)
        try:
            count, error = choose_substeps(self.shooting, lambda _: there, level, linked=True)
        except Diverged:  # lost with fewer steps than those of the solution
            return False, np.inf
        if count == self.steps or (count < self.steps and self.fewer):
            return False, error
        self.fewer = self.fewer or count < self.steps  # once only, or it might never end
        self.steps = count
        return True, error

    def residual_level(self, finite: Any, cost: float) -> float:
        """Size of the weighted residuals where they are smaller than the noise that was given, else 1."""
        freedom = max(1, finite.residual_count - len(finite.names))
        return min(1.0, float(np.sqrt(max(cost, finite.floor) / freedom)))
