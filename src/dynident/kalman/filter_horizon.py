"""Moving horizon estimation in NumPy, some hundred times slower than compiled; the twin of filter_horizon.c."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dynident.kalman.backend import TIME_GOES_BACK, AdjointState, FilterLayout
from dynident.kalman.filter_adjoint import adjoint_measurement
from dynident.kalman.filter_common import (
    FilterFault,
    FilterModel,
    FilterStep,
    check_finite,
    pack_fields,
    project_onto_bounds,
)
from dynident.kalman.filter_linear import FORMS, CovarianceForm, MeasurementUpdate, update_with_measurements


@dataclass(frozen=True, eq=False)
class HorizonNode:
    """One sample in the window."""

    time: float
    u: np.ndarray
    y: np.ndarray
    r: np.ndarray
    at: np.ndarray  # the point of the trajectory around which the model is linear
    used: np.ndarray | None  # as the gate said when the sample came

    def to_array(self) -> np.ndarray:
        used = np.zeros_like(self.y) if self.used is None else self.used
        return np.concatenate([[self.time], self.u, self.y, self.r, self.at, used])


@dataclass(frozen=True, eq=False)
class HorizonState:
    """The window, and the arrival cost: mean and covariance of its oldest node before the measurements there."""

    t: float
    started: bool
    u: np.ndarray
    x: np.ndarray
    P: np.ndarray  # as its form keeps it
    P_newest: np.ndarray
    window: tuple[HorizonNode, ...] = ()

    def to_array(self, layout: FilterLayout, horizon: int) -> np.ndarray:
        """As numbers, as many for every filling of the window."""
        nodes = np.zeros((horizon + 1, 1 + layout.nu + 3 * layout.ny + layout.n))
        for row, node in zip(nodes, self.window, strict=False):
            row[:] = node.to_array()
        return np.concatenate([[self.t, float(self.started), len(self.window)], self.u, self.x, self.P.ravel(),
                               self.P_newest.ravel(), nodes.ravel()])

    @classmethod
    def from_array(cls, layout: FilterLayout, horizon: int, memory: np.ndarray) -> HorizonState:
        nu, ny, n = layout.nu, layout.ny, layout.n
        head, u, x, P, P_newest, nodes = np.split(memory.copy(), np.cumsum([3, nu, n, n * n, n * n]))
        rows = nodes.reshape(horizon + 1, -1)[:int(head[2])]
        window = tuple(HorizonNode(float(time[0]), *parts) for time, *parts in (
            np.split(row, np.cumsum([1, nu, ny, ny, n])) for row in rows))
        return cls(float(head[0]), bool(head[1]), u, x, P.reshape(n, n), P_newest.reshape(n, n), window)


def initial_state(model: FilterModel, x: np.ndarray, P: np.ndarray, t: float | None, u: np.ndarray | None) -> HorizonState:
    kept = FORMS[model.setup.method.covariance_update].keep(np.asarray(P, float))
    return HorizonState(0.0 if t is None else t, t is not None, np.zeros(model.layout.nu) if u is None else np.array(u, float),
                        np.array(x, float), kept, kept)


def update(model: FilterModel, state: HorizonState, t: float, u: np.ndarray, y: np.ndarray, r: np.ndarray) -> FilterStep:
    """One more node, then Gauss-Newton steps on the window."""
    method, form = model.setup.method, FORMS[model.setup.method.covariance_update]
    if state.started and t < state.t:
        raise FilterFault(TIME_GOES_BACK)
    if len(state.window) > method.horizon:
        state = update_arrival_cost(model, form, state)
    state = _with_node(model, form, state, t, u, y, r)
    state, measured, predicted, projected = gauss_newton_step(model, form, state)
    for _ in range(1, method.iterations):
        state, _, _, projected = gauss_newton_step(model, form, state)
    x, variance = state.window[-1].at, np.diag(form.full(state.P_newest))
    check_finite(x, variance)
    sample = pack_fields(model.layout.sample, x=x, variance=variance, predicted=predicted, whitened=measured.whitened,
                         used=measured.used, nis=measured.nis, loglik=measured.loglik, projected=projected)
    return FilterStep(state, sample, np.zeros(0))


def _with_node(model: FilterModel, form: CovarianceForm, state: HorizonState, t: float, u: np.ndarray, y: np.ndarray,
               r: np.ndarray) -> HorizonState:
    at, x, P = state.window[-1].at if state.window else state.x, state.x, state.P
    if state.started and t > state.t:
        moved = predict_linearized(model, form, (state.t, t), (state.u, u), at, at, state.P)
        at = moved.point
        if not state.window:
            x, P = moved.x, moved.P
    node = HorizonNode(t, np.array(u, float), np.array(y, float), np.array(r, float), at, None)
    return replace(state, t=t, started=True, u=np.array(u, float), x=x, P=P, window=(*state.window, node))


def update_arrival_cost(model: FilterModel, form: CovarianceForm, state: HorizonState) -> HorizonState:
    """The oldest node leaves the window and becomes part of the prior of the next."""
    oldest, following = state.window[:2]
    measured, _ = _update_node(model, form, oldest, state.x, state.P)
    moved = predict_linearized(model, form, (oldest.time, following.time), (oldest.u, following.u), oldest.at, measured.x,
                               measured.P)
    return replace(state, x=moved.x, P=moved.P, window=state.window[1:])


@dataclass(frozen=True, eq=False)
class LinearizedPrediction:
    """Mean and covariance one interval later; where the point of linearisation comes to, and the transition matrix."""

    x: np.ndarray
    P: np.ndarray
    point: np.ndarray
    A: np.ndarray


def predict_linearized(model: FilterModel, form: CovarianceForm, times: tuple[float, float],
                       inputs: tuple[np.ndarray, np.ndarray], at: np.ndarray, x: np.ndarray, P: np.ndarray
                       ) -> LinearizedPrediction:
    """Over one interval, the model linear around `at`."""
    point, off, transition = at, x - at, np.eye(model.layout.n)
    for t, h, u0, u1, q in model.substeps(*times, *inputs):
        point, A = model.step(t, h, point, u0, u1)
        off, P, transition = A @ off, form.predict(P, A, q), A @ transition
    return LinearizedPrediction(point + off, P, point, transition)


def _update_node(model: FilterModel, form: CovarianceForm, node: HorizonNode, x: np.ndarray, P: np.ndarray
                 ) -> tuple[MeasurementUpdate, np.ndarray]:
    """The measurements of a node, gated where they were not yet; and its predicted outputs."""
    output, H = model.outputs(node.time, node.at, node.u)
    measured = update_with_measurements(form, x, P, node.at, output, H, node.y, node.r, model.settings["gate"], node.used)
    return measured, output + H @ (x - node.at)


def gauss_newton_step(model: FilterModel, form: CovarianceForm, state: HorizonState
                      ) -> tuple[HorizonState, MeasurementUpdate, np.ndarray, int]:
    """One pass of the filter forward and one of the smoother back over the window.

    Returns the window around its new trajectory, the update of the newest node with its predicted outputs, and how many
    parameters were projected onto a bound.
    """
    window, x, P = state.window, state.x, state.P
    updates, predicted, transitions = [], np.zeros(0), []
    for k, node in enumerate(window):
        measured, predicted = _update_node(model, form, node, x, P)
        updates.append(measured)
        if k + 1 < len(window):
            moved = predict_linearized(model, form, (node.time, window[k + 1].time), (node.u, window[k + 1].u), node.at,
                                       measured.x, measured.P)
            x, P = moved.x, moved.P
            transitions.append(moved.A)
    newest = updates[-1]
    point, projected, multipliers = project_onto_bounds(model, newest.x, form.full(newest.P))
    points = [point]
    for (update, later), A in zip(reversed(list(pairwise(updates))), reversed(transitions), strict=True):
        multipliers = A.T @ _before_measurements(model, later, multipliers)
        points.insert(0, update.x - form.full(update.P) @ multipliers)
    nodes = tuple(replace(node, at=at, used=u.used) for node, at, u in zip(window, points, updates, strict=True))
    return replace(state, P_newest=newest.P, window=nodes), newest, predicted, projected


def _before_measurements(model: FilterModel, measured: MeasurementUpdate, multipliers: np.ndarray) -> np.ndarray:
    layout = model.layout
    data = pack_fields(layout.smoother_data, h=measured.h, c=measured.c, e=measured.e)
    future = AdjointState(multipliers, np.zeros((layout.n, layout.n)))
    return adjoint_measurement(layout, data, future, jointly=False).vector
