"""Full discretization: the same optimum as shooting with the same scheme, and derivatives that are right."""

import numpy as np
import pytest

import dynident as di
from dynident.integrators import INTEGRATORS, PAPER_VARIANTS, integrator_named
from dynident.integrators.collocation_defects_interpreted import InterpretedCollocator
from dynident.integrators.grid import grid_of
from dynident.integrators.scheme import Adaptive
from dynident.linalg.finite_problem import Variables
from dynident.transcription.full_discretization import FullDiscretization
from dynident.transcription.nonlinear_program import NonlinearProgram
from problems import MACHINES

SCHEMES = [i.name for i in [*INTEGRATORS, *map(integrator_named, PAPER_VARIANTS)] if not isinstance(i, Adaptive)]


def finite_of(scheme: str, machine: str = "mass_spring_damper", steps: int = 1, **changes) -> FullDiscretization:
    problem = MACHINES[machine].problem(seed=3)
    return FullDiscretization(problem.replace(**changes) if changes else problem, integrator_named(scheme), steps, {})


def shaken(finite: FullDiscretization, size: float = 0.02) -> Variables:
    """A point near the start, off any special place."""
    rng, start = np.random.default_rng(0), finite.start()
    return Variables(start.unknowns * (1 + size * rng.standard_normal(start.unknowns.size)),
                 tuple(n + size * rng.standard_normal(n.shape) for n in start.nodes))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_reaches_the_optimum_of_shooting_with_the_same_scheme(scheme):
    problem = MACHINES["mass_spring_damper"].problem(seed=3)
    shot = di.identify(problem, di.single_shooting(integrator=scheme, substeps=2))
    full = di.identify(problem, di.full_discretization(scheme, substeps=2))
    for name in problem.names:
        assert full.values[name] == pytest.approx(shot.values[name], rel=1e-6, abs=1e-8)
        room = 1e-2 if scheme == "euler" else 1e-3  # intervals hold the error of the steps, which each halves its own way
        assert full.uncertainty.std(name) == pytest.approx(shot.uncertainty.std(name), rel=room)
    assert full.cost == pytest.approx(shot.cost, rel=1e-9)


@pytest.mark.parametrize("machine", list(MACHINES))
def test_agrees_with_shooting_on_every_machine(machine):
    problem = MACHINES[machine].problem(seed=5)
    shot, full = (di.identify(problem, m) for m in (
        di.multiple_shooting(integrator="hermite_simpson", substeps=1),
        di.full_discretization("hermite_simpson", substeps=1)))
    for name in problem.names:
        assert full.values[name] == pytest.approx(shot.values[name], rel=1e-6, abs=1e-3 * shot.uncertainty.std(name))


@pytest.mark.parametrize("scheme", ["trapezoid", "hermite_simpson", "gauss_legendre", "radau", "runge_kutta"])
def test_the_estimate_shows_the_order_of_the_scheme(scheme):
    """Without noise, the error of the estimate falls with the order of the scheme."""
    machine = MACHINES["pendulum"]
    problem = machine.problem(seed=None)
    errors = []
    for steps in (1, 2):
        e = di.identify(problem, di.full_discretization(scheme, substeps=steps))
        errors.append(abs(e.values["p"] - machine.truth["p"]))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(integrator_named(scheme).order, abs=0.3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_compiled_and_interpreted_intervals_agree(scheme):
    machine = MACHINES["two_mass"]
    grid, _ = grid_of(machine.model, machine.record(1), 3).with_substep_nodes()
    finite = finite_of(scheme, "two_mass", 3)
    point = shaken(finite)
    states, stages = finite.states(point, 0), point.nodes[0][:, 4:]
    p, _ = finite.problem.parameters_and_initial_state(finite.coordinates.values(point.unknowns), 0)
    a = finite.collocator.run(grid, states, stages, p, True)
    b = InterpretedCollocator(machine.model, finite.integrator, finite.free).run(grid, states, stages, p, True)
    for name in ("outputs", "jacobian", "defect", "link", "correction", "stage"):
        left, right = np.nan_to_num(getattr(a, name)), np.nan_to_num(getattr(b, name))
        size = np.max(np.abs(right), initial=1.0)
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-11 * size, err_msg=name)


@pytest.mark.parametrize("scheme", ["euler", "runge_kutta", "trapezoid", "gauss_legendre", "radau"])
def test_program_derivatives_agree_with_differences(scheme):
    parameters = MACHINES["mass_spring_damper"].parameters(m={"log": True, "lower": 0.1, "upper": 10},
                                                           k={"prior": di.Prior(3.0, 1.0)})
    finite = finite_of(scheme, parameters=parameters, constraints=["m*k <= 9"])
    program, rng = NonlinearProgram(finite), np.random.default_rng(1)
    w = program.variables(shaken(finite))
    along, multipliers, h = rng.standard_normal(w.size), rng.standard_normal(program.row_scale.size), 1e-6

    def lagrangian_slope(w):
        _, gradient, _, nonzeros = program.first(w)
        found = program.jacobian_pattern
        total = 0.7 * gradient
        np.add.at(total, found.columns, nonzeros * multipliers[found.rows])
        return total

    (f1, c1), (f0, c0) = program.values(w + h * along), program.values(w - h * along)
    _, gradient, _, nonzeros = program.first(w)
    assert (f1 - f0) / (2 * h) == pytest.approx(gradient @ along, rel=1e-6)
    forward = np.zeros(program.row_scale.size)
    np.add.at(forward, program.jacobian_pattern.rows, nonzeros * along[program.jacobian_pattern.columns])
    np.testing.assert_allclose((c1 - c0) / (2 * h), forward, atol=1e-6 * np.max(np.abs(forward)))
    upper, found = program.second(w, 0.7, multipliers, True), program.hessian_pattern
    curved = np.zeros(w.size)
    np.add.at(curved, found.rows, upper * along[found.columns])
    off = found.rows != found.columns
    np.add.at(curved, found.columns[off], (upper * along[found.rows])[off])
    differences = (lagrangian_slope(w + h * along) - lagrangian_slope(w - h * along)) / (2 * h)
    np.testing.assert_allclose(curved, differences, atol=1e-6 * np.max(np.abs(differences)))


def test_points_survive_the_way_to_variables_and_back():
    for scheme in ("euler", "trapezoid", "gauss_legendre", "radau"):
        finite = finite_of(scheme)
        program, point = NonlinearProgram(finite), finite.start()
        back = program.point(program.variables(point))
        np.testing.assert_allclose(back.unknowns, point.unknowns, rtol=1e-14)
        nx = 2
        np.testing.assert_allclose(back.nodes[0][:, :nx], point.nodes[0][:, :nx], rtol=1e-13, atol=1e-15)


def test_irregular_and_missing_samples_and_a_start_before_the_first():
    truth, rng = 0.7, np.random.default_rng(2)
    time = np.cumsum(rng.uniform(0.02, 0.3, 40))
    y = 2.0 * np.exp(-truth * time)
    y[::3] = np.nan
    model = di.EquationModel(states={"x": "-a*x"})
    run = di.Experiment(time, outputs={"x": y}, start=0.0, noise={"x": di.Gaussian(1e-3)})
    problem = di.Problem(model, [run], [di.Parameter("a", 0.1)])
    e = di.identify(problem, di.full_discretization("radau"))
    assert e.values["a"] == pytest.approx(truth, rel=1e-8)
    assert e.values["x(0)"] == pytest.approx(2.0, rel=1e-8)


def test_states_that_are_not_measured_start_from_a_simulation():
    """Only the output of the second compartment is seen; the first starts from the model."""
    model = di.EquationModel(states={"a": "-k*a", "b": "k*a - m*b"}, outputs={"seen": "b"})
    time = np.linspace(0, 5, 60)
    exact = 1.5 * (np.exp(-0.5 * time) - np.exp(-1.5 * time))  # k = 1.5, m = 0.5, a(0) = 1
    run = di.Experiment(time, outputs={"seen": exact}, initial={"a": 1.0, "b": 0.0}, noise={"seen": di.Gaussian(1e-3)})
    problem = di.Problem(model, [run], [di.Parameter("k", 1.0), di.Parameter("m", 1.0)])
    e = di.identify(problem, di.full_discretization("hermite_simpson"))
    assert sorted([e.values["k"], e.values["m"]]) == pytest.approx([0.5, 1.5], rel=1e-5)  # the two may change places


def test_interpreted_full_discretization_gives_the_same_estimate(monkeypatch):
    problem = MACHINES["mass_spring_damper"].problem(seed=3)
    compiled = di.identify(problem, di.full_discretization("radau", substeps=1))
    monkeypatch.setenv("DYNIDENT_CC", "none")
    interpreted = di.identify(problem, di.full_discretization("radau", substeps=1))
    program = di.identify(problem, di.full_discretization("radau", substeps=1, solver="ipopt"))
    for name in problem.names:
        assert interpreted.values[name] == pytest.approx(compiled.values[name], rel=1e-9)
        assert program.values[name] == pytest.approx(compiled.values[name], rel=1e-6)
