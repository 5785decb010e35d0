"""Sizes: Table I of the direct-methods paper, and densities counted from assembled matrices."""

import itertools

import numpy as np
import pytest

import dynident as di
from dynident.integrators import integrator_named
from dynident.transcription.full_discretization import FullDiscretization
from dynident.transcription.nlp_structure import nlp_structure
from dynident.transcription.nonlinear_program import NonlinearProgram
from dynident.transcription.shooting import Shooting


def chain_problem(nx: int, np_: int, samples: int) -> di.Problem:
    """nx coupled states, np_ parameters that all act on every rate, all states measured."""
    names = [f"x{i}" for i in range(nx)]
    total = " + ".join([f"p{j}" for j in range(np_)])
    coupled = "*".join(names)
    model = di.EquationModel(states={n: f"-({total})*{n} + 0.1*{coupled}*sin({total})" for n in names})
    time = np.linspace(0, 1, samples)
    run = di.Experiment(time, outputs={n: np.exp(-time) for n in names}, noise={n: di.Gaussian(0.1) for n in names})
    return di.Problem(model, [run], [di.Parameter(f"p{j}", 0.3) for j in range(np_)])


CASES = list(itertools.product((1, 2, 4), (1, 3), (11, 31), (2, 5, 10)))


@pytest.mark.parametrize(("nx", "np_", "samples", "nodes"), CASES)
def test_table_1_holds(nx, np_, samples, nodes):
    """The paper's table counts n_x M and n_x N constraints; its continuity conditions (5) are one block fewer."""
    problem, rk = chain_problem(nx, np_, samples), integrator_named("runge_kutta")
    single, multiple = (nlp_structure(Shooting(problem, rk, [m], 1, {})) for m in (1, nodes))
    full = nlp_structure(FullDiscretization(problem, integrator_named("trapezoid"), 1, {}))
    assert (single.variables, single.constraints) == (nx + np_, 0)
    assert (multiple.variables, multiple.constraints) == (nx * nodes + np_, nx * (nodes - 1))
    assert (full.variables, full.constraints) == (nx * samples + np_, nx * (samples - 1))


@pytest.mark.parametrize("nodes", [2, 5, 10])
def test_densities_of_multiple_shooting_follow_its_block_structure(nodes):
    nx, np_ = 3, 2
    found = nlp_structure(Shooting(chain_problem(nx, np_, 31), integrator_named("runge_kutta"), [nodes], 1, {}))
    n, m = nx * nodes + np_, nx * (nodes - 1)
    assert found.density_gradient == 1.0
    assert found.density_jacobian == pytest.approx((nodes - 1) * (nx * (nx + np_) + nx) / (n * m))
    upper = nodes * (nx * (nx + 1) // 2 + nx * np_) + np_ * (np_ + 1) // 2
    assert found.density_hessian == pytest.approx(upper / (n * (n + 1) / 2))


@pytest.mark.parametrize("scheme", ["euler", "trapezoid", "radau"])
def test_densities_of_full_discretization_equal_those_of_the_assembled_matrices(scheme):
    """Entries that are not zero at a random point are the structure, no more and no less."""
    finite = FullDiscretization(chain_problem(2, 2, 12), integrator_named(scheme), 1, {})
    program, rng = NonlinearProgram(finite), np.random.default_rng(0)
    w = program.variables(finite.start()) + 0.1 * rng.standard_normal(program.size)
    found = nlp_structure(finite)
    _, gradient, _, jacobian = program.first(w)
    hessian = program.second(w, 1.0, rng.standard_normal(program.row_scale.size), True)
    assert np.count_nonzero(gradient) == found.density_gradient * found.variables
    assert np.count_nonzero(jacobian) == found.jacobian.nnz
    assert np.count_nonzero(hessian) == found.hessian.nnz


def test_more_nodes_are_sparser():
    problem, rk = chain_problem(4, 3, 101), integrator_named("runge_kutta")
    densities = [nlp_structure(Shooting(problem, rk, [m], 1, {})).density_hessian for m in (1, 2, 10, 50, 100)]
    assert all(a > b for a, b in itertools.pairwise(densities))
