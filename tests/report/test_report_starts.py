"""Waterfall and spy: what several starts and the structure of a program look like."""


import numpy as np
import pytest

import dynident as di
from dynident.estimate.estimate import StartResult
from dynident.report import html, spy_figure, waterfall_figure
from dynident.report.comparison import waterfall
from dynident.transcription.nlp_structure import nlp_structure


def ended(cost: float, converged: bool = True) -> StartResult:
    return StartResult({"p": 1.0}, {"p": 2.0}, cost, converged, "a sentence")


def decay_problem(noise: float | None = 0.01) -> di.Problem:
    time = np.linspace(0, 2, 21)
    run = di.Experiment(time, outputs={"x": np.exp(-time)}, noise={"x": di.Gaussian(noise)}, initial={"x": 1.0})
    return di.Problem(di.EquationModel(states={"x": "-a*x"}), [run], [di.Parameter("a", 0.5, 0.1, 5)])


def test_waterfall_is_in_order_and_counts_what_reached_the_best_and_what_was_lost():
    found = waterfall([ended(5.0), ended(1.0), ended(np.inf, False), ended(1.0005), ended(3.0, False)])
    assert list(found.cost) == [1.0, 1.0005, 3.0, 5.0]
    assert list(found.converged) == [True, True, False, True]
    assert found.sentence == "2 of 5 starts ended at the lowest cost; 1 could not be fitted at all."


def test_page_and_figure_show_the_starts_where_there_are_several(tmp_path):
    many = di.identify(decay_problem(), di.multistart(di.single_shooting(), starts=4))
    assert "starts ended at the lowest cost" in html(many, tmp_path / "many.html").read_text()
    assert sum(len(line.get_xdata()) for line in waterfall_figure(many).axes[0].lines) == 4
    one = di.identify(decay_problem(), di.single_shooting())
    assert "starts ended at the lowest cost" not in html(one, tmp_path / "one.html").read_text()
    with pytest.raises(di.DynidentError, match="one start"):
        waterfall_figure(one)


def test_spy_shows_every_nonzero():
    sizes = nlp_structure(di.multiple_shooting(4).transcribe(decay_problem(), 1, {}))
    left = spy_figure(sizes).axes[0]
    assert len(left.lines[0].get_xdata()) == sizes.jacobian.nnz


@pytest.mark.parametrize("noise", [0.01, None])
def test_saved_starts_come_back(tmp_path, noise):
    many = di.identify(decay_problem(noise), di.multistart(di.single_shooting(), starts=3))
    many.save(tmp_path / "results")
    assert di.load(tmp_path / "results").starts == many.starts


def test_ends_with_noise_of_their_own_are_drawn_by_likelihood():
    """Three ends of the same cost, of which one has 10 (in -2 log L) less."""
    def end(criterion: float) -> StartResult:
        return StartResult({"p": 1.0}, {"p": 2.0}, 50.0, True, "a sentence", criterion)

    found = waterfall([end(-90.0), end(-100.0), end(-90.0)])
    assert list(found.cost) == [50.0, 60.0, 60.0]
    assert found.sentence.startswith("1 of 3 starts")
    assert list(waterfall([end(-90.0)], best=end(-100.0)).cost) == [60.0]
