"""Full weight matrices W, V and R0 of (3.6): against plain linear algebra, between solvers, and what is refused."""

import numpy as np
import pytest

import dynident as di

STEP, NODES = 0.1, 31
A = np.array([[0.0, 1.0], [-2.0, -0.4]])
MODEL = di.EquationModel(states={"x": "v", "v": "-k*x - 0.4*v"}, outputs={"position": "x", "speed": "v"})
Q = np.array([[0.04, 0.03], [0.03, 0.09]])  # W^-1
R = np.array([[0.0025, -0.003], [-0.003, 0.01]])  # V^-1
P0 = np.array([[0.25, 0.2], [0.2, 0.36]])  # R0^-1
X0 = np.array([1.0, 0.2])


def table(matrix: np.ndarray, names: tuple[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    """Standard deviations and the correlation of a covariance."""
    std = np.sqrt(np.diag(matrix))
    return dict(zip(names, std, strict=True)), {", ".join(names): matrix[0, 1] / (std[0] * std[1])}


PROCESS = dict(zip(("process_noise", "process_correlation"), table(Q, ("x", "v")), strict=True))
MEASURED = dict(zip(("measurement_noise", "measurement_correlation"), table(R, ("position", "speed")), strict=True))
FIRST = dict(zip(("initial_noise", "initial_correlation"), table(P0, ("x", "v")), strict=True))


def record() -> di.Experiment:
    rng = np.random.default_rng(4)
    time = STEP * np.arange(NODES)
    truth = np.exp(-0.2 * time)[:, None] * np.column_stack([np.cos(1.4 * time), -1.4 * np.sin(1.4 * time)])
    seen = truth + rng.multivariate_normal([0, 0], R, NODES)
    noise = {"position": di.Gaussian(float(np.sqrt(R[0, 0]))), "speed": di.Gaussian(float(np.sqrt(R[1, 1])))}
    return di.Experiment(time, outputs={"position": seen[:, 0], "speed": seen[:, 1]}, noise=noise)


def problem(k: bool = False) -> di.Problem:
    start = [di.InitialState("x", start=X0[0]), di.InitialState("v", start=X0[1])]
    stiffness = di.Parameter("k", 1.0, 0.1, 10.0) if k else di.Parameter("k", 2.0, free=False)
    return di.Problem(MODEL, [record()], [stiffness, *start])


def one_step() -> np.ndarray:
    """A Runge-Kutta step of the linear system."""
    E = np.eye(2)
    for power in range(4, 0, -1):
        E = np.eye(2) + A * STEP @ E / power
    return E


def dense_problem() -> tuple[np.ndarray, np.ndarray]:
    """(3.6) of the discretised linear system as one least squares problem: rows and right-hand side."""
    E = one_step()
    seen = np.column_stack([record().outputs[n] for n in ("position", "speed")])
    rows, rhs = [], []

    def add(weight: np.ndarray, blocks: dict[int, np.ndarray], value: np.ndarray) -> None:
        U = np.linalg.cholesky(np.linalg.inv(weight)).T
        row = np.zeros((2, 2 * NODES))
        for k, block in blocks.items():
            row[:, 2 * k:2 * k + 2] = U @ block
        rows.append(row)
        rhs.append(U @ value)

    add(P0, {0: np.eye(2)}, X0)
    for k in range(NODES):
        add(R, {k: np.eye(2)}, seen[k])
        if k < NODES - 1:
            add(Q * STEP, {k: -E, k + 1: np.eye(2)}, np.zeros(2))
    return np.vstack(rows), np.concatenate(rhs)


def dense_covariance() -> tuple[np.ndarray, np.ndarray]:
    """Of the states at all nodes, and one step of the system."""
    M, _ = dense_problem()
    return np.linalg.inv(M.T @ M), one_step()


def method(**options) -> di.boundary_value:
    said = {**PROCESS, "measurement_correlation": MEASURED["measurement_correlation"], **FIRST, "substeps": 1, **options}
    return di.boundary_value(**said)


def test_smoother_is_the_dense_least_squares_solution_with_full_matrices():
    M, b = dense_problem()
    x = np.linalg.lstsq(M, b, rcond=None)[0]
    cost = float(np.sum((M @ x - b) ** 2))
    variances = np.diag(np.linalg.inv(M.T @ M)).reshape(-1, 2)
    found = di.identify(problem(), method())
    own = found.smoothed.records[0]
    np.testing.assert_allclose(own.values, x.reshape(-1, 2), atol=1e-9)
    np.testing.assert_allclose(own.std, np.sqrt(variances), rtol=1e-6)
    assert found.cost == pytest.approx(cost, rel=1e-10)
    assert found.statistics["measurement_cost"] + found.statistics["model_cost"] < cost


@pytest.mark.parametrize("left_out", ["process_correlation", "measurement_correlation", "initial_correlation"])
def test_each_correlation_moves_the_answer(left_out):
    whole, without = (di.identify(problem(), method(**o)).smoothed.records[0].values for o in ({}, {left_out: {}}))
    assert np.max(np.abs(whole - without)) > 1e-3


def test_error_std_is_what_the_data_show_of_the_variance_of_model_errors():
    """The variance of an error less what stays unknown of it, by the dense problem."""
    covariance, E = dense_covariance()
    k = NODES // 2
    pick = np.zeros((2, 2 * NODES))
    pick[:, 2 * k:2 * k + 2], pick[:, 2 * k + 2:2 * k + 4] = -E, np.eye(2)
    expected = np.sqrt(np.diag(Q * STEP - pick @ covariance @ pick.T)) / STEP
    found = di.identify(problem(), method()).smoothed.records[0].error_std[k]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_uncorrelated_matrices_are_as_without_the_option():
    zero = {"process_correlation": {"x, v": 0.0}, "measurement_correlation": {"position, speed": 0.0},
            "initial_correlation": {"x, v": 0.0}}
    plain = {name: {} for name in zero}
    a, b = (di.identify(problem(k=True), method(**o)) for o in (zero, plain))
    assert a.values["k"] == pytest.approx(b.values["k"], rel=1e-7)
    assert a.uncertainty.std("k") == pytest.approx(b.uncertainty.std("k"), rel=1e-6)


@pytest.mark.parametrize("solver", ["newton", "davidenko", "musn"])
def test_roots_of_the_boundary_value_problem_with_full_matrices_are_the_smoothers(solver):
    """(3.13) to (3.16); continuous measurements, where both discretisations approach the same integral."""
    said = {**PROCESS, **MEASURED, **FIRST, "measurements": "continuous", "substeps": 4}
    smooth = di.identify(problem(k=True), di.boundary_value(**said))
    root = di.identify(problem(k=True), di.boundary_value(**said, solver=solver))
    assert root.values["k"] == pytest.approx(smooth.values["k"], abs=0.02 * smooth.uncertainty.std("k") + 2e-3)


def test_stationarity_holds_at_the_root():
    """(3.13) by its definition: at the root no direction lowers the sum, and the costates are W xi."""
    refined = di.identify(problem(k=True), method(refine=True))
    smooth = di.identify(problem(k=True), method())
    assert refined.values["k"] == pytest.approx(smooth.values["k"], abs=0.05 * smooth.uncertainty.std("k"))


@pytest.mark.parametrize("options, words", [
    ({"process_correlation": {"x, w": 0.1}}, "process_correlation names 'w', which is no state with process noise"),
    ({"process_correlation": {"x": 0.1}}, "give two different names"),
    ({"process_correlation": {"x, v": 1.5}}, "is 1.5; give a number between -1 and 1"),
    ({"measurement_correlation": {"position, v": 0.1}}, "names 'v', which is no measured output"),
    ({"initial_correlation": {"x, k": 0.1}}, "names 'k', which is no name in initial_noise")])
def test_what_makes_no_sense_is_refused(options, words):
    with pytest.raises(di.ProblemError, match=words):
        di.identify(problem(), method(**options))


def test_outputs_that_go_together_must_be_measured_together():
    e = record()
    holes = e.outputs["speed"].copy()
    holes[3] = np.nan
    torn = di.Experiment(e.time, outputs={"position": e.outputs["position"], "speed": holes}, noise=e.noise)
    with pytest.raises(di.ProblemError, match="not measured at the same samples"):
        di.identify(problem().replace(experiments=[torn]), method())


def test_correlations_that_no_errors_have_are_refused():
    three = di.EquationModel(states={"a": "0.1*b", "b": "-0.1*c", "c": "-k*a"})
    e = di.Experiment([0, 1, 2], outputs={"a": [0, 1, 2.0]}, noise={"a": di.Gaussian(0.1)}, initial={"a": 0, "b": 0, "c": 0})
    with pytest.raises(di.ProblemError, match="no errors have these correlations together"):
        di.identify(di.Problem(three, [e], [di.Parameter("k", 1.0)]), di.boundary_value(
            process_noise=0.1, process_correlation={"a, b": 0.9, "b, c": 0.9, "a, c": -0.9}))
