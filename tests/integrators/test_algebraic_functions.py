"""Algebraic variables along a record: do all schemes, compiled or not, give what elimination by hand gives?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.codegen import compiler
from dynident.errors import SimulationDiverged
from dynident.integrators import INTEGRATORS, integrator_named
from dynident.integrators.collocation_defects import CompiledCollocator, collocator_for, stage_unknowns
from dynident.integrators.collocation_defects_interpreted import InterpretedCollocator
from dynident.integrators.grid import Grid, grid_of
from dynident.integrators.propagation import CompiledPropagator, Propagation, propagator_for
from dynident.integrators.propagation_interpreted import InterpretedPropagator
from dynident.integrators.radau5_interpreted import InterpretedRadau5
from dynident.integrators.scheme import Adaptive, Integrator

needs_compiler = pytest.mark.skipif(compiler.compiler() is None, reason="this machine has no C compiler")
PARTS = {"inputs": ["u"], "parameters": ["m", "c", "k"]}
FORCE = "(u - c*v - k*q)/m"
BY_HAND = di.EquationModel(states={"q": "v", "v": FORCE}, outputs={"y": "q", "a": FORCE}, **PARTS)
SEEN = {"y": "q", "a": "a"}
SAME = {  # as BY_HAND, with accelerations and forces as algebraic variables
    "affine": di.EquationModel(states={"q": "v", "v": "a"}, algebraic={"a": "m*a + c*v + k*q - u"}, outputs=SEEN, **PARTS),
    "not symmetric": di.EquationModel(states={"q": "v", "v": "a"}, outputs=SEEN, **PARTS, algebraic={
        "a": "m*a - f", "f": "f - u + c*v + k*q", "s": "s - 2*a - f"}),
    "indefinite": di.EquationModel(  # two halves of the mass, held together by a force: zeros on the diagonal, first
        states={"q": "v", "v": "a"}, outputs=SEEN, **PARTS,
        algebraic={"f": "a - b", "a": "0.5*m*a + f + c*v + k*q - u", "b": "0.5*m*b - f"}),
    "nonlinear": di.EquationModel(states={"q": "v", "v": "a"}, algebraic={"a": "sinh(m*a/3) - sinh((u - c*v - k*q)/3)"},
                                  outputs=SEEN, **PARTS),
    "chained": di.EquationModel(states={"q": "v", "v": "log(w)/m"}, outputs={"y": "q", "a": "log(w)/m"}, **PARTS,
                                algebraic={"f": "f + f**3 - (u - c*v - k*q) - (u - c*v - k*q)**3", "w": "w - exp(f)"},
                                guesses={"w": "exp(u - c*v - k*q)"}),
}
T = np.linspace(0, 4, 41)
RUN = di.Experiment(T, inputs={"u": np.sin(2 * T)}, outputs={"y": np.zeros(41)}, hold="linear")
FIRST, NODES, VALUES = np.array([0, 17, 40]), np.array([[0.1, 0.2], [0.3, -0.1]]), np.array([1.3, 0.4, 2.0])
FREE = (0, 2)


def propagation(model: di.EquationModel, integrator: Integrator, how=propagator_for) -> Propagation:
    return how(model, integrator, FREE).run(grid_of(model, RUN, 2), FIRST, NODES, VALUES, True)


def interpreted(model: di.EquationModel, integrator: Integrator, free: tuple[int, ...]):
    return (InterpretedRadau5 if isinstance(integrator, Adaptive) else InterpretedPropagator)(model, integrator, free)


def difference(one: Propagation, other: Propagation) -> float:
    return max(float(np.nanmax(np.abs(getattr(one, name) - getattr(other, name))))
               for name in ("states", "outputs", "jacobian", "end_states", "end_jacobian"))


MOST_USED = ("runge_kutta", "radau", "radau5")


@needs_compiler
@pytest.mark.parametrize("integrator, form", [(i, form) for i in INTEGRATORS for form in SAME
                                              if i.name in MOST_USED
                                              or form == ("affine" if i.name == "cvodes" else "chained")],
                         ids=lambda it: getattr(it, "name", it))
def test_every_scheme_gives_what_it_gives_where_the_variables_are_eliminated_by_hand(integrator, form):
    tolerance = 1e-8 if isinstance(integrator, Adaptive) else 1e-12
    assert difference(propagation(SAME[form], integrator), propagation(BY_HAND, integrator)) < tolerance


@needs_compiler
@pytest.mark.parametrize("form", ["indefinite", "chained"])
@pytest.mark.parametrize("name", MOST_USED)
def test_the_interpreted_twin_agrees(name, form):
    integrator = integrator_named(name)
    assert isinstance(propagator_for(SAME[form], integrator, FREE), CompiledPropagator)
    tolerance = 1e-8 if isinstance(integrator, Adaptive) else 1e-12
    assert difference(propagation(SAME[form], integrator), propagation(SAME[form], integrator, interpreted)) < tolerance


@needs_compiler
@pytest.mark.parametrize("form", ["not symmetric", "chained"])
@pytest.mark.parametrize("name", ["runge_kutta", "hermite_simpson", "radau"])
def test_collocation_agrees_with_its_twin_and_with_elimination_by_hand(name, form):
    integrator, rng = integrator_named(name), np.random.default_rng(1)
    states = rng.normal(size=(41, 2))
    stages = rng.normal(size=(40, stage_unknowns(BY_HAND, integrator)))
    found = []
    for model, make in ((BY_HAND, collocator_for), (SAME[form], collocator_for), (SAME[form], InterpretedCollocator)):
        out = make(model, integrator, FREE).run(grid_of(model, RUN, 1), states, stages, VALUES, True)
        found.append([out.outputs, out.jacobian, out.defect, out.link[:-1], out.correction, out.stage])
    assert isinstance(collocator_for(SAME[form], integrator, FREE), CompiledCollocator)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


DIODE = di.EquationModel(states={"q": "u - i"}, algebraic={"i": "R*i + n*log(1 + i/s) - q/C"}, outputs=["q", "i"],
                         inputs=["u"], parameters=["R", "n", "s", "C"])


def diode_run(p: np.ndarray, sensitivities: bool = False) -> Propagation:
    run = di.Experiment(T, inputs={"u": 1.5 + np.sin(2 * T)}, outputs={"q": np.zeros(41)}, hold="linear")
    return propagator_for(DIODE, integrator_named("radau5"), (0, 1, 2, 3)).run(
        grid_of(DIODE, run), np.array([0, 40]), np.array([[1.0]]), p, sensitivities)


@needs_compiler
def test_sensitivities_of_an_algebraic_variable_agree_with_differences():
    p = np.array([1.0, 0.3, 1e-3, 0.5])
    exact = diode_run(p, True).jacobian[:, 1, 1:]
    for j in range(4):
        h = 1e-4 * p[j] * np.eye(4)[j]
        four = [diode_run(p + s * h).outputs[:, 1] for s in (1, -1, 2, -2)]
        slope = (8 * (four[0] - four[1]) - (four[2] - four[3])) / (12 * h[j])
        assert np.max(np.abs(slope - exact[:, j])) < 1e-6 * np.max(np.abs(exact[:, j]))


def test_the_solution_that_was_followed_is_kept_where_there_are_two():
    model = di.EquationModel(states={"x": "1"}, algebraic={"z": "z**2 - 1 - x**2"}, outputs=["z"], guesses={"z": "-1"})
    grid = grid_of(model, di.Experiment(T, outputs={"z": np.zeros(41)}))
    for how in (propagator_for, interpreted):
        march = how(model, integrator_named("runge_kutta"), ())
        out = march.run(grid, np.array([0, 40]), np.array([[-2.0]]), np.zeros(0), False)
        np.testing.assert_allclose(out.outputs[:, 0], -np.sqrt(1 + (T - 2) ** 2), rtol=1e-12)


@pytest.mark.parametrize("name", ["runge_kutta", "radau", "radau5"])
@needs_compiler
def test_where_the_equations_have_no_solution_the_variable_is_named(name):
    model = di.EquationModel(states={"x": "-1 + 0.01*z"}, algebraic={"z": "z**2 + z**4 - x"}, guesses={"z": 1})
    grid: Grid = grid_of(model, di.Experiment(T, outputs={"x": np.zeros(41)}))
    with pytest.raises(SimulationDiverged, match=r"'z' within reach.* at t = 1"):
        propagator_for(model, integrator_named(name), ()).run(grid, np.array([0, 40]), np.array([[1.0]]), np.zeros(0), False)
