"""Trial: what would a planned record show, and how does that answer to the coefficients of its inputs?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.design.course import Course
from dynident.errors import SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagation, propagator_for
from dynident.models.equations import EquationModel
from dynident.models.variational import VariationalModel

ACCURATE = 1e-4  # relative change of outputs and sensitivities when the steps are halved, small enough for a plan
MOST_SUBSTEPS = 64


@dataclass(frozen=True, eq=False)
class Ran:
    """One simulated record and its derivatives with respect to the coefficients."""

    inputs: np.ndarray  # (samples, inputs)
    outputs: np.ndarray  # (samples, outputs)
    sensitivities: np.ndarray  # (samples, outputs, q): q are unknown initial states, then free parameters
    watched: np.ndarray  # (samples, expressions)
    d_inputs: np.ndarray  # (samples, inputs, coefficients)
    d_outputs: np.ndarray  # (samples, outputs, coefficients)
    d_sensitivities: np.ndarray  # (samples, outputs, q, coefficients)
    d_watched: np.ndarray  # (samples, expressions, coefficients)


class Trial:
    """The variational model on the grid of a planned record."""

    def __init__(self, model: EquationModel, course: Course, initial: tuple[int, ...], free: tuple[int, ...],
                 watched: tuple[str, ...], substeps: int = 1):
        self.course = course
        self.whole = VariationalModel(model, initial, free, course.slots, course.count, watched)
        self.march = propagator_for(self.whole, integrator_named("runge_kutta"), self.whole.varied)  # type: ignore[arg-type]
        self.linear = np.array([s.hold == "linear" for s in course.signals.values()], bool)
        self.time = course.share * course.reference
        self.substeps = substeps
        self._room: Propagation | None = None

    def run(self, c: np.ndarray, p: np.ndarray, x0: np.ndarray, sensitivities: bool = True) -> Ran:
        course, whole = self.course, self.whole
        sampled = course.sampled(c)
        stretch = course.duration(c) / course.reference
        out = self.march.run(self._grid(np.hstack([sampled.values, sampled.slopes])), np.array([0, course.samples - 1]),
                             whole.first_state(x0)[None], whole.values(p, stretch), sensitivities, self._room)
        self._room = out if sensitivities else None
        ny, nq, nw = len(whole.model.outputs), whole.unknowns, len(whole.watched)
        y, J, w = np.split(out.outputs, [ny, ny * (1 + nq)], axis=1)
        d_inputs = np.zeros((course.samples, len(course.parts), course.count))
        for place, (i, j) in enumerate(course.slots):
            d_inputs[:, i, j] += sampled.slopes[:, place]
        d = np.zeros((course.samples, ny * (1 + nq) + nw, course.count))
        if out.jacobian is not None:
            first = len(whole.states)
            d = out.jacobian[:, :, first:first + course.count].copy()
            if course.free_duration:
                d[:, :, -1] += out.jacobian[:, :, -1] / course.reference
        dy, dJ, dw = np.split(d, [ny, ny * (1 + nq)], axis=1)
        shape = (course.samples, nq, ny)
        return Ran(sampled.values, y.copy(), J.reshape(shape).swapaxes(1, 2).copy(), w.copy(), d_inputs, dy,
                   dJ.reshape((*shape, course.count)).swapaxes(1, 2), dw)

    def _grid(self, columns: np.ndarray) -> Grid:
        """Inputs and slopes; a slope is held as its input is."""
        nu = self.linear.size
        linear = np.concatenate([self.linear, [self.linear[i] for i, _ in self.course.slots]]).astype(bool)
        begin, end = columns[:-1].copy(), columns[:-1].copy()
        end[:, linear] = columns[1:, linear]
        n = self.course.samples
        assert columns.shape[1] == nu + len(self.course.slots)
        return Grid(self.time, 0, np.full(n - 1, self.substeps, np.int32), begin, end, np.ascontiguousarray(columns),
                    np.ones(n, np.uint8))

    def refined(self, c: np.ndarray, p: np.ndarray, x0: np.ndarray) -> None:
        """Take as many steps between samples as outputs and sensitivities need at a point."""
        before = None
        while self.substeps <= MOST_SUBSTEPS:
            try:
                ran = self.run(c, p, x0, sensitivities=False)
            except SimulationDiverged:
                ran = None
            if before is not None and ran is not None and _close(before, ran):
                self.substeps //= 2
                return
            before = ran
            self.substeps *= 2
        self.substeps = MOST_SUBSTEPS


def _close(a: Ran, b: Ran) -> bool:
    for x, y in ((a.outputs, b.outputs), (a.sensitivities, b.sensitivities)):
        size = np.max(np.abs(y), axis=0)
        if np.any(np.max(np.abs(x - y), axis=0) > ACCURATE * np.where(size > 0, size, 1.0)):
            return False
    return True
