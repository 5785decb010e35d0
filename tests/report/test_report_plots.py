"""Claims: figures show every record and output, and hide neither peaks nor failures."""

from dataclasses import replace

import matplotlib
import pytest
import sample

from dynident.errors import DynidentError
from dynident.report import convergence_figure, estimate_figure

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.mark.parametrize("experiments", [1, 2, 4])
def test_every_record_and_output_has_its_signal_and_residual(experiments):
    figure = estimate_figure(sample.estimate(experiments=experiments))
    assert sum(axes.get_visible() for axes in figure.axes) == 4 * experiments


def test_a_spike_in_a_long_record_is_drawn():
    made = sample.estimate(samples=200_000)
    residual = made.residuals[0]["position"].copy()
    residual[123_457] = 12.5
    figure = estimate_figure(replace(made, residuals=({**made.residuals[0], "position": residual},)))
    drawn = figure.axes[1].lines[0].get_ydata()
    assert drawn.max() == 12.5
    assert drawn.size < 10_000


def test_failure_is_written_above_the_figure():
    assert estimate_figure(sample.not_converged()).get_suptitle() == "NOT CONVERGED"
    assert convergence_figure(sample.not_converged()).get_suptitle() == "NOT CONVERGED"
    assert estimate_figure(sample.estimate()).get_suptitle() == ""


def test_a_name_with_dollars_is_no_formula(tmp_path):
    figure = estimate_figure(sample.estimate(output="$\\frac$"))
    figure.savefig(tmp_path / "figure.png")  # a formula that cannot be read would raise here
    assert any("frac" in axes.get_title(loc="left") for axes in figure.axes)


def test_estimate_plots_itself():
    assert sample.estimate().plot().axes


def test_without_history_there_is_no_convergence_to_draw():
    with pytest.raises(DynidentError, match="no history"):
        convergence_figure(sample.estimate(history=()))
