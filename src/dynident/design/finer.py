"""Finer: what does the machine do between the samples? An independent simulation at ten times finer steps."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from dynident.design.course import Course
from dynident.design.limits import Limit
from dynident.design.plan import Use
from dynident.models.equations import EquationModel
from dynident.models.variational import monitored_expressions
from dynident.problem.experiment import Experiment
from dynident.verbs.simulate import simulate

FINER = 10
ROUNDING = 1e-9  # of a limit's size: what two simulations may differ by
EQUAL = 1e-4  # of its size: how closely an equality must be met


def slack_of(limit: Limit) -> float:
    return (EQUAL if limit.lower == limit.upper else -ROUNDING if limit.open else ROUNDING) * limit.size


class Finer:
    """One planned record, simulated by the model alone with the inputs as the controller holds them."""

    def __init__(self, model: EquationModel, course: Course, c: np.ndarray, p: np.ndarray, x0: np.ndarray):
        self.model = model
        self.coarse = course.sampled(c).values  # (samples, inputs)
        self.step = course.duration(c) / (course.samples - 1)
        self.time = np.arange(FINER * (course.samples - 1) + 1) * (self.step / FINER)
        self.inputs = np.empty((self.time.size, self.coarse.shape[1]))
        place = np.arange(self.time.size) / FINER
        for i, signal in enumerate(course.signals.values()):
            held = self.coarse[np.minimum((place + 1e-9).astype(int), course.samples - 1), i]
            linear = np.interp(place, np.arange(course.samples), self.coarse[:, i])
            self.inputs[:, i] = linear if signal.hold == "linear" else held
        self.holds = {n: s.hold for n, s in course.signals.items()}
        self.p = p
        self.trajectory = simulate(model, dict(zip(model.parameters, p, strict=True)), Experiment(
            self.time, {n: self.inputs[:, i] for i, n in enumerate(model.inputs)},
            initial=dict(zip(model.states, x0, strict=True)), hold=self.holds))

    def values(self, limit: Limit) -> np.ndarray:
        """What is limited, at all fine points, or at the end."""
        if limit.input_rate is not None:
            return np.diff(self.coarse[:, limit.input_rate]) / self.step
        model, n = self.model, self.time.size
        symbols = [ca.SX.sym("t"), *(ca.SX.sym(k, size) for k, size in (
            ("x", len(model.states)), ("u", len(model.inputs)), ("p", len(model.parameters))))]
        function = ca.Function("limit", symbols, [ca.densify(e) for e in monitored_expressions(
            model, [limit.expression], *symbols)]).map(n)
        x = np.array([self.trajectory.states[s] for s in model.states])
        found = np.asarray(function(self.time[None], x, self.inputs.T, np.tile(self.p[:, None], (1, n)))).ravel()
        return found[-1:] if limit.at_end else found

    def peaks(self, limit: Limit) -> list[tuple[float, float]]:
        """Where, in samples, each stretch outside of a limit is worst, and by how much."""
        values = self.values(limit)
        excess = np.maximum(values - limit.upper, limit.lower - values) - slack_of(limit)
        if limit.open and not limit.from_start:
            excess[0] = min(excess[0], 0.0)  # to begin on the border is no choice of the input's
        outside = np.concatenate([[0], (excess > 0).astype(int), [0]])
        begins, ends = np.flatnonzero(np.diff(outside) > 0), np.flatnonzero(np.diff(outside) < 0)
        worst = [int(a + np.argmax(excess[a:b])) for a, b in zip(begins, ends, strict=True)]
        return [(k / FINER, float(excess[k])) for k in worst]

    def at_samples(self) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        return (self.time[::FINER], {n: x[::FINER] for n, x in self.trajectory.states.items()},
                {n: y[::FINER] for n, y in self.trajectory.outputs.items()})


def uses(limits: Sequence[Limit], records: Sequence[Finer]) -> tuple[Use, ...]:
    """How much of each limit is taken up, over all records."""
    found = []
    for limit in limits:
        values = np.concatenate([record.values(limit) for record in records])
        found.append(Use(limit.text, limit.lower, limit.upper, float(np.min(values)), float(np.max(values)),
                         abs(slack_of(limit))))
    return tuple(found)
