"""Does a set that was cut short for want of boxes say so?"""

import numpy as np
import pytest

import dynident as di

TIME = np.linspace(0, 1, 6)


def asked(model, initial, values, **record):
    run = di.Experiment(TIME, initial=initial, **record)
    clean = di.simulate(model, values, run)
    outputs = dict(clean.outputs)
    noise = {name: di.Bounded(0.05) for name in outputs}
    return di.Problem(model, [di.Experiment(TIME, outputs=outputs, noise=noise, initial=initial, **record)],
                      [di.Parameter(n, v, lower=0.5 * v, upper=2 * v) for n, v in values.items()])


def rest_and_slide():
    model = di.EquationModel(
        states=["q", "v"], inputs=["u"], outputs={"position": "q"},
        modes={"rest": di.Mode(rate={"q": 0, "v": 0}, invariant="v == 0 and u <= Fs"),
               "slide": di.Mode(rate={"q": "v", "v": "(u - Fc)/M"}, invariant="v > 0 or v == 0 and u > Fs")},
        transitions=[di.Transition("rest", "slide", when="u > Fs"),
                     di.Transition("slide", "rest", when="v < 0", reset={"v": 0})])
    return asked(model, {"q": 0.0, "v": 0.0}, {"M": 2.0, "Fs": 2.0, "Fc": 1.0}, inputs={"u": 3 * TIME}, hold="linear")


def decay():
    model = di.EquationModel(states={"x": "-a*x + b", "z": "-c*z + a*x"})
    return asked(model, {"x": 1.0, "z": 0.0}, {"a": 1.0, "b": 0.5, "c": 2.0})


@pytest.mark.parametrize(("problem", "algorithm"), [(rest_and_slide, "batch"), (rest_and_slide, "recursive"),
                                                    (decay, "batch")])
def test_a_set_that_wanted_more_boxes_says_so(problem, algorithm):
    estimate = di.identify(problem(), di.set_membership(max_boxes=8, algorithm=algorithm))
    assert estimate.status.code == "enclosed_box_limit"
    assert estimate.status == "Converged as far as max_boxes = 8 boxes reach: stopped there, and more may exclude more."


def test_a_set_that_is_cut_to_its_tolerance_has_converged():
    model = di.EquationModel(states={"x": "-a*x"})
    estimate = di.identify(asked(model, {"x": 1.0}, {"a": 1.0}), di.set_membership(max_boxes=300))
    assert estimate.status.code == "enclosed"
    assert estimate.status == "Converged: everything was excluded that the batch algorithm could exclude."
