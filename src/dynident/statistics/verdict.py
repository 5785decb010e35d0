"""Verdict: does this model, with these values, describe this record, in one grade and one sentence?

The rule that grades stands in `verdict_rule.py`, the words in `verdict_sentences.py`; what is measured about it, and on which
population, in `docs/design/verdict.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Grade(StrEnum):
    """How well a record is described; in the order of `SEVERITY`, best first."""

    NOISE = "A"  # to the noise
    SLOW_NOISE = "A~"  # to noise of the given size, which is slow
    OTHER_NOISE = "A!"  # to white noise that is not the given one
    SLOW_REMAINDER = "B~"  # but for a slow remainder that follows neither input nor motion
    SMALL_REMAINDER = "B"  # but for a small systematic remainder
    ROUGH = "C"  # roughly
    NOT = "D"  # not
    UNJUDGED = "?"  # cannot be judged


class Cause(StrEnum):
    """Why a grade is not a plain A, as far as numbers tell."""

    NONE = ""
    EXACT = "no noise"  # what is left over is the error of the simulation
    RESOLUTION = "resolution"  # what is left over is the rounding of the record
    NOISE_TOO_SMALL = "noise given too small"
    NOISE_TOO_LARGE = "noise given too large"
    SLOW_NOISE = "slow noise"
    NOISE_GUESSED = "noise that nobody stated"
    VALUES_UNSURE = "values known too roughly"
    OUTLIERS = "outliers"
    FEW_DATA = "data too few"
    STANDS_STILL = "signal stands still"
    NOISE_ABOVE_SIGNAL = "noise exceeds the signal"
    STRAIGHT_LINE = "no motion but a straight line in noise"
    DIVERGES = "simulation diverges"
    STRUCTURE = "structure of the model"
    WRONG_MINIMUM = "wrong minimum"
    STRUCTURE_OR_MINIMUM = "structure of the model or wrong minimum"
    NO_PREDICTION = "no prediction over several samples"
    NOT_CARRIED_OVER = "does not carry over"
    REFUTED = "refuted"
    WITHIN_BOUNDS = "within guaranteed bounds"


GO_ON = "To go on: "  # begins what a sentence says to try next
SEVERITY = (Grade.UNJUDGED, Grade.NOISE, Grade.SLOW_NOISE, Grade.OTHER_NOISE, Grade.SLOW_REMAINDER, Grade.SMALL_REMAINDER,
            Grade.ROUGH, Grade.NOT)  # what cannot be judged does not matter beside what can
COLOURS: Mapping[Grade, str] = {
    Grade.NOISE: "green", Grade.SLOW_NOISE: "green", Grade.OTHER_NOISE: "amber", Grade.SLOW_REMAINDER: "amber",
    Grade.SMALL_REMAINDER: "amber", Grade.ROUGH: "orange", Grade.NOT: "red", Grade.UNJUDGED: "grey"}
EXIT_CODES: Mapping[str, int] = {"green": 0, "amber": 0, "orange": 3, "red": 4, "grey": 0}
STRICT_AMBER = 3  # exit code of amber where the user wants no doubt


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a model with its values describes a record: a grade, a sentence, the cause, and the numbers behind them.

    See the manual, explain/verdict.

    Attributes
    ----------
    grade : Grade
        "A" to the noise, "A~" to slow noise of the given size, "A!" to noise that is not the given one, "B~" but for a slow
        remainder, "B" but for a small systematic remainder, "C" roughly, "D" not, "?" cannot be judged.
    sentence : str
        The same in words, with the numbers that matter.
    cause : Cause
        Why it is not a plain A, as far as numbers tell; empty where there is nothing to explain.
    numbers : mapping of str to float
        What it rests on: samples, rms, signal_std, memory, ... in the unit of the signal or without one.
    subject : str
        The signal that is meant: its name and, of several, its experiment; empty for all together.
    parts : tuple of Verdict
        One per output and experiment; empty in these themselves.
    optimum : bool
        Whether the fit converged; what is no optimum is never green.

    Examples
    --------
    >>> import numpy as np, dynident as di
    >>> time = np.linspace(0, 5, 101)
    >>> noise = np.random.default_rng(0).normal(0, 0.01, 101)
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment(time, outputs={"x": np.exp(-time) + noise}, noise={"x": di.Gaussian(0.01)})
    >>> estimate = di.identify(di.Problem(decay, [record], [di.Parameter("k", start=2, lower=0)]))
    >>> print(estimate.verdict.grade, estimate.verdict.colour, estimate.verdict.exit_code())
    A green 0
    """

    grade: Grade
    sentence: str
    cause: Cause = Cause.NONE
    numbers: Mapping[str, float] = field(default_factory=dict)
    subject: str = ""
    parts: tuple[Verdict, ...] = ()
    optimum: bool = True

    def __str__(self) -> str:
        return f"[{self.grade}] {self.sentence}"

    @property
    def exceeds_noise(self) -> bool:
        """Whether what is left over is more than noise, so that its size is no measure of the noise."""
        return self.grade in (Grade.SMALL_REMAINDER, Grade.ROUGH, Grade.NOT)

    @property
    def colour(self) -> str:
        """ "green", "amber", "orange", "red" or "grey"; the grade says the same without colour."""
        colour = COLOURS[self.grade]
        return "amber" if colour == "green" and not self.optimum else colour

    @property
    def severity(self) -> int:
        """The larger the worse; 0 where nothing can be judged."""
        return SEVERITY.index(self.grade)

    @property
    def withholds_intervals(self) -> bool:
        """Whether what is left over is so large that no interval would mean anything."""
        return self.grade in (Grade.ROUGH, Grade.NOT)

    def exit_code(self, strict: bool = False) -> int:
        """What a command leaves with: 0 for green, amber and grey, 3 for orange, 4 for red; `strict`: amber is 3, too."""
        return STRICT_AMBER if strict and self.colour == "amber" else EXIT_CODES[self.colour]


def pool_verdicts(parts: Sequence[Verdict], pooled: Sequence[Verdict] = ()) -> Verdict:
    """All signals together: the worst that could be judged.

    `pooled` are verdicts over all experiments of an output: they speak where each experiment alone is too short to be judged.
    """
    if not parts:
        return Verdict(Grade.UNJUDGED, "Cannot be judged: nothing was measured.", Cause.FEW_DATA)
    worst = max((*pooled, *parts), key=lambda each: each.severity)
    if len(parts) == 1:
        return replace(worst, subject="", parts=tuple(parts))
    judged = sum(each.grade is not Grade.UNJUDGED for each in parts)
    unjudged = f"; {len(parts) - judged} could not be judged" if 0 < judged < len(parts) else ""
    which = f"That is {worst.subject}, the worst of {len(parts)} signals{unjudged}."
    return replace(worst, sentence=f"{worst.sentence} {which}", subject="", parts=tuple(parts))
