"""Multistep schemes: formulas on uneven grids, where they begin anew, derivatives, and the order in full discretization."""

import numpy as np
import pytest

import dynident as di
from dynident.codegen import batched
from dynident.integrators import MULTISTEP
from dynident.integrators.grid import grid_of
from dynident.integrators.multistep import ADAMS_MOULTON, BDF2, step_ratios
from dynident.integrators.multistep_propagation import MultistepPropagator
from dynident.transcription.full_discretization import FullDiscretization

EVEN = np.linspace(0, 2, 9)
UNEVEN = np.array([0.0, 0.15, 0.45, 0.6, 0.9, 1.0, 1.35, 1.7, 2.0])
SPRING = di.EquationModel(states={"x": "v", "v": "-k*x - 0.3*v - 0.5*x**3 + u"}, inputs=["u"], outputs={"x": "x"})


def spring_record(time: np.ndarray, hold: str = "linear") -> di.Experiment:
    u, start = {"u": np.sin(3 * time)}, {"x": 1.0, "v": 0.0}
    bare = di.Experiment(time, u, initial=start, hold=hold)
    exact = di.simulate(SPRING, {"k": 4.0}, bare, integrator="runge_kutta", substeps=400).outputs["x"]
    return di.Experiment(time, u, {"x": exact}, {"x": di.Gaussian(1.0)}, start, hold=hold)


def spring_problem(time: np.ndarray, hold: str = "linear") -> di.Problem:
    return di.Problem(SPRING, [spring_record(time, hold)], [di.Parameter("k", 4.5)])


def decay_of(time: list[float]) -> tuple[di.EquationModel, di.Experiment]:
    return di.EquationModel(states={"x": "-k*x"}), di.Experiment(time, initial={"x": 1.0})


def march(scheme, model, record, p):
    grid = grid_of(model, record, 1, everywhere=True)
    whole = np.array([0, grid.nodes - 1])
    return MultistepPropagator(model, scheme, (0,)).run(grid, whole, np.array([[1.0]]), np.array([p]), True)


def test_bdf2_is_its_textbook_formula_on_even_steps():
    model, record = decay_of([0, 0.1, 0.2, 0.3, 0.4])
    x = march(BDF2, model, record, 2.0).states[:, 0]
    expected = [1.0, 1 / 1.2]
    for _ in range(3):
        expected.append((4 * expected[-1] - expected[-2]) / (3 + 2 * 0.1 * 2.0))
    np.testing.assert_allclose(x, expected, rtol=1e-13)


def test_adams_moulton_is_its_textbook_formula_on_even_steps():
    model, record = decay_of([0, 0.1, 0.2, 0.3, 0.4])
    x = march(ADAMS_MOULTON, model, record, 2.0).states[:, 0]
    expected = [1.0, 0.9 / 1.1]
    for _ in range(3):
        expected.append((expected[-1] * (1 - 0.2 * 8 / 12) + 0.2 / 12 * expected[-2]) / (1 + 0.2 * 5 / 12))
    np.testing.assert_allclose(x, expected, rtol=1e-13)


@pytest.mark.parametrize("scheme, degree", [(BDF2, 2), (ADAMS_MOULTON, 3)], ids=lambda s: getattr(s, "name", ""))
def test_polynomials_of_the_order_are_followed_exactly_after_the_first_step(scheme, degree):
    """x' = d t^(d-1) on an uneven grid: only the starting step may err."""
    model = di.EquationModel(states={"x": f"k*{degree}*t**{degree - 1}"})
    time = np.array([0, 0.1, 0.25, 0.4, 0.5, 0.65])  # no gap is longer than the median, which would get two steps
    x = march(scheme, model, di.Experiment(time, initial={"x": 1.0}), 1.0).states[:, 0]
    error = x - (1 + time**degree)
    assert abs(error[1]) > 1e-4
    ratio = np.diff(time)[1:] / np.diff(time)[:-1]
    carried = ratio**2 / (1 + 2 * ratio) if scheme is BDF2 else 0 * ratio  # of a difference of errors, to the next step
    np.testing.assert_allclose(error[2:], error[1:-1] + carried * np.diff(error)[:-1], atol=1e-14)


def test_ratios_are_zero_where_the_past_belongs_to_another_course():
    time, u = np.array([0, 1, 2, 3, 3.5, 7.0]), np.array([0.0, 1, 2, 2, 5, 5])[:, None]
    linear = u[:-1], u[1:]
    held = u[:-1], u[:-1]
    assert step_ratios(BDF2, time, *linear).tolist() == [0, 1, 1, 0.5, 0]  # the last: 7 times as long
    assert step_ratios(ADAMS_MOULTON, time, *linear).tolist() == [0, 1, 0, 0, 0]  # at bends too
    assert step_ratios(BDF2, time, *held).tolist() == [0, 0, 0, 0.5, 0]  # where it jumps
    assert step_ratios(BDF2, np.array([0, 1, 1, 2.0]), np.zeros((3, 0)), np.zeros((3, 0))).tolist() == [0, 0, 0]


def test_substeps_of_an_input_that_moves_on_a_line_are_no_corners():
    record = di.Experiment([0, 1.1, 2.2], {"u": [0.1, 0.4, 0.7]}, initial={"x": 1.0, "v": 0.0}, hold="linear")
    grid = grid_of(SPRING, record, 7).with_substep_nodes()[0]
    ratios = step_ratios(ADAMS_MOULTON, grid.time, grid.u_begin, grid.u_end)
    assert ratios[0] == 0 and np.all(np.abs(ratios[1:] - 1) < 1e-9)


@pytest.mark.parametrize("scheme", MULTISTEP, ids=lambda s: s.name)
def test_derivatives_of_the_march_are_those_of_differences(scheme):
    grid = grid_of(SPRING, spring_record(UNEVEN), 4, everywhere=True)
    made, cuts = MultistepPropagator(SPRING, scheme, (0,)), np.array([0, 3, grid.nodes - 1])
    nodes = np.array([[1.0, 0.0], [0.4, -1.0]])

    def outputs(shift):
        return made.run(grid, cuts, nodes + shift[:2], np.array([4.0 + shift[2]]), False)

    out = made.run(grid, cuts, nodes, np.array([4.0]), True)
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-6
        difference = (outputs(step).outputs - outputs(-step).outputs) / 2e-6
        np.testing.assert_allclose(out.jacobian[:, :, j], difference, atol=2e-8)
        ends = (outputs(step).end_states - outputs(-step).end_states) / 2e-6
        np.testing.assert_allclose(out.end_jacobian[:, :, j], ends, atol=2e-8)


@pytest.mark.parametrize("scheme", MULTISTEP, ids=lambda s: s.name)
def test_a_march_has_no_defects_in_full_discretization(scheme):
    problem = spring_problem(UNEVEN)
    finite = FullDiscretization(problem, scheme, 3, {})
    grid = finite.records[0].grid
    states = MultistepPropagator(SPRING, scheme, (0,)).run(
        grid, np.array([0, grid.nodes - 1]), np.array([[1.0, 0.0]]), np.array([4.0]), False).states
    point = finite.from_states(finite.coordinates.coordinates(np.array([4.0])), [grid.time], [states])
    assert finite.evaluate(point).max_defect < 1e-13


@pytest.mark.parametrize("scheme", MULTISTEP, ids=lambda s: s.name)
@pytest.mark.parametrize("time, hold", [(EVEN, "linear"), (UNEVEN, "linear"), (UNEVEN, "zero")],
                         ids=["even", "uneven", "uneven with jumps"])
def test_order_of_the_estimate_in_full_discretization(scheme, time, hold):
    problem = spring_problem(time, hold)
    errors = [abs(di.identify(problem, di.full_discretization(scheme.name, substeps=n)).values["k"] - 4.0) for n in (32, 64)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(scheme.order, abs=0.2)


@pytest.mark.parametrize("scheme", MULTISTEP, ids=lambda s: s.name)
@pytest.mark.parametrize("solver", ["ipopt", "sqp"])
def test_sparse_solvers_end_where_gauss_newton_ends(scheme, solver):
    problem = spring_problem(UNEVEN)
    own = di.identify(problem, di.full_discretization(scheme.name, substeps=4))
    other = di.identify(problem, di.full_discretization(scheme.name, substeps=4, solver=solver))
    assert other.values["k"] == pytest.approx(own.values["k"], rel=1e-6)
    steps = np.sum(grid_of(SPRING, problem.experiments[0], 4).substeps)
    assert own.counts["equalities"] == other.counts["equalities"] == 2 * steps  # no more than by a one-step scheme


@pytest.mark.parametrize("scheme", MULTISTEP, ids=lambda s: s.name)
def test_without_a_compiler_the_estimate_is_the_same(scheme, monkeypatch):
    problem = spring_problem(UNEVEN)
    compiled = di.identify(problem, di.full_discretization(scheme.name, substeps=12)).values["k"]
    monkeypatch.setattr(batched, "load_library", lambda *a: None)
    interpreted = di.identify(problem, di.full_discretization(scheme.name, substeps=12)).values["k"]
    assert interpreted == pytest.approx(compiled, rel=1e-9)


def test_automatic_steps_and_an_unknown_first_state_work():
    record = spring_record(EVEN)
    rng = np.random.default_rng(1)
    noisy = di.Experiment(EVEN, record.inputs, {"x": record.outputs["x"] + 0.01 * rng.standard_normal(9)},
                          {"x": di.Gaussian(0.01)}, {"v": 0.0}, hold="linear")
    problem = di.Problem(SPRING, [noisy], [di.Parameter("k", 3.0, 0.0, 50.0)])
    assert len(problem.unknowns) == 2
    two, usual = (di.identify(problem, m) for m in (di.full_discretization("bdf2"), di.full_discretization()))
    assert abs(two.values["k"] - usual.values["k"]) < 0.2 * usual.uncertainty.std("k")
    assert two.uncertainty.std("k") == pytest.approx(usual.uncertainty.std("k"), rel=0.05)


@pytest.mark.parametrize("make", [di.single_shooting, di.multiple_shooting, di.kalman, di.boundary_value])
def test_one_step_methods_refuse_them_and_say_where_they_go(make):
    with pytest.raises(di.ProblemError, match=r'full discretization has at hand; use full_discretization\(integrator="bdf2"\)'):
        make(integrator="bdf2")
