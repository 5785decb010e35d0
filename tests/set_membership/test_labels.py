"""Do the numbers of a set stand under their own names, however states and unknowns are ordered?"""

from importlib.util import find_spec
from itertools import permutations

import numpy as np
import pytest
from rigs import PRIOR, random_rig

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.papers.drive_train import drive_train
from dynident.report.sections import enclosure

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")

RATES = {"x": "-k*x", "z": "k*x - 0.3*z"}


def chain(states, unknowns):
    """Two tanks in any order of states, unknown k and x(0) in any order."""
    time = np.linspace(0, 3, 13)
    x = 2 * np.exp(-0.5 * time)
    z = 2 * 0.5 / (0.3 - 0.5) * (np.exp(-0.5 * time) - np.exp(-0.3 * time))
    noise = {"x": di.Bounded(0.05), "z": di.Bounded(0.05)}
    run = di.Experiment(time, outputs={"x": x, "z": z}, noise=noise, initial={"z": 0.0})
    listed = {"k": di.Parameter("k", 0.5, 0.2, 0.9), "x(0)": di.InitialState("x", 2.0, lower=1.5, upper=2.5)}
    return di.Problem(di.EquationModel(states={name: RATES[name] for name in states}, outputs={"x": "x", "z": "z"}), [run],
                      [listed[name] for name in unknowns])


ORDERS = [(states, unknowns) for states in permutations(RATES) for unknowns in permutations(("k", "x(0)"))]
METHODS = {"batch": {}, "outliers": {"max_outliers": 1}, "recursive": {"algorithm": "recursive", "max_boxes": 30},
           "polynomials": {"taylor_degree": 2, "order": 2, "tolerance": 0.4, "max_boxes": 4},
           "paper": {"algorithm": "paper", "strategy": "widest", "max_boxes": 30}}


@pytest.mark.compiled
@pytest.mark.parametrize("method", sorted(set(METHODS) - {"polynomials"}))  # its boxes are compared below, at less cost
def test_every_permutation_of_states_and_unknowns_gives_the_same_bounds_by_name(method):
    options = {"tolerance": 0.05, **METHODS[method]}
    found = [di.identify(chain(*order), di.set_membership(**options), progress=False).uncertainty for order in ORDERS]
    for name, truth in (("k", 0.5), ("x(0)", 2.0)):
        bounds = np.array([each.interval(name) for each in found])
        assert np.all((bounds[:, 0] <= truth) & (truth <= bounds[:, 1]))
        # which of two equally wide sides is cut first depends on the order
        assert bounds == pytest.approx(np.tile(bounds[0], (len(bounds), 1)), abs=0.1 * np.diff(bounds[0])[0])


@pytest.mark.compiled
@pytest.mark.parametrize(("states", "unknowns"), ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_boxes_stand_in_the_order_of_the_names(method, states, unknowns, tmp_path):
    estimate = di.identify(chain(states, unknowns), di.set_membership(**{"tolerance": 0.05, **METHODS[method]}), progress=False)
    estimate.save(tmp_path / "result")
    for found in (estimate.uncertainty, di.load(tmp_path / "result").uncertainty):
        kept = [boxes for boxes in (found.outer, found.inner, found.last) if boxes.shape[2]]
        assert kept
        for boxes in kept:
            for j, name in enumerate(found.names):
                low, high = found.interval(name)
                assert low <= boxes[0, j].min() and boxes[1, j].max() <= high
        hull = np.concatenate(kept, axis=2)
        assert hull[0].min(axis=1) == pytest.approx(found.low) and hull[1].max(axis=1) == pytest.approx(found.high)


@pytest.mark.compiled
@pytest.mark.parametrize("unknowns", list(permutations(PRIOR)))
def test_a_hybrid_record_gives_the_same_boxes_under_every_order_of_unknowns(unknowns):
    rig = random_rig(3, duration=1.2)
    parameters = [di.Parameter(name, np.mean(PRIOR[name]), *PRIOR[name]) for name in unknowns]
    estimate = di.identify(di.Problem(drive_train(), [rig.experiment], parameters),
                           di.set_membership(algorithm="recursive", max_boxes=24, reset={"T_Fs": "speed"}), progress=False)
    found = estimate.uncertainty
    for name in unknowns:
        j = found.names.index(name)
        assert PRIOR[name][0] <= found.last[0, j].min() and found.last[1, j].max() <= PRIOR[name][1]
        assert found.bands[0].low[name][0] >= PRIOR[name][0] and found.bands[0].high[name][0] <= PRIOR[name][1]
    assert found.interval("alpha")[0] <= rig.truth.alpha <= found.interval("alpha")[1]


@pytest.mark.compiled
def test_the_report_draws_a_paving_under_its_own_names(monkeypatch):
    estimate = di.identify(chain(("x", "z"), ("k", "x(0)")), di.set_membership(tolerance=0.1), progress=False)
    assert estimate.uncertainty.names == ("k", "x(0)")
    charts = []
    monkeypatch.setattr(enclosure, "drawn", lambda chart: charts.append(chart) or "")
    enclosure.enclosure_section(estimate)
    (chart,) = charts
    assert chart.across == "k"
    for curve in chart.panels[0].curves:
        assert np.all((curve.x >= 0.2) & (curve.x_end <= 0.9))  # k, not x(0)
        assert np.all((curve.y >= 1.5) & (curve.y_end <= 2.5))
