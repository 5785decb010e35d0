"""Online: the filter sample by sample, in microseconds."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from dynident._util.atomic import atomic_write
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.filter_result import FilterRecord
from dynident.kalman.backend import FilterBackend, FilterStopped, backend_for
from dynident.kalman.likelihood import estimate_noise
from dynident.kalman.method import FilterMethod
from dynident.kalman.result import filter_record, to_user_units
from dynident.kalman.setup import FilterExperiment, FilterSetup, build_setup, signals_of
from dynident.problem.experiment import HOLDS, Experiment
from dynident.problem.noise import Bounded
from dynident.problem.problem import Problem, given_std

NUMBERS = (float, int, np.integer, np.floating)
OPTIONS_OF_THE_START = ("kind", "initial_std", "smoother", "passes")  # options that do not matter to a filter that goes on


class FilterEstimate:
    """What is known after a sample; names are looked up when asked for."""

    __slots__ = ("_fields", "_filter", "time")

    def __init__(self, filter: OnlineFilter, fields: np.ndarray, time: float):
        self._filter, self._fields, self.time = filter, fields, time

    @property
    def states(self) -> dict[str, float]:
        count = self._filter.state_count
        return _by_name(self._filter.names[:count], self._user_units()[0][:count])

    @property
    def parameters(self) -> dict[str, float]:
        count = self._filter.state_count
        return _by_name(self._filter.names[count:], self._user_units()[0][count:])

    @property
    def std(self) -> dict[str, float]:
        """Standard deviations of states and parameters."""
        return _by_name(self._filter.names, self._user_units()[1])

    @property
    def predicted_outputs(self) -> dict[str, float]:
        """Outputs as predicted before the sample came."""
        return _by_name(self._filter.outputs, self._fields[self._filter.fields["predicted"]])

    @property
    def whitened_innovations(self) -> dict[str, float]:
        """Innovations over their predicted standard deviation, independent of each other; NaN where missing or left out."""
        return _by_name(self._filter.outputs, self._fields[self._filter.fields["whitened"]])

    @property
    def nis(self) -> float:
        """Sum of their squares: about the number of measured outputs where the filter is right."""
        return float(self._fields[self._filter.fields["nis"]][0])

    def _user_units(self) -> tuple[np.ndarray, np.ndarray]:
        fields = self._filter.fields
        return to_user_units(self._filter.setup, self._fields[fields["x"]], self._fields[fields["variance"]])

    def __repr__(self) -> str:
        std = self.std
        said = ", ".join(f"{n} = {v:.6g} ± {std[n]:.2g}" for n, v in {**self.states, **self.parameters}.items())
        return f"t = {self.time:g}: {said}"


def _by_name(names: Sequence[str], values: np.ndarray) -> dict[str, float]:
    return dict(zip(names, map(float, values), strict=True))


class OnlineFilter:
    """One filter that goes on with each sample; not for two threads at once.

    What changes with a sample is the filter's memory and the time of the last one, which `save` keeps.
    """

    def __init__(self, setup: FilterSetup, backend: FilterBackend, experiment: int):
        self.setup, self.backend = setup, backend
        record = setup.records[experiment]
        model = setup.augmented.model
        self.names, self.inputs, self.outputs = setup.augmented.names, model.inputs, model.outputs
        self.state_count, self.fields = len(model.states), backend.layout.sample
        self._inside = np.zeros(1 + len(self.inputs) + 2 * len(self.outputs))
        self._inside[1 + len(self.inputs) + len(self.outputs):] = record.variance[0]
        self._first_order_hold = record.first_order_hold
        self._noise_per_sample = len(record.variance) > 1
        measured = setup.problem.experiments[experiment].outputs
        self._unmeasured = tuple(j for j, name in enumerate(self.outputs) if name not in measured)
        self._record_name = record.name
        self._view: Any = memoryview(self._inside)  # type: ignore[arg-type]  # setting a number here is the quickest way
        self._out = np.empty(self.fields["projected"].stop)
        early = record.start < record.time[0]
        self._last, self._first = -np.inf, record.start if early else -np.inf  # the first sample sets the time otherwise
        nx = self.state_count
        P = np.zeros((len(self.names), len(self.names)))
        P[:nx, :nx], P[nx:, nx:] = np.diag(record.initial_std**2), np.diag(setup.theta_std**2)
        self._memory = backend.initialize(np.concatenate([record.initial, setup.theta]), P, record.start if early else None)
        self._update = backend.updater(self._memory, record.first_order_hold, self._inside, self._out)

    def update(self, t: float, u: Mapping[str, float] | Sequence[float] = (),
               y: Mapping[str, float] | Sequence[float] = ()) -> FilterEstimate:
        """Go on to time t: inputs from there on, measured outputs there (NaN or not named: missing).

        Values by name, or in the order of the model. Raises FilterStopped where the filter cannot go on.
        """
        if not (isinstance(t, NUMBERS) and self._last < t < inf and t >= self._first):
            raise ProblemError(self._fault_of_time(t))
        inputs = self._in_order(u, self.inputs, "input")
        outputs = self._in_order(y, self.outputs, "output")
        if self._noise_per_sample or self._unmeasured:
            self._refuse_unknown_noise(outputs)
        view, place = self._view, 1
        view[0] = t
        for value in inputs:
            view[place] = value
            place += 1
        for value in outputs:
            view[place] = value
            place += 1
        fault = self._update()
        if fault:
            raise FilterStopped(fault, 0, t, "the online filter", self.setup.method)
        self._last = t
        return FilterEstimate(self, self._out.copy(), t)

    def run(self, experiment: Experiment) -> FilterRecord:
        """Go on over a whole stretch of samples in one compiled call; a long record in parts needs little memory.

        Standard deviations that the record gives are used; those that it leaves open are the filter's own.
        """
        faults = self._stretch_faults(experiment)
        if faults:
            raise ProblemError([f"{experiment.label}: {fault}" for fault in faults])
        variance = np.tile(self._inside[1 + len(self.inputs) + len(self.outputs):], (experiment.samples, 1))
        for j, name in enumerate(self.outputs):
            given = given_std(experiment, name) if name in experiment.outputs else None
            variance[:, j] = variance[:, j] if given is None else given**2
        part = FilterExperiment(experiment.name, *signals_of(experiment, self.inputs, self.outputs), variance, 0.0,
                                np.zeros(0), np.zeros(0), self._first_order_hold)
        done = self.backend.filter_record(self._memory, part)
        self._memory[:], self._last = done.memory, float(part.time[-1])
        return filter_record(self.setup, self.backend, part.name, part.time, done.samples)

    def _stretch_faults(self, experiment: Experiment) -> list[str]:
        """Why a stretch of samples cannot follow."""
        faults, begin = [], float(experiment.time[0])
        if not begin > self._last or begin < self._first:
            faults.append(f"it begins at {begin:g}, but the filter stands at {max(self._last, self._first):g}.")
        faults += [f"the model's input '{name}' is not in the record.{did_you_mean(name, experiment.inputs)}"
                   for name in self.inputs if name not in experiment.inputs]
        for kind, given, known in (("input", experiment.inputs, self.inputs), ("output", experiment.outputs, self.outputs)):
            faults += [f"'{name}' is not an {kind} of the model.{did_you_mean(name, known)}" for name in given
                       if name not in known]
        faults += [f"its input '{name}' moves as hold=\"{experiment.hold[name]}\" says, but the filter was started "
                   f"with \"{HOLDS[bool(linear)]}\"; say the same in both." for name, linear in
                   zip(self.inputs, self._first_order_hold, strict=True)
                   if name in experiment.inputs and experiment.hold[name] != HOLDS[bool(linear)]]
        for j, name in enumerate(self.outputs):
            noise = experiment.noise.get(name)
            if isinstance(noise, Bounded):
                faults.append(f"the errors of '{name}' are Bounded, but a filter needs Gaussian(std).")
            elif noise is not None and noise.std is None and (self._noise_per_sample or j in self._unmeasured):
                faults.append(f"nothing says how large the errors of '{name}' are; say noise={{\"{name}\": "
                              "Gaussian(std)}.")
        return faults

    def _fault_of_time(self, t: Any) -> str:
        if not isinstance(t, NUMBERS) or not np.isfinite(t):
            return f"update: t = {t!r}; give a finite number."
        if t <= self._last:
            return f"update: t = {t!r} is not after the last sample at {self._last!r}."
        return (f"update: t = {t!r} lies before {self._first:g}, where the initial state of '{self._record_name}' holds. "
                "Leave the experiment's `start` out if the first sample is to set the time.")

    def _refuse_unknown_noise(self, outputs: Sequence[float]) -> None:
        """A measurement whose errors the problem's record does not tell the size of."""
        if self._noise_per_sample:
            raise NotSupported(f"'{self._record_name}' has a standard deviation per sample; those of samples to come are "
                               "not known. Give one for all of them, Gaussian(std), or go on with run(experiment), "
                               "which takes them from each record.")
        for j in self._unmeasured:
            if not outputs[j] != outputs[j]:
                raise ProblemError(f"update: '{self._record_name}' does not measure '{self.outputs[j]}', so nothing says "
                                   "how large its errors are. Add it to the record (it may be NaN throughout) with "
                                   "noise=Gaussian(std), or leave it out here.")

    def _in_order(self, given: Any, names: tuple[str, ...], kind: str) -> Sequence[float]:
        if isinstance(given, Mapping):
            known = [name for name in given if name in names]
            if len(known) != len(given):
                wrong = next(name for name in given if name not in names)
                raise ProblemError(f"update: '{wrong}' is not an {kind} of the model.{did_you_mean(wrong, names)}")
            missing = np.nan
            given = [given.get(name, missing) for name in names]
        elif not isinstance(given, (list, tuple, np.ndarray)):
            given = [given]
        if len(given) != len(names):
            raise ProblemError(f"update: {len(given)} {kind}s for {len(names)} ({', '.join(names)}).")
        for value in given:
            if not (isinstance(value, float) and -inf < value < inf):  # quickly: all is as it should be
                return [_number(value, kind, name) for value, name in zip(given, names, strict=True)]
        return given

    @property
    def time(self) -> float:
        """Of the last sample; minus infinity before the first."""
        return self._last

    @property
    def covariance(self) -> np.ndarray:
        """Of states and parameters, in the filter's coordinates."""
        return self.backend.estimate(self._memory)[1]

    def save(self, path: str | Path) -> None:
        """Keep where the filter stands, as plain numbers; `resume` goes on from there."""
        kept: dict[str, Any] = {"memory": self._memory, "last": np.array(self._last),
                                "recipe": np.array(self._recipe())}
        with atomic_write(path) as aside, aside.open("wb") as file:
            np.savez(file, **kept)

    def resume(self, path: str | Path) -> None:
        """Go on where an earlier run of the same filter was saved."""
        memory, last, recipe = _read(Path(path))
        if recipe != self._recipe():
            raise ProblemError(f"{path} was saved by a filter of another model or with other options; remove it to "
                               "start anew.")
        if memory.shape != self._memory.shape:
            raise ProblemError(f"{path} was saved by another version of dynident or on another kind of machine, which "
                               "keeps its numbers in another order; remove it to start again.")
        self._memory[:] = memory
        self._last = last

    def _recipe(self) -> str:
        """All that the coming samples are filtered with, but for the sizes of noise that records tell."""
        setup = self.setup
        said = {key: value for key, value in sorted(setup.method.options().items()) if key not in OPTIONS_OF_THE_START}
        return (f"{setup.augmented.key()} {said} held {setup.fixed.tolist()} steps {setup.max_step!r} "
                f"linear {self._first_order_hold.tolist()}")


def _number(value: Any, kind: str, name: str) -> float:
    """Of anything that is one, such as an array that holds it; NaN only where it says that an output is missing."""
    try:
        number = float(value if isinstance(value, NUMBERS) else np.asarray(value).reshape(()).item())
    except (TypeError, ValueError):
        raise ProblemError(f"update: {kind} '{name}' is {value!r}; give a number"
                           f"{' (NaN where it is missing)' if kind == 'output' else ''}.") from None
    if number in (inf, -inf) or (kind == "input" and number != number):
        raise ProblemError(f"update: {kind} '{name}' is {number}; " + (
            "an input must be known everywhere." if kind == "input" else "say NaN where it is missing."))
    return number


def _read(path: Path) -> tuple[np.ndarray, float, str]:
    """The memory of a filter, its time and its recipe."""
    try:
        with np.load(path, allow_pickle=False) as saved:
            return np.array(saved["memory"], float), float(saved["last"]), str(saved["recipe"])
    except OSError as reason:
        raise ProblemError(f"{path} cannot be read: {reason.strerror or reason}.") from None
    except (ValueError, KeyError, EOFError, TypeError, IndexError, AttributeError, zipfile.BadZipFile, zlib.error):
        raise ProblemError(f"{path} is not the saved state of a filter, or is damaged; remove it to start again.") from None


def start(method: FilterMethod, problem: Problem, experiment: int = 0) -> OnlineFilter:
    """A filter at the start of an experiment; open noise levels are found from the problem's records first."""
    count = len(problem.experiments)
    if not isinstance(experiment, (int, np.integer)) or not 0 <= experiment < count:
        raise ProblemError(f"start: experiment = {experiment!r}; the problem's experiments are numbered from 0 to "
                           f"{count - 1}.")
    setup, _ = estimate_noise(build_setup(method, problem))
    return OnlineFilter(setup, backend_for(setup), experiment)
