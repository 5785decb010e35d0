"""Newton: where is F(z) = 0, by steps that are shortened until they help?

Three tests of whether a step helps:

- "natural" (default): the step that would follow, computed with the same Jacobian, must be shorter (Deuflhard). Steps are
  compared with steps, so that neither the units of the equations nor their curvature along the valley matter.
- "residual": ||F||_2 must fall by a share of what its slope promises, (4.37) to (4.40) of the thesis.
- "kept": the natural test, and the Jacobian stays while steps are shortened, as in the code MUSN that the thesis compares
  with; cheap, and less robust.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.boundary.solve_bvp.root_finding import (
    TOO_MANY,
    TOO_SHORT,
    FactoredSystem,
    NonlinearSystem,
    RootIterationLog,
    RootResult,
    Watch,
    ended,
    largest,
)
from dynident.errors import ProblemError, SimulationDiverged, did_you_mean
from dynident.solvers.solver_result import iterations_in_words

TESTS = ("natural", "residual", "kept")
ARMIJO = 1e-4  # alpha of (4.40)
SLOW = 0.5  # a kept Jacobian that shrinks the step by less than this is renewed
ROUNDING = float(np.sqrt(np.finfo(float).eps))  # of typical sizes: below it an exact Jacobian shrinks every step but noise
EXACT = 4  # times what rounding leaves of an equation: no processor leaves more, and no step is worth less
HIDDEN = 100  # times the rounding of the unknowns: a step that small and no longer shrinking is noise


@dataclass(frozen=True)
class DampedNewton:
    """Options of Newton's method.

    `tolerance`: largest last step, in typical sizes; `shortest`: share of a step below which the method gives up (230);
    `insist`: share of a step that is gone even where the test says that it does not help, 0 for none. Layers inside wander to
    their place along ways on which no test sees a gain; a root that is found so has passed the same last test as any other.
    """

    test: str = "natural"
    tolerance: float = 1e-6
    iterations: int = 100
    shortest: float = 1e-6
    insist: float = 0.0
    name: str = "damped Newton"

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise ProblemError(f"There is no test '{self.test}' of a Newton step.{did_you_mean(self.test, TESTS)}")

    def solve(self, system: NonlinearSystem, z: np.ndarray, watch: Watch | None = None) -> RootResult:
        return ended(_NewtonRun(self, system, np.array(z, dtype=float), RootIterationLog(system, watch)))


class _NewtonRun:
    """The state of one solve."""

    def __init__(self, options: DampedNewton, system: NonlinearSystem, z: np.ndarray, diary: RootIterationLog):
        self.options, self.system, self.z, self.diary = options, system, z, diary
        self.share, self.fresh = 1.0, True
        self.before: tuple[np.ndarray, np.ndarray, float] | None = None  # the last step, the one that followed, its share

    def length(self, step: np.ndarray) -> float:
        """Root mean square, in typical sizes: smooth, as the theory wants it, and independent of the mesh."""
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.mean((step / self.system.scale) ** 2)))

    def go(self) -> RootResult:
        linear = self.diary.linearize(self.z)
        value = linear.value
        for _ in range(self.options.iterations):
            step = -linear.factors.solve(value)
            size = self.length(step)
            self.share = self.predicted(step, size)
            moved = self.advance(linear, value, step, size)
            if moved is None:
                if not self.fresh:  # the Jacobian was old; try again with one of this place
                    linear, self.fresh = self.diary.linearize(self.z), True
                    continue
                return self.diary.root(self.z, *self.stuck(step, value, linear))
            following, value = moved
            done = self.share == 1.0 and (self.settled(following) or self.exact(value, linear))
            self.diary.write("newton", self.share, self.share * step, value, self.fresh)
            if done and not self.fresh:  # says a Jacobian of an earlier place; that of this one has the last word
                linear, self.fresh = self.diary.linearize(self.z), True
                value, following = linear.value, -linear.factors.solve(linear.value)
                done = self.settled(following) or self.exact(value, linear)
                if not done:
                    continue
            if done:
                self.z = self.z + following
                return self.diary.root(self.z, True, f"after {iterations_in_words(len(self.diary.pages))}", 0)
            linear, value = self.renewed(linear, value, size, following)
        return self.diary.root(self.z, False, f"at the limit of {iterations_in_words(self.options.iterations)}", TOO_MANY)

    def renewed(self, linear: FactoredSystem, value: np.ndarray, size: float, following: np.ndarray
                ) -> tuple[FactoredSystem, np.ndarray]:
        """The Jacobian for the next step: a new one, or the old one where it still serves."""
        keep = self.options.test == "kept" and (self.share < 1 or self.length(following) <= SLOW * size)
        self.fresh = not keep
        if keep:
            return linear, value
        linear = self.diary.linearize(self.z)
        return linear, linear.value

    @staticmethod
    def exact(value: np.ndarray, linear: FactoredSystem) -> bool:
        """F is zero as far as rounding lets it be: no step can do better, however long it is where J is close to singular."""
        return bool(np.all(np.abs(value) <= EXACT * linear.rounding))

    def settled(self, following: np.ndarray) -> bool:
        return largest(following, self.system.scale) <= self.options.tolerance

    def predicted(self, step: np.ndarray, size: float) -> float:
        """The share to begin with: from how the last step compares with what followed it (Deuflhard's predictor)."""
        if self.before is None or self.options.test == "residual":
            return min(1.0, 4 * self.share) if self.before else 1.0
        last, followed, share = self.before
        off = self.length(followed - step)
        if off <= 0 or size <= 0:
            return 1.0
        return float(np.clip(share * self.length(last) * self.length(followed) / (off * size), self.options.shortest, 1.0))

    def advance(self, linear: FactoredSystem, value: np.ndarray, step: np.ndarray, size: float
                ) -> tuple[np.ndarray, np.ndarray] | None:
        """Go as far as the test allows; the step that would follow, and F there. None where that is nowhere."""
        share, enlarged = self.share, False
        while share >= self.options.shortest:
            try:
                trial = self.diary.value(self.z + share * step)
                following = -linear.factors.solve(trial)
            except SimulationDiverged:
                share /= 4
                continue
            helps, suggested = self.judged(share, value, trial, step, following, size)
            helps = helps or (share == 1.0 and self.exact(trial, linear))
            if helps and not enlarged and suggested >= 4 * share and share < 1:
                share, enlarged = min(1.0, suggested), True  # it was far too careful
                continue
            if helps or share <= self.options.insist:
                self.z, self.share, self.before = self.z + share * step, share, (step, following, share)
                return following, trial
            share = max(min(suggested, share / 2), min(self.options.insist, share / 2))
            enlarged = True
        return None

    def judged(self, share: float, value: np.ndarray, trial: np.ndarray, step: np.ndarray, following: np.ndarray,
               size: float) -> tuple[bool, float]:
        """Whether the step helps, and which share looks right."""
        off = self.length(following - (1 - share) * step)
        suggested = 0.5 * size * share**2 / off if off > 0 else 1.0
        if self.options.test == "residual":
            with np.errstate(over="ignore"):
                before, after = float(value @ value), float(trial @ trial)
            return after <= (1 - 2 * ARMIJO * share) * before or self.hidden(step), max(0.1 * share, min(suggested, 1.0))
        return self.length(following) <= (1 - share / 4) * size or self.hidden(step), min(1.0, suggested)

    def hidden(self, step: np.ndarray) -> bool:
        """A step that rounding hides."""
        noise = HIDDEN * np.finfo(float).eps * (np.abs(self.z) + self.system.scale)
        return bool(np.all(np.abs(step) <= noise))

    def stuck(self, step: np.ndarray, value: np.ndarray, linear: FactoredSystem) -> tuple[bool, str, int]:
        """A tiny step after a full one that no longer shrinks is rounding, enlarged by the condition of the equations."""
        if largest(step, self.system.scale) <= self.options.tolerance or self.exact(value, linear):
            return True, f"after {iterations_in_words(len(self.diary.pages))}", 0
        if largest(step, self.system.scale) <= ROUNDING and self.before is not None and self.before[2] == 1:
            return True, f"after {iterations_in_words(len(self.diary.pages))}; rounding hides smaller steps", 0
        return False, f"because no step helps any more, not even one of {self.options.shortest:g} times Newton's", TOO_SHORT
