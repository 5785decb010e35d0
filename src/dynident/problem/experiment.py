"""Experiment: one measured record and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynident._util.data_classes import short_fields
from dynident._util.hooks import call
from dynident.errors import ProblemError, did_you_mean
from dynident.problem.noise import Bounded, Gaussian, LogNormal, Noise, formula_of, with_size
from dynident.problem.output_filter import OutputFilter
from dynident.problem.steady_state import SteadyState, finite_number, first_values

HOLDS = ("zero", "linear")


@dataclass(frozen=True, eq=False)
class Experiment:
    """One measured record: time, inputs, measured signals, what is assumed of their errors, known initial states.

    See the manual, howto/experiments.

    Parameters
    ----------
    time : array of float, (samples,)
        Rising, in seconds unless `units` says otherwise; repeated where something was measured several times (replicates).
        Dates (datetime64) are counted in seconds from the first, durations (timedelta64) in seconds.
    inputs : mapping of str to array, optional
        By name, one value per sample; each must be known everywhere.
    outputs : mapping of str to array, optional
        Measured signals by name, one value per sample; NaN is a missing one.
    noise : mapping of str to Gaussian, LogNormal or Bounded, optional
        Errors by measured signal. An output without an entry has Gaussian errors whose standard deviation is estimated; an
        input without one is known exactly. `noise={"i": Gaussian(0.03)}` of an input says that its sensor errs, independently
        from sample to sample: the plant felt the true input, and the record holds a noisy copy (errors in variables). What
        acts behind an input that is known exactly is `process_noise` of the problem.
    initial : mapping of str to float or str, or SteadyState, optional
        Known initial states, as numbers in the units of the model or as formulas of parameters and constants ("a0/V"); the
        others are estimated. "steady", or a `SteadyState`: the model's state of rest, for all states.
    start : float, optional
        Time at which the initial state holds, in the unit of `time`; the first sample unless given.
    hold : str or mapping of str to str, default "zero"
        How inputs move between samples: "zero" (constant) or "linear", for all or by input.
    name : str, default ""
        For tables, and for quantities that each experiment has of its own.
    units : mapping of str to str, optional
        By signal, and of "time".
    before : mapping of str to float, optional
        Inputs before the first sample in their units, for models with a dead time (`delay(u, theta)`); else as at the first.
    mode : str, default ""
        In which mode a hybrid model begins; "": the first that is possible.
    time_radius : float or array of one value per sample, default 0.0
        Guaranteed bound of the errors of the times at which was measured, in the unit of `time`, but not before the start;
        inputs change at `time`. Only set_membership() takes it.
    source : str, default ""
        The file that it was read from; errors name it.
    notes : tuple of str, default ()
        What the reader understood beyond the plain case, as sentences.
    constants : mapping of str to float, optional
        Values that parameters of the model have in this experiment, in their units, such as a dose; not estimated here.
    group : str, default ""
        Experiments of one group share the parameters that are declared with `per="group"`.
    steady : SteadyState, optional
        The states that `initial` does not name begin at rest; `initial="steady"` says so of all.
    filters : mapping of str to tuple, optional
        What an output went through (`prepared`): the model's output goes through it alike.

    Raises
    ------
    ProblemError
        With everything that is wrong: lengths, gaps in inputs, time that goes back, names that are none.

    Examples
    --------
    >>> import dynident as di
    >>> x = [1.0, 0.61, float("nan"), 0.22]
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": x}, initial={"x": 1})
    >>> record.samples, record.window(1, 3).samples
    (4, 3)
    """

    time: Any  # given as anything like an array of numbers, kept as a read-only copy; so are the signals
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    noise: Mapping[str, Noise] = field(default_factory=dict)
    initial: Any = field(default_factory=dict)  # numbers and formulas by state, or "steady"; kept as a mapping
    start: Any = None  # a number
    hold: Any = "zero"  # one word for all inputs, or a mapping by name; kept as a mapping
    name: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)  # inputs before the record, for models with dead times
    mode: str = ""  # in which mode a hybrid model begins; empty: the first that is possible
    time_radius: Any = 0.0  # bound of the errors of the times at which was measured: a number, or one per sample
    source: str = ""  # the file it was read from; errors name it
    notes: tuple[str, ...] = ()  # what the reader understood beyond the plain case, as sentences
    constants: Mapping[str, float] = field(default_factory=dict)  # parameters of the model that are known here
    group: str = ""
    steady: SteadyState | None = None  # where the states begin that `initial` does not name
    filters: Mapping[str, tuple[OutputFilter, ...]] = field(default_factory=dict)  # of outputs; the model's go through alike

    def __post_init__(self) -> None:
        if isinstance(self.initial, SteadyState) or self.initial == "steady":
            rest = self.initial if isinstance(self.initial, SteadyState) else SteadyState()
            object.__setattr__(self, "steady", rest)
            object.__setattr__(self, "initial", {})
        faults = self._table_faults()
        if faults:
            raise ProblemError([f"{self.label}: {fault}" for fault in faults])
        time = self._column("time", self._in_seconds(faults), faults)
        inputs = {str(k): self._column(f"input '{k}'", v, faults) for k, v in dict(self.inputs).items()}
        outputs = {str(k): self._column(f"output '{k}'", v, faults) for k, v in dict(self.outputs).items()}
        if not faults:
            _check_time(time, faults)
            _check_columns(time, inputs, outputs, faults)
        hold = self._holds(inputs, faults)
        noise = self._noise(inputs, outputs, time.size, faults)
        start = time[0] if self.start is None and time.size else self.start
        _check_start(start, time, inputs, faults)
        initial = first_values("known initial state '{}'", self.initial, faults)
        time_radius = self._time_radius(time.size, faults)
        before = {str(name): finite_number(f"input '{name}' before the record", value, faults)
                  for name, value in dict(self.before).items()}
        constants = {str(name): finite_number(f"constant '{name}'", value, faults)
                     for name, value in dict(self.constants).items()}
        faults += _steady_faults(self.steady, initial)
        faults += [f"before names '{name}', which is not an input.{did_you_mean(name, inputs)}"
                   for name in before if name not in inputs]
        faults += [f"filters names '{name}', which is not an output.{did_you_mean(name, outputs)}"
                   for name in self.filters if name not in outputs]
        faults += [fault for chain in self.filters.values() for each in chain for fault in each.faults()]
        if faults:
            raise ProblemError([f"{self.label}: {fault}" for fault in faults])
        filters = {name: tuple(chain) for name, chain in self.filters.items() if chain}
        for key, value in {"time": time, "inputs": inputs, "outputs": outputs, "noise": noise, "initial": initial,
                           "before": before, "filters": filters, "start": float(start), "time_radius": time_radius,
                           "hold": hold, "units": dict(self.units), "constants": constants, "group": str(self.group)}.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        return short_fields(self)

    @classmethod
    def from_table(cls, table: Any, *, split: str | int | Mapping[str, float] | None = None, **columns: Any) -> Any:
        """A record from a data frame (pandas, polars), an Arrow table, a mapping of arrays or a file; with `split` one per run.

        `split="run"` names the column that tells runs apart, `split={"gap": 5}` begins a new run after 5 s without a sample;
        both return a list. All else are the arguments of `read_table`. Dates in the column of time, with or without zone, are
        counted in seconds from the first. See the manual, howto/read_records.

        >>> import dynident as di
        >>> table = {"t": [0, 1, 2, 0, 1], "y": [1.0, 0.6, 0.4, 2.0, 1.2], "run": ["a", "a", "a", "b", "b"]}
        >>> [(record.name, record.samples) for record in di.Experiment.from_table(table, time="t", outputs=["y"], split="run")]
        [('run a', 3), ('run b', 2)]
        """
        return call("records_from_table", table, split, columns)

    @property
    def label(self) -> str:
        """What errors call it, which is its name or else its file."""
        return self.name or self.source or "experiment"

    @property
    def samples(self) -> int:
        """Number of samples, missing ones included."""
        return int(np.asarray(self.time).size)

    @property
    def input_noise(self) -> dict[str, Gaussian]:
        """Of each input whose sensor errs; a signal that is measured as an output, too, has the noise of the output."""
        return {name: noise for name, noise in self.noise.items() if name not in self.outputs and isinstance(noise, Gaussian)}

    def without_input_noise(self) -> Experiment:
        """The same record with inputs that are taken as exact."""
        return replace(self, noise={name: noise for name, noise in self.noise.items() if name in self.outputs})

    def without_output_noise(self) -> Experiment:
        """The same record with nothing assumed of the errors of its outputs."""
        return replace(self, noise={name: noise for name, noise in self.noise.items() if name in self.input_noise})

    def with_name(self, name: str) -> Experiment:
        """The same record under another name."""
        return replace(self, name=name)

    def window(self, begin: float, end: float, name: str = "") -> Experiment:
        """The part of the record with begin <= t <= end, by another name if you give one (several parts in one problem need
        it); known initial states stay only if it holds the start."""
        keep = (self.time >= begin) & (self.time <= end)
        if not np.any(keep):
            raise ProblemError(f"{self.label}: no sample lies between {begin:g} and {end:g}; the record runs from "
                               f"{self.time[0]:g} to {self.time[-1]:g}.")
        if self.filters and not np.all(keep):
            raise ProblemError(f"{self.label}: {', '.join(self.filters)} went through a filter, whose ends a window would "
                               "move. Crop before filtering: prepare=[crop(...), lowpass(...)].")
        return replace(self.rows(keep), name=name or self.name)

    def prepared(self, steps: Any) -> Experiment:
        """The record after steps such as `crop(2, 9)`, `lowpass(20)`, `shift("y", -0.005)`; see the manual, howto/prepare."""
        from dynident.problem.prepare import prepare

        return prepare(self, steps)

    def rows(self, keep: np.ndarray) -> Experiment:
        """The samples at which `keep` is true; known initial states stay only if the first is among them."""
        first = bool(keep[0])

        def part(noise: Noise) -> Noise:
            if isinstance(noise, Bounded):
                return Bounded(np.asarray(noise.radius)[keep]) if np.ndim(noise.radius) else noise
            return with_size(noise, np.asarray(noise.std)[keep] if np.ndim(noise.std) else noise.std)

        return replace(
            self, time=self.time[keep], start=self.start if first else None, initial=self.initial if first else {},
            steady=self.steady if first else None,
            mode=self.mode if first else "", before=self.before if first else {},
            time_radius=self.time_radius[keep] if np.ndim(self.time_radius) else self.time_radius,
            inputs={k: v[keep] for k, v in self.inputs.items()}, outputs={k: v[keep] for k, v in self.outputs.items()},
            noise={k: part(v) for k, v in self.noise.items()})

    def _table_faults(self) -> list[str]:
        """What should be said by name and is not."""
        examples = {"inputs": "{'u': [...]}", "outputs": "{'y': [...]}", "noise": "{'y': Gaussian(0.1)}",
                    "initial": "{'x': 0.0}", "before": "{'u': 0.0}", "units": "{'y': 'm'}", "hold": "{'u': 'linear'}",
                    "constants": "{'dose': 3.0}"}
        faults = []
        for field_name, example in examples.items():
            given = getattr(self, field_name)
            try:
                dict(given if field_name != "hold" or not isinstance(given, str) else {})
            except (TypeError, ValueError):
                faults.append(f"{field_name} is given by name, as in {field_name}={example}, not as a "
                              f"{type(given).__name__}.")
        return faults

    def _in_seconds(self, faults: list[str]) -> Any:
        """Time as it was given, or in seconds where it was given as dates or durations."""
        try:
            time = np.asarray(self.time)
        except ValueError:  # rows of different length; said with the other columns
            return self.time
        if time.dtype.kind not in DATES + DURATIONS:
            return self.time
        counted = to_seconds(time)
        if counted is None:
            faults.append(f"time is given as {time.dtype}, which has no length in seconds; give seconds.")
            return np.zeros(0)
        if self.units.get("time", "s") != "s":
            faults.append(f"time is given as {time.dtype}, which is counted in seconds, but units says that it is in "
                          f"'{self.units['time']}'. Remove one of the two.")
        return counted

    def _column(self, what: str, values: ArrayLike, faults: list[str]) -> np.ndarray:
        """A column that nobody else can write to: a copy, unless it is frozen already."""
        try:
            given = np.asarray(values)
            array = np.ascontiguousarray(given, dtype=float) if given.dtype.kind not in "c" + DATES + DURATIONS else given
        except (TypeError, ValueError):
            faults.append(f"{what} holds something that is not a number; write NaN where a value is missing.")
            return np.zeros(0)
        if array.dtype.kind == "c":
            faults.append(f"{what} holds complex numbers; give their real part, their size or their angle.")
            return np.zeros(0)
        if array.dtype.kind != "f":
            faults.append(f"{what} holds {array.dtype}, not numbers; only time may be given as dates or durations.")
            return np.zeros(0)
        if array.ndim != 1:
            faults.append(f"{what} must be one-dimensional, but has shape {array.shape}; give each column a name of its own.")
            return np.zeros(0)
        if not _frozen(array):
            array = array.copy()
            array.flags.writeable = False
        return array

    def _holds(self, inputs: Mapping[str, np.ndarray], faults: list[str]) -> dict[str, str]:
        given = dict.fromkeys(inputs, self.hold) if isinstance(self.hold, str) else dict(self.hold)
        for name, hold in given.items():
            if name not in inputs:
                faults.append(f"hold names '{name}', which is not an input.{did_you_mean(name, inputs)}")
            if hold not in HOLDS:
                faults.append(f"hold of '{name}' is '{hold}'; use \"zero\" or \"linear\".")
        return {name: given.get(name, "zero") for name in inputs}

    def _time_radius(self, samples: int, faults: list[str]) -> Any:
        """A number, or a column of its own."""
        column = self._column("time_radius", np.atleast_1d(self.time_radius), faults)
        if column.size not in (1, samples) or not np.all(np.isfinite(column) & (column >= 0)):
            faults.append(f"time_radius is a finite number that is not negative, or one for each of {samples} samples.")
        return column if np.ndim(self.time_radius) else column.item() if column.size else 0.0

    def _noise(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], samples: int, faults: list[str]
               ) -> dict[str, Noise]:
        for name, noise in dict(self.noise).items():
            if name not in outputs and name not in inputs:
                faults.append(f"noise names '{name}', which is not a measured signal.{did_you_mean(name, [*outputs, *inputs])}")
            elif name not in outputs and isinstance(noise, (Bounded, LogNormal)):
                faults.append(f"noise of the input '{name}' is {type(noise).__name__}, for which there is no method; say "
                              "Gaussian(std), or Gaussian() where its size is not known.")
            elif name not in outputs and formula_of(noise) is not None:
                faults.append(f"noise of the input '{name}' is a formula, for which there is no method; say Gaussian(std) with "
                              "a number, or Gaussian() where its size is not known.")
            if not isinstance(noise, (Gaussian, Bounded, LogNormal)):
                faults.append(f"noise of '{name}' must be Gaussian(std), LogNormal(std) or Bounded(radius), not {noise!r}.")
                continue
            if isinstance(noise, LogNormal) and name in outputs and np.any(np.asarray(outputs[name]) <= 0):
                k = int(np.flatnonzero(np.asarray(outputs[name]) <= 0)[0])
                faults.append(f"errors of '{name}' are log-normal, but its value at sample {k} is {outputs[name][k]:g}; only "
                              "positive values have a logarithm. Write NaN where it is missing, or say Gaussian(std).")
            size = np.size(noise.radius if isinstance(noise, Bounded) else noise.std)  # type: ignore[arg-type]
            if size not in (1, samples):
                faults.append(f"noise of '{name}' has {size} values for {samples} samples.")
        known = {name: _frozen_noise(noise) for name, noise in self.noise.items()
                 if isinstance(noise, (Gaussian, Bounded, LogNormal))}
        of_inputs = {name: noise for name, noise in known.items() if name in inputs and name not in outputs}
        return {name: known.get(name, Gaussian()) for name in outputs} | of_inputs


def _frozen_noise(noise: Noise) -> Noise:
    """The noise with sizes that nobody else can write to."""
    sizes: Any = noise.radius if isinstance(noise, Bounded) else noise.std
    if not np.ndim(sizes) or _frozen(sizes):
        return noise
    own = np.array(sizes, dtype=float)
    own.flags.writeable = False
    return with_size(noise, own)


def _frozen(array: Any) -> bool:
    """Whether the array belongs to itself and cannot be written to, as the columns of another record."""
    return isinstance(array, np.ndarray) and array.base is None and not array.flags.writeable


def _steady_faults(steady: Any, initial: Mapping[str, Any]) -> list[str]:
    if steady is not None and not isinstance(steady, SteadyState):
        return [f"steady is {steady!r}; write SteadyState(...), or initial=\"steady\"."]
    return [f"the known initial state of '{name}' is the text \"steady\"; write initial=\"steady\" for all states, or "
            "steady=SteadyState() and only the others in `initial`." for name, value in initial.items() if value == "steady"]


def _check_time(time: np.ndarray, faults: list[str]) -> None:
    if time.size == 0:
        faults.append("it has no samples: time is empty. Give at least one.")
        return
    bad = np.flatnonzero(~np.isfinite(time))
    if bad.size:
        faults.append(f"time is not finite at sample {bad[0]} (counted from 0). Leave that sample out, in all signals.")
        return
    back = np.flatnonzero(np.diff(time) < 0)
    if back.size:
        k = int(back[0])
        faults.append(f"time goes back at sample {k + 1}: {float(time[k])!r} is followed by {float(time[k + 1])!r}"
                      f"{f' ({back.size} such places)' if back.size > 1 else ''}. "
                      "Sort the record, or split it into two experiments.")


def _check_columns(time: np.ndarray, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray],
                   faults: list[str]) -> None:
    for kind, columns in (("input", inputs), ("output", outputs)):
        for name, values in columns.items():
            if values.size != time.size:
                faults.append(f"{kind} '{name}' has length {values.size}, time has {time.size}; give one value for each time.")
            elif kind == "input" and not np.all(np.isfinite(values)):
                k = int(np.flatnonzero(~np.isfinite(values))[0])
                faults.append(f"input '{name}' is not finite at sample {k} (t = {time[k]:g}); an input must be known "
                              "everywhere. Fill the gap knowingly, or split the record there.")
            elif kind == "input" and (k := _differs_at_a_repeat(time, values)):
                faults.append(f"time repeats at sample {k} (t = {time[k]:g}), but input '{name}' differs there: "
                              f"{values[k - 1]:g} and {values[k]:g}. Repeated measurements have one input; split the record, "
                              "or correct the time.")
            elif kind == "output" and np.any(np.isinf(values)):
                k = int(np.flatnonzero(np.isinf(values))[0])
                faults.append(f"output '{name}' is infinite at sample {k} (t = {time[k]:g}); write NaN if it is missing.")


def _differs_at_a_repeat(time: np.ndarray, values: np.ndarray) -> int:
    """The first sample at the same time as the one before it with another value; 0 where there is none."""
    found = np.flatnonzero((np.diff(time) == 0) & (np.diff(values) != 0))
    return int(found[0]) + 1 if found.size else 0


def _check_start(start: float | None, time: np.ndarray, inputs: Mapping[str, np.ndarray], faults: list[str]) -> None:
    if start is None or not time.size or faults:
        return
    if not isinstance(start, Real):
        faults.append(f"start = {start!r} is not a number; it is counted like time, in seconds after the first where that is "
                      "given as dates.")
        return
    if not np.isfinite(start) or start > time[0]:
        faults.append(f"start = {start:g} lies after the first sample at {time[0]:g}; start is the time at which the "
                      "initial state holds.")
    elif start < time[0] and inputs:
        faults.append(f"start = {start:g} lies before the first sample at {time[0]:g}, where the inputs are not known. "
                      "Add a sample at the start with NaN in the measured signals.")


DATES, DURATIONS = "M", "m"  # as numpy calls the kinds of datetime64 and timedelta64
SECONDS = {"W": Fraction(604_800), "D": Fraction(86_400), "h": Fraction(3600), "m": Fraction(60), "s": Fraction(1)} | {
    unit: Fraction(1, 1000 ** power) for power, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"), 1)}


def to_seconds(times: np.ndarray) -> np.ndarray | None:
    """Durations in seconds, dates in seconds after the first; NaN where there is none, None where they have no size.

    Whole counts are subtracted before they become floats, so that nanoseconds survive beside a date.
    """
    if times.dtype.kind == DATES:
        if np.datetime_data(times.dtype)[0] in "YM":  # calendar units have no fixed length, their first days have
            times = times.astype("datetime64[D]")
        times = times - times.ravel()[:1]
    unit, multiple = np.datetime_data(times.dtype)
    if unit not in SECONDS:
        return None
    factor = SECONDS[unit] * multiple
    counts = times.astype(np.int64).astype(float) * float(factor.numerator) / float(factor.denominator)
    return np.where(np.isnat(times), np.nan, counts)
