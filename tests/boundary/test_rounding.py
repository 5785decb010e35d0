"""Verdicts of solve_bvp under other rounding: every kernel is blurred by a few units in the last place."""

import dataclasses

import numpy as np
import pytest

import dynident as di
from boundary_problems import PUBLISHED, bratu, kink, line, steady_burgers, troesch
from dynident.boundary.solve_bvp import run
from dynident.boundary.solve_bvp.block_elimination import BlockElimination
from dynident.boundary.solve_bvp.systems import CollocationSystem, PropagatedSegments
from dynident.maths import exp, sin

BLUR = 1e-15  # relative, of every number that a kernel returns: more than two processors differ by
PERIOD = 6.66328685933  # of van der Pol's oscillator
DETUNED = (2 * np.pi * (1 + 1e-10))**2


def wave(begin_end, forced=0.0, close=0.0):
    return lambda t, y: [y[1], -(1 + close) * y[0] + forced * sin(2 * t)], begin_end


def both_zero(a, b):
    return [a[0], b[0]]


def periodic(a, b):
    return [a[0] - b[0], a[1] - b[1]]


def tanh(eps):
    return lambda t: [-np.tanh(t / (2 * eps)), -1 / (2 * eps) / np.cosh(t / (2 * eps))**2]


def of(problem, **options):
    return (problem.rate, problem.boundary, problem.interval, problem.guess), {"parameters": problem.parameters, **options}


CASES = {
    **{f"one of many by {i}": ((*wave(both_zero), [0, np.pi], [0, 1]), {"integrator": i})
       for i in ("gauss_legendre", "trapezoid", "runge_kutta", "radau", "hermite_simpson")},
    **{f"forced, one of many by {i}": ((*wave(both_zero, 1.0), [0, np.pi], [0, 1]), {"integrator": i})
       for i in ("gauss_legendre", "runge_kutta", "radau")},
    "one of a plane of many": ((*wave(periodic, 1.0), [0, 2 * np.pi], [0, 1]), {}),
    "one that is not there": ((wave(None)[0], lambda a, b: [a[0], b[0] - 1], [0, np.pi], [0, 1]), {}),
    "one of many levels": ((lambda t, y: [y[1], 1.0], lambda a, b: [a[1], b[1] - 1], [0, 1], [0, 0]), {}),
    **{f"{close:g} beside an eigenvalue": ((*wave(both_zero, close=close), [0, np.pi], [0, 1]), {})
       for close in (1e-2, 1e-5, 1e-8)},
    "detuned": ((lambda t, y: [y[1], 1e-3 - DETUNED * y[0]], periodic, [0, 1], [0, 0]), {"tolerance": 1e-3}),
    "orbit without a phase": ((lambda t, y: [PERIOD * y[1], PERIOD * ((1 - y[0]**2) * y[1] - y[0])], periodic, [0, 1],
                               lambda t: [2 * np.cos(2 * np.pi * t), -2 * np.sin(2 * np.pi * t)]), {"tolerance": 1e-3}),
    "no solution": ((lambda t, y: [y[1], -4 * exp(y[0])], both_zero, [0, 1], [0, 0]), {}),
    "rounding": of(steady_burgers(0.06, tanh(0.06)), tolerance=1e-9),
    "shock": of(steady_burgers(0.05, line(1, -1, (-1, 1)))),
    **{f"kink {a}": of(kink(a)) for a in (4, 6)},
    "Troesch 10": of(troesch(10)),
    "two solutions": of(bratu(True), tolerance=1e-9),
}


def blur(monkeypatch, seed):
    """Other rounding in all that is followed, collocated and eliminated."""
    random = np.random.default_rng(seed)

    def blurred(a):
        return None if a is None else a * (1 + BLUR * random.standard_normal(np.shape(a)))

    def wrap(owner, name, change):
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda self, *arguments: change(plain(self, *arguments)))

    monkeypatch.setattr(run, "compiled_newton", lambda *_: None)  # its twin takes the same steps, and can be blurred
    wrap(PropagatedSegments, "run", lambda out: type(out)(blurred(out.states), blurred(out.links), blurred(out.path)))
    wrap(CollocationSystem, "run", lambda out: dataclasses.replace(
        out, defect=blurred(out.defect), link=blurred(out.link), correction=blurred(out.correction), stage=blurred(out.stage)))
    wrap(BlockElimination, "solve", lambda out: tuple(map(blurred, out)))


def verdict(case):
    arguments, options = case
    found = di.solve_bvp(*arguments, **options)
    return found.converged, found.code, "one of many" in " ".join(found.warnings), "rounding keeps" in found.status


@pytest.mark.parametrize("name", CASES)
def test_other_rounding_does_not_change_a_verdict(name, monkeypatch):
    plain = verdict(CASES[name])
    for seed in range(3):
        with monkeypatch.context() as patched:
            blur(patched, seed)
            assert verdict(CASES[name]) == plain


def test_other_rounding_leaves_published_problems_solved_on_as_many_meshes(monkeypatch):
    def meshes(problem):
        arguments, options = of(problem)
        found = di.solve_bvp(*arguments, **options)
        return found.converged, [(each.solver, each.converged) for each in found.rounds]

    plain = [meshes(problem) for problem in PUBLISHED]
    blur(monkeypatch, 0)
    assert [meshes(problem) for problem in PUBLISHED] == plain


@pytest.mark.parametrize(("name", "expected"), [
    ("one of many by gauss_legendre", (True, 0, True, False)), ("forced, one of many by runge_kutta", (True, 0, True, False)),
    ("one that is not there", (False, 260, False, False)), ("one of many levels", (False, 260, False, False)),
    ("1e-08 beside an eigenvalue", (True, 0, False, False)), ("orbit without a phase", (False, 260, False, False)),
    ("rounding", (False, 231, False, True)), ("no solution", (False, 230, False, False))])
def test_singular_problems_are_told_from_rounding(name, expected):
    assert verdict(CASES[name]) == expected
