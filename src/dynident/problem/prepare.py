"""Prepare: cut, shift, filter and thin a record before it is fitted; what matters to the model is done to its output alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dynident.errors import ProblemError, did_you_mean
from dynident.problem.experiment import Experiment
from dynident.problem.preparation import DOES, without_shared_noise

Make = TypeVar("Make", bound=Callable[..., Any])
RETURNS = """Returns
-------
PreparationStep
    For `prepare=` of `read_table`, or `Experiment.prepared`.
"""


@dataclass(frozen=True)
class PreparationStep:
    """One step of a preparation: which, and with which arguments."""

    kind: str
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(f'{key}={value!r}' for key, value in self.options.items() if value is not None)})"


def _returns_a_step(make: Make) -> Make:
    """With the section Returns in its docstring, which all steps share."""
    make.__doc__ = inspect.cleandoc(make.__doc__ or "").replace("Raises\n---", f"{RETURNS}\nRaises\n---", 1)
    return make


@_returns_a_step
def crop(begin: float | None = None, end: float | None = None) -> PreparationStep:
    """Keep the part of a record with begin <= t <= end.

    See the manual, howto/prepare.

    Parameters
    ----------
    begin : float, optional
        First time that is kept, in the unit of the record's time; its first unless given. A later begin is another initial
        state: what was known of it goes.
    end : float, optional
        Last time that is kept, likewise; its last unless given.

    Raises
    ------
    ProblemError
        When it is applied and no sample lies between.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"y": [1.0, 0.6, 0.4, 0.2]})
    >>> record.prepared([di.crop(1, 2)]).time.tolist()
    [1.0, 2.0]
    """
    return PreparationStep("crop", {"begin": begin, "end": end})


@_returns_a_step
def thin(every: int) -> PreparationStep:
    """Keep every n-th measured sample; inputs stay as they are.

    See the manual, howto/prepare.

    Parameters
    ----------
    every : int
        1 keeps all, 2 every second.

    Raises
    ------
    ProblemError
        When it is applied with anything but a whole number from 1 on.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"y": [1.0, 0.6, 0.4, 0.2]})
    >>> record.prepared([di.thin(2)]).outputs["y"].tolist()
    [1.0, 0.4]
    """
    return PreparationStep("thin", {"every": every})


@_returns_a_step
def resample(sample_time: float) -> PreparationStep:
    """Bring a record to even distances, not shorter than its own: outputs along straight lines, inputs by their mean.

    See the manual, howto/prepare.

    Parameters
    ----------
    sample_time : float
        The new distance of the samples, in the record's unit of time.

    Raises
    ------
    ProblemError
        When it is applied with a shorter distance than the record's own.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 0.9, 2.1, 3], outputs={"y": [0.0, 0.9, 2.1, 3.0]})
    >>> record.prepared([di.resample(1)]).outputs["y"].tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    return PreparationStep("resample", {"sample_time": sample_time})


@_returns_a_step
def shift(signal: str, by: float) -> PreparationStep:
    """Move the samples of one signal in time, where its channel is late or early; no value changes.

    See the manual, howto/prepare.

    Parameters
    ----------
    signal : str
        An input or an output.
    by : float
        Seconds; positive: later. A sensor that is 5 ms late is mended by -0.005.

    Raises
    ------
    ProblemError
        When it is applied: a signal that is not there, or a shift longer than the record.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2], {"u": [1, 1, 1]}, {"y": [0.0, 0.5, 0.7]})
    >>> record.prepared([di.shift("y", -1)]).outputs["y"].tolist()
    [0.5, 0.7, nan]
    """
    return PreparationStep("shift", {"signal": signal, "by": by})


@_returns_a_step
def detrend(signals: str | Sequence[str] | None = None, degree: int = 1) -> PreparationStep:
    """Take the straight line out of outputs, and out of the model's outputs alike.

    See the manual, howto/prepare.

    Parameters
    ----------
    signals : str or sequence of str, optional
        Outputs; all unless given.
    degree : int, default 1
        Of the polynomial: 0 takes the mean out, 1 a straight line, up to 3.

    Raises
    ------
    ProblemError
        When it is applied: uneven or missing samples, or errors that are not Gaussian of one size.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"y": [1.0, 2.0, 3.0, 4.0]})
    >>> abs(record.prepared([di.detrend("y", 0)]).outputs["y"].mean()) < 1e-12
    np.True_
    """
    return PreparationStep("detrend", {"signals": signals, "degree": degree})


@_returns_a_step
def lowpass(cutoff: float, signals: str | Sequence[str] | None = None, order: int = 2) -> PreparationStep:
    """Filter outputs forwards and backwards (zero phase), and the model's outputs alike; then thin.

    Neighbouring samples share their noise afterwards. Samples are thinned until they do not, and a note says by how much.
    See the manual, howto/prepare.

    Parameters
    ----------
    cutoff : float
        In Hz, where time is in seconds: there each pass leaves 71 % of an oscillation.
    signals : str or sequence of str, optional
        Outputs; all unless given. An input that is named is filtered too: that is a measured copy, the plant felt the other.
    order : int, default 2
        Of the Butterworth filter, in each direction.

    Raises
    ------
    ProblemError
        When it is applied: uneven or missing samples, a cut-off above half the sampling rate, errors not Gaussian of one size.

    Examples
    --------
    >>> import dynident as di
    >>> import numpy as np
    >>> t = np.arange(1000) * 0.001
    >>> run = di.Experiment(t, outputs={"y": np.sin(t)}).prepared([di.lowpass(20)])
    >>> run.notes[-1]
    "'y' was filtered (lowpass 20): every 27th sample is kept, since those between share their noise."
    """
    return PreparationStep("lowpass", {"cutoff": cutoff, "signals": signals, "order": order})


@_returns_a_step
def differentiate(signal: str, into: str | None = None) -> PreparationStep:
    """The derivative by central differences: of an output in its place, and of the model's alike; of an input beside it.

    See the manual, howto/prepare.

    Parameters
    ----------
    signal : str
        An output, which becomes its derivative; or an input.
    into : str, optional
        For an input: the name of the new input.

    Raises
    ------
    ProblemError
        When it is applied: uneven or missing samples, or an input without a name for its derivative.

    Examples
    --------
    >>> import dynident as di
    >>> record = di.Experiment([0, 1, 2], {"base": [0, 2, 4]}, hold="linear")
    >>> record.prepared([di.differentiate("base", into="speed")]).inputs["speed"].tolist()
    [2.0, 2.0, 2.0]
    """
    return PreparationStep("differentiate", {"signal": signal, "into": into})


STEPS: dict[str, Callable[..., PreparationStep]] = {
    "crop": crop, "detrend": detrend, "resample": resample, "thin": thin, "lowpass": lowpass, "shift": shift,
    "differentiate": differentiate}


def step_from(table: Any) -> PreparationStep:
    """A step as a problem file writes it: { crop = [2, 9] }, { lowpass = 20 }, { shift = { signal = "y", by = -0.005 } }."""
    if isinstance(table, PreparationStep):
        return table
    if not isinstance(table, Mapping) or len(table) != 1:
        raise ProblemError(f"prepare: {table!r} is no step; write one such as crop(2, 9), in a problem file "
                           "{ crop = [2, 9] }.")
    ((kind, given),) = table.items()
    if kind not in STEPS:
        raise ProblemError(f"prepare: there is no step '{kind}'.{did_you_mean(str(kind), STEPS)}")
    try:
        if isinstance(given, Mapping):
            return STEPS[kind](**given)
        return STEPS[kind](*given) if isinstance(given, (list, tuple)) else STEPS[kind](given)
    except TypeError as error:
        raise ProblemError(f"prepare: {kind}: {str(error).replace(f'{kind}() ', '')}.") from None


def prepare(record: Experiment, steps: Sequence[Any]) -> Experiment:
    """The record after all steps, in their order."""
    if isinstance(steps, (PreparationStep, Mapping)):
        steps = [steps]
    for step in [step_from(step) for step in steps]:
        try:
            if record.filters and step.kind in ("crop", "resample"):
                raise ProblemError("comes after a filter, whose ends it would move. Put it before.")
            record = DOES[step.kind](record, **step.options)
        except ProblemError as error:
            raise ProblemError([f"{record.label}: {step!r}: {fault}" for fault in error.faults]) from None
    return without_shared_noise(record)
