"""Extended Kalman filter and iterated Kalman filter in NumPy, one sample at a time; the twin of filter_extended.c."""

from __future__ import annotations

import numpy as np

from dynident.kalman.backend import TIME_GOES_BACK
from dynident.kalman.filter_common import (
    FilterFault,
    FilterModel,
    FilterState,
    FilterStep,
    check_finite,
    pack_fields,
    project_onto_bounds,
)
from dynident.kalman.filter_linear import FORMS, CovarianceForm, MeasurementUpdate, update_with_measurements


def initial_state(model: FilterModel, x: np.ndarray, P: np.ndarray, t: float | None, u: np.ndarray | None) -> FilterState:
    return FilterState(0.0 if t is None else t, t is not None, np.zeros(model.layout.nu) if u is None else np.array(u, float),
                       np.array(x, float), FORMS[model.setup.method.covariance_update].keep(np.asarray(P, float)))


def update(model: FilterModel, state: FilterState, t: float, u: np.ndarray, y: np.ndarray, r: np.ndarray) -> FilterStep:
    """Predict to time t, then the measurements there."""
    form = FORMS[model.setup.method.covariance_update]
    if state.started and t < state.t:
        raise FilterFault(TIME_GOES_BACK)
    x, P, A = state.x, state.P, np.eye(model.layout.n)
    if state.started and t > state.t:
        x, P, A = predict(model, form, state, t, u)
    predicted, measured = _correct(model, form, x, P, t, u, y, r)
    full = form.full(measured.P)
    x, projected, _ = project_onto_bounds(model, measured.x, full)
    check_finite(x, np.diag(full))
    sample = pack_fields(model.layout.sample, x=x, variance=np.diag(full), predicted=predicted, whitened=measured.whitened,
                         used=measured.used, nis=measured.nis, loglik=measured.loglik, projected=projected)
    smoother_data = pack_fields(model.layout.smoother_data, P=full, A=A[:model.layout.nx], h=measured.h, c=measured.c,
                                e=measured.e)
    return FilterStep(FilterState(t, True, np.array(u, float), x, measured.P), sample, smoother_data)


def predict(model: FilterModel, form: CovarianceForm, state: FilterState, t: float, u: np.ndarray
            ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance at time t, and the transition matrix to there."""
    x, P, transition = state.x, state.P, np.eye(model.layout.n)
    for begin, h, u0, u1, q in model.substeps(state.t, t, state.u, u):
        x, A = model.step(begin, h, x, u0, u1)
        P, transition = form.predict(P, A, q), A @ transition
    return x, P, transition


def _correct(model: FilterModel, form: CovarianceForm, x: np.ndarray, P: np.ndarray, t: float, u: np.ndarray,
             y: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, MeasurementUpdate]:
    """The predicted outputs and the update; iterated, the measurement is linearised again at the new estimate."""
    method, gate = model.setup.method, model.settings["gate"]
    predicted, H = model.outputs(t, x, u)
    first = last = update_with_measurements(form, x, P, x, predicted, H, y, r, gate)
    for _ in range(1, method.iterations if method.filter == "iterated" else 1):
        at = last.x
        output, H = model.outputs(t, at, u)
        last = update_with_measurements(form, x, P, at, output, H, y, r, gate, first.used)
    judged = MeasurementUpdate(last.x, last.P, first.used, first.whitened, first.loglik, last.h, last.c, last.e)
    return predicted, judged  # whitened innovations and likelihood are those of the prediction
