"""Online: the filter sample by sample, in microseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.filtered import FilteredRecord
from dynident.methods.kalman.assemble import in_user_units
from dynident.methods.kalman.engine import Engine, Stopped, engine_for
from dynident.methods.kalman.likelihood import estimate_levels
from dynident.methods.kalman.options import KalmanMethod
from dynident.methods.kalman.setup import Record, Setup, setup_of
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Problem


class Known:
    """What is known after a sample; names are looked up when asked for."""

    __slots__ = ("_fields", "_filter", "time")

    def __init__(self, filter: OnlineFilter, fields: np.ndarray, time: float):
        self._filter, self._fields, self.time = filter, fields, time

    @property
    def states(self) -> dict[str, float]:
        values, names = self._user_units()[0], self._filter.names
        return dict(zip(names[:self._filter.state_count], map(float, values), strict=False))

    @property
    def parameters(self) -> dict[str, float]:
        count = self._filter.state_count
        return dict(zip(self._filter.names[count:], map(float, self._user_units()[0][count:]), strict=True))

    @property
    def std(self) -> dict[str, float]:
        """Standard deviations of states and parameters."""
        return dict(zip(self._filter.names, map(float, self._user_units()[1]), strict=True))

    @property
    def predicted(self) -> dict[str, float]:
        """Outputs as foreseen before the sample came."""
        part = self._fields[self._filter.fields["predicted"]]
        return dict(zip(self._filter.outputs, map(float, part), strict=True))

    @property
    def whitened(self) -> dict[str, float]:
        """Innovations over their foreseen spread; NaN where missing or left out."""
        part = self._fields[self._filter.fields["whitened"]]
        return dict(zip(self._filter.outputs, map(float, part), strict=True))

    @property
    def nis(self) -> float:
        """Sum of their squares: about the number of measured outputs where the filter is right."""
        return float(self._fields[self._filter.fields["nis"]][0])

    def _user_units(self) -> tuple[np.ndarray, np.ndarray]:
        fields = self._filter.fields
        return in_user_units(self._filter.setup, self._fields[fields["x"]], self._fields[fields["variance"]])

    def __repr__(self) -> str:
        std = self.std
        said = ", ".join(f"{n} = {v:.6g} ± {std[n]:.2g}" for n, v in {**self.states, **self.parameters}.items())
        return f"t = {self.time:g}: {said}"


class OnlineFilter:
    """One filter that goes on with each sample; not for two threads at once."""

    def __init__(self, setup: Setup, engine: Engine, record: Record):
        self.setup, self.engine = setup, engine
        model = setup.augmented.model
        self.names, self.inputs, self.outputs = setup.augmented.names, model.inputs, model.outputs
        self.state_count, self.fields = len(model.states), engine.layout.sample
        self._inside = np.zeros(1 + len(self.inputs) + 2 * len(self.outputs))
        self._inside[1 + len(self.inputs) + len(self.outputs):] = record.variance[0]
        self._view: Any = memoryview(self._inside)  # type: ignore[arg-type]  # setting a number here is the quickest way
        self._out = np.empty(self.fields["projected"].stop)
        self._last = -np.inf
        self._update = engine.updater(self._inside, self._out)
        nx = self.state_count
        P = np.zeros((len(self.names), len(self.names)))
        P[:nx, :nx], P[nx:, nx:] = np.diag(record.initial_std**2), np.diag(setup.theta_std**2)
        engine.begin(np.concatenate([record.initial, setup.theta]), P)

    def update(self, t: float, u: Mapping[str, float] | Sequence[float] = (),
               y: Mapping[str, float] | Sequence[float] = ()) -> Known:
        """Go on to time t: inputs from there on, measured outputs there (NaN or not named: missing).

        Values by name, or in the order of the model. Raises Stopped where the filter cannot go on.
        """
        if not t > self._last:
            raise ProblemError(f"update: t = {t!r} is not after the last sample at {self._last!r}.")
        inputs = self._in_order(u, self.inputs, "input")
        outputs = self._in_order(y, self.outputs, "output")
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
            raise Stopped(fault, 0, t, "the online filter")
        self._last = t
        return Known(self, self._out.copy(), t)

    def run(self, experiment: Experiment) -> FilteredRecord:
        """Go on over a whole stretch of samples in one compiled call; a long record in parts needs little memory."""
        time = np.ascontiguousarray(experiment.time, float)
        if not time[0] > self._last:
            raise ProblemError(f"{experiment.label}: it begins at {time[0]:g}, but the filter stands at "
                               f"{self._last:g}.")
        missing = [name for name in self.inputs if name not in experiment.inputs]
        if missing:
            raise ProblemError(f"{experiment.label}: the model's input '{missing[0]}' is not in the record.")
        count, ny = experiment.samples, len(self.outputs)
        inputs = np.column_stack([experiment.inputs[n] for n in self.inputs]) if self.inputs else np.zeros((count, 0))
        outputs = np.column_stack([experiment.outputs.get(n, np.full(count, np.nan)) for n in self.outputs])
        variance = self._inside[None, 1 + len(self.inputs) + ny:].copy()
        part = Record(experiment.name, time, np.ascontiguousarray(inputs, float),
                      np.ascontiguousarray(outputs, float), variance, 0.0, np.zeros(0), np.zeros(0))
        samples, _ = self.engine.record(part)
        self._last = float(time[-1])
        values, std = in_user_units(self.setup, samples[:, self.fields["x"]], samples[:, self.fields["variance"]])
        return FilteredRecord(experiment.name, part.time, self.names, self.outputs, values, std,
                              samples[:, self.fields["whitened"]].copy(), samples[:, self.fields["used"]] == 2)

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
        if kind == "input":
            for name, value in zip(names, given, strict=True):
                if value != value or value in (np.inf, -np.inf):
                    raise ProblemError(f"update: input '{name}' is {value}; an input must be known everywhere.")
        return given

    @property
    def time(self) -> float:
        """Of the last sample; minus infinity before the first."""
        return self._last

    @property
    def covariance(self) -> np.ndarray:
        """Of states and parameters, in the filter's coordinates."""
        return self.engine.present()[1]

    def save(self, path: str | Path) -> None:
        """Keep where the filter stands, as plain numbers; `resume` goes on from there."""
        kept: dict[str, Any] = {"memory": self.engine.memory(), "last": np.array(self._last),
                                "recipe": np.array(self._recipe())}
        target = Path(path)
        aside = target.with_name(target.name + ".part.npz")
        np.savez(aside, **kept)
        aside.replace(target)

    def resume(self, path: str | Path) -> None:
        """Go on where an earlier run of the same filter was saved."""
        with np.load(Path(path), allow_pickle=False) as saved:
            if str(saved["recipe"]) != self._recipe():
                raise ProblemError(f"{path} was saved by a filter of another model or with other options; remove it to "
                                   "start anew.")
            if saved["memory"].shape != self.engine.memory().shape:
                raise ProblemError(f"{path} was saved by another version of dynident or on another kind of machine, which "
                                   "keeps its numbers in another order; remove it to start anew.")
            self.engine.remember(saved["memory"])
            self._last = float(saved["last"])

    def _recipe(self) -> str:
        method = self.setup.method
        return f"{self.setup.augmented.key()} {method.filter} {method.form} {method.integrator} {method.horizon}"


def start(method: KalmanMethod, problem: Problem, experiment: int = 0) -> OnlineFilter:
    """A filter at the start of an experiment; open noise levels are found from the problem's records first."""
    setup, _ = estimate_levels(setup_of(method, problem))
    return OnlineFilter(setup, engine_for(setup), setup.records[experiment])
