"""A budget of samples: which ones are measured, against exhaustive search and the literature, and what the plan then says."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from lags import lag

import dynident as di
from dynident.design.argument_checks import DesignOptions, parse_arguments
from dynident.design.design_problem import build_design_problem
from dynident.design.nlp import DesignNlp
from dynident.design.optimize import draw_start
from dynident.design.sampling import choose_samples

U = ["abs(u) <= 1"]


def planned(problem, budget, **options):
    return di.design_input(problem, di.signals.PiecewiseConstant(4), constraints=U, use_records=False, starts=1,
                           sample_budget=budget, progress=False, **options)


@pytest.mark.parametrize("criterion", ["D", "A", "std:a"])
@pytest.mark.parametrize("robust", ["", "average", "worst"])
def test_exchange_finds_what_exhaustive_search_finds(criterion, robust):
    options = DesignOptions(use_records=False, sample_budget=3, robust=robust, box={"a": (0.4, 1.6)} if robust else None,
                            samples=3)
    problem = build_design_problem(parse_arguments(lag(13), di.signals.PiecewiseConstant(4), criterion, U, (), options))
    nlp = DesignNlp(problem, problem.simulation, (), ())
    w = draw_start(problem, problem.simulation, problem.generator())
    taken = choose_samples(problem, nlp, w)

    def cost(mask):
        with_mask = replace(nlp, problem=replace(problem, taken=mask))
        at = with_mask.evaluate(np.append(w, 0.0) if problem.worst_case else w)
        return float(np.max(with_mask.scenario_costs(at))) if problem.worst_case else at.value

    every = []
    for chosen in combinations(range(13), 3):
        mask = np.zeros((1, 13), bool)
        mask[0, list(chosen)] = True
        every.append(cost(mask))
    assert taken.sum() == 3
    assert cost(taken) <= min(every) + 1e-3


def test_one_sample_of_a_decay_is_taken_at_its_time_constant():
    """Box and Lucas 1959: the slope t exp(-k t) is steepest at 1/k."""
    model = di.EquationModel(states={"x": "-k*x + 1e-9*u"}, inputs=["u"], outputs={"y": "x"})
    time = np.linspace(0, 6, 61)
    run = di.Experiment(time, {"u": 0 * time}, {"y": 0 * time}, {"y": di.Gaussian(0.1)}, {"x": 1.0})
    plan = planned(di.Problem(model, [run], [di.Parameter("k", 0.5)]), 1)
    assert plan.time[plan.record.measured] == pytest.approx([2.0])


def test_a_budget_of_all_samples_is_no_budget():
    assert planned(lag(), 41).record.measured is None
    assert planned(lag(), 41).cost == planned(lag(), None).cost


def test_chosen_samples_tell_more_than_even_ones_and_the_plan_predicts_what_a_fit_finds():
    plan = planned(lag(), 6)
    assert plan.record.measured.sum() == 6 and "6 are measured" in " ".join(plan.notes)
    rng = np.random.default_rng(1)
    y = plan.record.outputs["y"]
    run = plan.experiment({"y": y[plan.record.measured] + 1e-6 * rng.standard_normal(6)})
    assert np.isfinite(run.outputs["y"]).sum() == 6
    fitted = di.identify(di.Problem(lag().model, [run], lag().parameters), di.single_shooting(), progress=False)
    spread = {n: fitted.uncertainty.std(n) for n in ("a", "b")}
    for name, std in plan.std_after.items():
        assert spread[name] == pytest.approx(std, rel=0.03)
    even = np.zeros(41, bool)
    even[np.linspace(3, 40, 6).astype(int)] = True
    evenly = di.Problem(lag().model, [di.Experiment(run.time, run.inputs, {"y": np.where(even, y, np.nan)}, run.noise,
                                                    run.initial, hold=run.hold)], lag().parameters)
    at_even = di.identify(evenly, di.single_shooting(), progress=False).uncertainty
    volume = np.prod([at_even.std(n) for n in ("a", "b")]) / np.prod(list(spread.values()))
    assert volume > 1.1


def test_a_budget_holds_for_each_of_several_records(tmp_path):
    plan = planned(lag(21), 3, records=2)
    assert [int(own.measured.sum()) for own in plan.records] == [3, 3]
    head = plan.records[0].to_csv(tmp_path / "next.csv").read_text().splitlines()[0]
    assert "measure" in head


@pytest.mark.parametrize("budget", [0, -1, 2.5, True])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(di.ProblemError, match="sample_budget"):
        planned(lag(), budget)


def test_a_budget_needs_a_fixed_duration():
    with pytest.raises(di.NotSupported, match="fixed duration"):
        planned(lag(), 3, duration=(2.0, 4.0))
