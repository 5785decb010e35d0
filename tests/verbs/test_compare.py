"""Comparisons: what is counted together, and what is said of methods without an answer."""

import sys

import numpy as np
import pytest

import dynident as di
from dynident.report.comparison import build_comparison
from dynident.verbs.compare import NOT_REACHED


def decay(noise: float | None = 0.05, seed: int = 0) -> di.Problem:
    time = np.linspace(0, 4, 41)
    y = np.exp(-time) + 0.05 * np.random.default_rng(seed).standard_normal(41)
    model = di.EquationModel(states={"y": "-a*y"}, outputs=["y"])
    run = di.Experiment(time, {}, {"y": y}, {"y": di.Gaussian(noise)})
    return di.Problem(model, [run], [di.Parameter("a", 2.0, 0.1, 10.0)])


def reached(found: di.Comparison) -> list[int]:
    return [e.counts["reached the best"] for e in found.values()]


def test_only_methods_that_minimise_the_same_sum_are_counted_together():
    """Every one finds its own and only optimum; a robust loss and other weights make other, smaller or larger, sums."""
    methods = [di.single_shooting(), di.least_squares(loss="soft_l1"), di.boundary_value(process_noise=0.1),
               di.boundary_value(process_noise=1e-2)]
    found = di.compare(decay(), methods, starts=3, progress=False)
    costs = [e.cost for e in found.values()]
    assert np.min(np.abs(np.diff(np.sort(costs)))) > 0.01  # four sums, far beyond what is called the same
    assert reached(found) == [3, 3, 3, 3]


@pytest.mark.parametrize(("one", "other", "same"), [
    (di.single_shooting(), di.full_discretization(), True),
    (di.single_shooting(), di.least_squares(), True),
    (di.multiple_shooting(5), di.multistart(di.multiple_shooting(10)), True),
    (di.single_shooting(), di.single_shooting(loss="huber"), False),
    (di.boundary_value(), di.boundary_value(solver="newton"), True),
    (di.boundary_value(process_noise=1.0), di.boundary_value(process_noise=0.5), False),
    (di.boundary_value(), di.boundary_value(measurement_noise=1.0), False),
    (di.boundary_value(), di.single_shooting(), False),
    (di.kalman(), di.kalman(), True),
    (di.kalman(), di.kalman(initial_std={"a": 1.0}), False),
    (di.kalman(), di.moving_horizon(), False),
])
def test_what_a_method_minimises(one, other, same):
    assert (one.objective_key() == other.objective_key()) is same


def test_starts_of_methods_that_got_stuck_do_not_count_as_the_best():
    """With noise of unknown size both methods report the same cost, whatever they found."""
    time = np.linspace(0, 20, 401)
    y = np.cos(3 * time) + 0.02 * np.random.default_rng(0).standard_normal(401)
    model = di.EquationModel(states={"y": "v", "v": "-w**2*y"}, outputs={"pos": "y"})
    problem = di.Problem(model, [di.Experiment(time, {}, {"pos": y})], [di.Parameter("w", 6.5, lower=2.0, upper=7.0)])
    found = di.compare(problem, [di.single_shooting(), di.multiple_shooting()], starts=4, progress=False)
    good = [abs(s.values["w"] - 3) < 0.01 for e in found.values() for s in e.starts]
    assert reached(found) == [sum(good[:4]), sum(good[4:])] and 0 < sum(good) < 8
    falls = build_comparison(found).falls  # what the page draws, on one scale
    lowest = min(fall.cost.min() for fall in falls.values())
    assert [int(np.sum(fall.cost < 1.01 * lowest)) for fall in falls.values()] == reached(found)


def test_one_method_needs_no_list():
    found = di.compare(decay(), "single_shooting", progress=False)
    assert list(found) == ["single_shooting"]
    assert list(di.compare(decay(), di.single_shooting(), progress=False)) == ["single_shooting"]
    with pytest.raises(di.ProblemError, match=r"methods = 3; give a list"):
        di.compare(decay(), 3, progress=False)


def test_methods_that_cannot_stand_on_the_page_and_in_print_with_the_reason(tmp_path):
    found = di.compare(decay(None), ["single_shooting", "set_membership"], progress=False)
    reason = found.failed["set_membership"]
    page = di.report.comparison_html(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Without an answer" in page and "set_membership" in page and reason.split(".")[0][:40] in page
    text = " ".join(str(found).split())
    assert f"set_membership: {reason}" in text and "Without an answer" in text


def test_methods_that_were_not_reached_are_named(tmp_path):
    def stop(_):
        raise KeyboardInterrupt

    found = di.compare(decay(), ["single_shooting", "multiple_shooting", "kalman"], progress=stop)
    assert found.interrupted and list(found) == ["single_shooting"]
    assert found.failed == dict.fromkeys(("multiple_shooting", "kalman"), NOT_REACHED)
    assert NOT_REACHED in di.report.comparison_html(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"kalman: {NOT_REACHED}" in " ".join(str(found).split())


def test_stop_before_a_method_has_anything_keeps_those_that_ended(monkeypatch):
    module = sys.modules["dynident.verbs.compare"]
    identify = module.identify

    def second_is_stopped(problem, method, *options):
        if method.options()["kind"] == "multiple_shooting":
            raise KeyboardInterrupt
        return identify(problem, method, *options)

    monkeypatch.setattr(module, "identify", second_is_stopped)
    found = di.compare(decay(), ["single_shooting", "multiple_shooting"], progress=False)
    assert found.interrupted and list(found) == ["single_shooting"] and "multiple_shooting" in found.failed


def test_what_is_no_comparison_is_refused_in_words(tmp_path):
    e = di.identify(decay(), di.single_shooting(), progress=False)
    for wrong, said in (([e], "a list"), (e, "a Estimate"), ({"a": 1.0}, "'a' is a float")):
        with pytest.raises(di.ProblemError, match=f"estimates by label.*{said}"):
            di.report.comparison_html(wrong, tmp_path / "page.html")
    nothing = di.compare(decay(None), ["set_membership"], progress=False)
    with pytest.raises(di.DynidentError, match=r"no method gave an estimate\. set_membership: "):
        di.report.comparison_html(nothing, tmp_path / "page.html")
    assert str(nothing).startswith("set_membership: ")


def test_a_method_without_a_cost_reaches_no_best_and_is_not_called_lost(tmp_path):
    time = np.linspace(0, 2, 11)
    run = di.Experiment(time, {}, {"y": np.exp(-time)}, {"y": di.Gaussian(0.01, bound=0.03)}, initial={"y": 1.0})
    problem = di.Problem(di.EquationModel(states={"y": "-a*y"}, outputs=["y"]), [run], [di.Parameter("a", 2.0, 0.1, 5.0)])
    found = di.compare(problem, ["single_shooting", "set_membership"], starts=2, progress=False)
    assert "without a cost" in found["set_membership"].status and "Best found" not in found["set_membership"].status
    line = next(line for line in str(found).splitlines() if line.startswith("reached the best"))
    assert line.split()[3:] == ["2", "of", "2", "-"]
    page = di.report.comparison_html(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "could not be fitted at all" not in page


def test_the_one_method_that_deviates_is_named_and_the_others_agree():
    from dataclasses import replace as changed

    from dynident.report.comparison import build_comparison

    time = np.linspace(0, 3, 61)
    record = di.Experiment(time, outputs={"x": np.exp(-time)}, noise={"x": di.Gaussian(0.01)}, initial={"x": 1.0})
    problem = di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [di.Parameter("k", 0.8)])
    good = di.identify(problem, "single_shooting", progress=False)
    off = changed(good, values={**good.values, "k": 2.0}, uncertainty=changed(good.uncertainty, values=np.array([2.0])))
    table = build_comparison({"one": good, "two": good, "three": off, "four": good})
    (agrees,) = [line for line in table.lines if line.name == "agrees"]
    assert agrees.cells == ("yes", "yes", "no: k", "yes")
    assert table.agreement.startswith("three does NOT agree with the others on k; the other 3 agree with each other.")


def test_the_one_that_deviates_is_named_where_intervals_are_withheld():
    """A disturbance that lasts: two methods give one wrong value without an interval, and a robust loss another."""
    time = np.linspace(0, 5, 51)
    x = np.exp(-time) + 0.01 * np.random.default_rng(0).standard_normal(51)
    x[30:33] += 0.6
    record = di.Experiment(time, outputs={"x": x}, noise={"x": di.Gaussian(0.01)}, initial={"x": 1.0})
    problem = di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [di.Parameter("k", 0.5)])
    found = di.compare(problem, [di.single_shooting(), di.multiple_shooting(segments=5), di.multiple_shooting(loss="huber")],
                       progress=False)
    assert all(found[label].verdict.withholds_intervals for label in list(found)[:2])
    said = " ".join(str(found).split())
    assert "does NOT agree with the others on k; the other 2 agree with each other." in said
    (row,) = [line for line in str(found).splitlines() if line.startswith("agrees")]
    assert row.split() == ["agrees", "yes", "yes", "no:", "k"]
    alike = str(di.compare(problem, [di.single_shooting(), di.multiple_shooting(segments=5)], progress=False))
    assert "They agree: where no interval is given, the values differ by less than 0.1 %" in " ".join(alike.split())
