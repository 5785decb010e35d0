"""Program: cost and limits of a plan, with their exact derivatives, as a function of all coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynident.design.course import Course, keep_function
from dynident.design.criteria import Criterion, Seen
from dynident.design.knowledge import Knowledge
from dynident.design.limits import Limit
from dynident.design.trial import Ran, Trial
from dynident.solvers.slsqp import Asked

FIRST_PLACES = 50  # samples per record at which a limit is asked for before its peaks are known


@dataclass(frozen=True, eq=False)
class Scenario:
    """One set of values at which a plan is judged, as unknowns of the joint problem."""

    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of constraints that belong together: low <= value <= high, and where they stand for the user."""

    label: str
    low: float
    high: float
    size: float
    values: np.ndarray  # (rows,)
    slopes: np.ndarray  # (rows, variables)


def first_places(limits: Sequence[Limit], samples: int) -> list[np.ndarray]:
    """Samples at which each watched limit is asked for at first; peaks in between are added when they are found."""
    some = np.unique(np.append(np.arange(0, samples, max(1, samples // FIRST_PLACES)), samples - 1))
    return [np.array([samples - 1]) if limit.at_end else some[0 if limit.from_start else 1:] for limit in limits
            if limit.input_rate is None]


class Program:
    """Variables: the coefficients of all planned records, each over its size; one more for the worst case."""

    def __init__(self, trial: Trial, knowledge: Knowledge, criterion: Criterion, limits: Sequence[Limit],
                 scenarios: Sequence[Scenario], sizes: np.ndarray, wanted: np.ndarray, worst: bool,
                 factor: float = 1.0, places: Sequence[np.ndarray] = ()):
        self.trial, self.knowledge, self.criterion = trial, knowledge, criterion
        self.before, self.scale, self.freedom = knowledge.before, knowledge.scale, knowledge.freedom
        self.limits, self.scenarios, self.worst = tuple(limits), scenarios, worst
        self.records = len(knowledge.problem.experiments) - knowledge.earlier
        self.each = trial.course.count
        self.sizes, self.wanted, self.factor = np.tile(sizes, self.records), wanted, factor
        self.count = self.sizes.size + int(worst)
        self.columns = [self._columns(r) for r in range(self.records)]
        course = trial.course
        self.keeps = [(keep, part, keep_function(keep, part, course.share if keep.everywhere else course.share[-1:]))
                      for keep, part in course.keeps()]
        self.watched = [limit for limit in limits if limit.input_rate is None]
        self.places = list(places) or first_places(limits, course.samples)  # per watched limit

    def _columns(self, record: int) -> np.ndarray:
        """Places, among all unknowns, of the unknowns of one planned record in the order of its sensitivities."""
        binding = self.knowledge.problem.bindings[self.knowledge.earlier + record]
        whole = self.trial.whole
        return np.concatenate([binding.initial_unknown[list(whole.initial)],
                               binding.parameter_unknown[list(whole.free)]]).astype(int)

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """(records, coefficients)."""
        return (w[:self.sizes.size] * self.sizes).reshape(self.records, self.each)

    def seen(self, ran: Sequence[Ran], duration: float) -> Seen:
        k, course = self.knowledge, self.trial.course
        sensitivities = []
        for own, columns in zip(ran, self.columns, strict=True):
            S = np.zeros((*own.outputs.shape, len(k.names)))
            S[:, :, columns] = own.sensitivities
            sensitivities.append(S)
        return Seen(
            time=course.share * duration, outputs=[r.outputs for r in ran], sensitivities=sensitivities,
            inputs=[r.inputs for r in ran], weight=1 / k.std, density=duration / course.reference, before=self.before,
            freedom=self.freedom, names=k.names, output_names=k.problem.model.outputs, scale=self.scale, wanted=self.wanted)

    def ask(self, w: np.ndarray) -> Asked:
        c = self.coefficients(w)
        values, gradients, blocks = [], [], self._input_blocks(c)
        for scenario in self.scenarios:
            ran = [self.trial.run(own, *self._at(scenario, r)) for r, own in enumerate(c)]
            value, gradient = self._cost(ran, c)
            values.append(self.factor * value)
            gradients.append(self.factor * gradient * self.sizes)
            blocks += self._path_blocks(ran)
        rows = [b.slopes * self.sizes / b.size for b in blocks]
        g = [b.values / b.size for b in blocks]
        if not self.worst:
            slopes = np.vstack(rows) if rows else np.zeros((0, self.count))
            return Asked(float(np.mean(values)), np.mean(gradients, axis=0), np.concatenate([*g, np.zeros(0)]), slopes)
        wide = [np.hstack([r, np.zeros((len(r), 1))]) for r in rows]
        behind = np.hstack([np.array(gradients), -np.ones((len(values), 1))])
        return Asked(float(w[-1]), np.eye(self.count)[-1], np.concatenate([*g, np.array(values) - w[-1]]),
                     np.vstack([*wide, behind]))

    def bounds(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Lower and upper ends of the rows that `ask` gives, and the label of each."""
        low, high, labels = [], [], []
        ghost = np.zeros((self.records, self.each))
        shapes = [(b.label, b.low / b.size, b.high / b.size, b.values.size) for b in self._input_blocks(
            ghost + self._some_duration())]
        per_scenario = [(limit.text, limit.lower / limit.size, limit.upper / limit.size, where.size)
                        for _ in range(self.records) for limit, where in zip(self.watched, self.places, strict=True)]
        for label, a, b, rows in [*shapes, *per_scenario * len(self.scenarios)]:
            low += [a] * rows
            high += [b] * rows
            labels += [label] * rows
        if self.worst:
            low += [-np.inf] * len(self.scenarios)
            high += [0.0] * len(self.scenarios)
            labels += [""] * len(self.scenarios)
        return np.array(low), np.array(high), labels

    def _some_duration(self) -> np.ndarray:
        c = np.zeros(self.each)
        if self.trial.course.free_duration:
            c[-1] = self.trial.course.reference
        return c

    def _at(self, scenario: Scenario, record: int) -> tuple[np.ndarray, np.ndarray]:
        return self.knowledge.problem.values_in(scenario.values, self.knowledge.earlier + record)

    def _cost(self, ran: Sequence[Ran], c: np.ndarray) -> tuple[float, np.ndarray]:
        course = self.trial.course
        duration = course.duration(c[0])
        judged = self.criterion.judge(self.seen(ran, duration))
        gradient = np.zeros((self.records, self.each))
        for r, (own, columns) in enumerate(zip(ran, self.columns, strict=True)):
            to_s = judged.to_sensitivities[r][:, :, columns]
            gradient[r] = (np.tensordot(to_s, own.d_sensitivities, 3)
                           + np.tensordot(judged.to_outputs[r], own.d_outputs, 2)
                           + np.tensordot(judged.to_inputs[r], own.d_inputs, 2))
            if course.free_duration:
                gradient[r, -1] += judged.to_density / course.reference / self.records
        return judged.value, gradient.ravel()

    def _wide(self, slopes: np.ndarray, record: int) -> np.ndarray:
        wide = np.zeros((len(slopes), self.records, self.each))
        wide[:, record] = slopes
        return wide.reshape(len(slopes), -1)

    def _path_blocks(self, ran: Sequence[Ran]) -> list[Block]:
        blocks = []
        for r, own in enumerate(ran):
            for k, (limit, where) in enumerate(zip(self.watched, self.places, strict=True)):
                blocks.append(Block(limit.text, limit.lower, limit.upper, limit.size, own.watched[where, k],
                                    self._wide(own.d_watched[where, k], r)))
        return blocks

    def _input_blocks(self, c: np.ndarray) -> list[Block]:
        """Rates of inputs, and what the signals themselves must keep."""
        course, blocks = self.trial.course, []
        for r, own in enumerate(c):
            for limit in self.limits:
                if limit.input_rate is not None:
                    blocks.append(self._rate_block(course, limit, own, r))
            for keep, part, function in self.keeps:
                values, slopes, stretch = function(course.duration(own), own[part])
                wide = np.zeros((values.size, self.each))
                wide[:, part] = slopes
                if course.free_duration:
                    wide[:, -1] = stretch
                size = max(abs(keep.low), abs(keep.high)) or 1.0
                blocks.append(Block(keep.what, keep.low, keep.high, size, values, self._wide(wide, r)))
        return blocks

    def _rate_block(self, course: Course, limit: Limit, c: np.ndarray, r: int) -> Block:
        sampled = course.sampled(c)
        i, step = int(limit.input_rate or 0), course.duration(c) / (course.samples - 1)
        rate = np.diff(sampled.values[:, i]) / step
        slopes = np.zeros((rate.size, self.each))
        for place, (at, j) in enumerate(course.slots):
            if at == i:
                slopes[:, j] += np.diff(sampled.slopes[:, place]) / step
        if course.free_duration:
            slopes[:, -1] -= rate / course.duration(c)
        return Block(limit.text, limit.lower, limit.upper, limit.size, rate, self._wide(slopes, r))
