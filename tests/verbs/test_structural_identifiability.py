"""Structure: what the model hides, and what only the record hides; classic examples."""

import numpy as np
import pytest

import dynident as di
from dynident.models import library


def test_two_compartments_with_one_measured_are_identifiable_only_if_the_outflow_is_one():
    """Bellman and Astrom 1970: with outflow from both compartments three of four rates can be found."""
    leaky = di.EquationModel(states={"x1": "-(k01 + k21)*x1 + k12*x2 + u", "x2": "k21*x1 - (k02 + k12)*x2"}, inputs=["u"],
                             outputs={"y": "x1"})
    values = {"k01": 0.5, "k21": 1.0, "k12": 0.7, "k02": 0.3}
    at_rest = {"x1": 0.0, "x2": 0.0}
    assert di.structural_identifiability(leaky, values, duration=8.0, initial=at_rest).rank == 3
    tight = di.EquationModel(states={"x1": "-(k01 + k21)*x1 + k12*x2 + u", "x2": "k21*x1 - k12*x2"}, inputs=["u"],
                             outputs={"y": "x1"})
    assert di.structural_identifiability(tight, values, duration=8.0, initial=at_rest).identifiable


def test_servo_axis_shows_all_with_a_known_gain_and_hides_one_with_an_unknown_gain():
    axis = library.servo_axis(v_smooth=0.05)
    known = di.structural_identifiability(axis, library.TYPICAL["servo_axis"], duration=2.0, inputs=3.0)
    assert known.identifiable  # not rational: tanh friction
    free = di.EquationModel(states={"q": "v", "v": "(gain*u - Fv*v - Fc*tanh(v/0.05) - offset)/M"}, inputs=["u"],
                            outputs={"position": "q"})
    unknown = di.structural_identifiability(free, {**library.TYPICAL["servo_axis"], "gain": 35.0}, duration=2.0, inputs=3.0)
    assert unknown.rank == len(unknown.names) - 1
    assert set(unknown.unidentifiable) == {"gain", "M", "Fv", "Fc", "offset"}


def test_base_parameters_of_a_rigid_body_are_written_out():
    """A turning body with a point mass at 0.5 m: only I + 0.25 m acts."""
    body = di.EquationModel(states={"q": "w", "w": "(u - d*w)/(I + 0.25*m)"}, inputs=["u"], outputs={"q": "q"})
    found = di.structural_identifiability(body, {"I": 0.3, "m": 2.0, "d": 0.1}, duration=4.0)
    assert found.unidentifiable == ("I", "m")
    assert "I + 0.25 m" in found.base or "m + 4 I" in found.base


def test_robot_shows_eighteen_of_its_unknowns():
    """19 parameters and 4 initial states of the two-link robot: 18 of 23 can be told apart (15 of 19 parameters)."""
    found = di.structural_identifiability(library.two_link_robot(), library.TYPICAL["two_link_robot"], duration=1.0, inputs=5.0)
    assert {"sx1", "sy1", "m1", "Iz1"} <= set(found.unidentifiable)
    assert found.rank == 18


def _problem(u: np.ndarray) -> di.Problem:
    time = np.linspace(0, 5, 60)
    model = di.EquationModel(states={"x": "-a*b*x + c*u"}, inputs=["u"], outputs={"y": "x"})
    run = di.Experiment(time, {"u": u * np.ones(60)}, {"y": np.exp(-time)}, {"y": di.Gaussian(0.01)}, {"x": 1.0})
    return di.Problem(model, [run], [di.Parameter("a", 0.5), di.Parameter("b", 2.0), di.Parameter("c", 1.0)])


def test_check_tells_what_the_model_hides_from_what_the_record_hides():
    said = str(di.check(_problem(np.zeros(60))))
    assert "only a*b is determined" in said and "no input can" in said
    assert "nothing measured depends on c" in said and "di.design_input" in said


def test_structure_without_a_value_says_which():
    with pytest.raises(di.ProblemError, match="value for b, c"):
        di.structural_identifiability(_problem(np.zeros(60)).model, {"a": 1.0}, duration=1.0)
