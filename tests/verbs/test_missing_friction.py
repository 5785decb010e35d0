"""Claims: a servo axis without its dry friction looks like one with it neither in the fit nor on a record of its own."""

import numpy as np

import dynident as di
from dynident.statistics.verdict import Cause, Grade

TRUTH = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "offset": -3.0}
UNMODELLED = {"ripple": 1.0}  # N: neither model has it, so that both leave something systematic
RATE = "(35.15*u - Fv*v - {friction} - offset{ripple})/M"
DRY = "Fc*tanh(v/0.002)"


def axis(friction: str, ripple: str = "") -> di.EquationModel:
    return di.EquationModel(states={"q": "v", "v": RATE.format(friction=friction, ripple=ripple)}, inputs=["u"],
                            outputs={"position": "q"})


def record(seed: int) -> di.Experiment:
    """Eight seconds in a position loop, as a servo drive is measured."""
    rng, time = np.random.default_rng(seed), np.arange(0, 8, 0.02)
    wanted = np.sum([0.05 * np.sin(w * time + p) for w, p in zip((0.9, 2.1, 4.3), rng.uniform(0, 6, 3), strict=True)], axis=0)
    rate, twice = np.gradient(wanted, time), np.gradient(np.gradient(wanted, time), time)
    u = (95 * twice + 200 * rate + 20 * np.tanh(rate / 0.002) - 3) / 35.15
    truth = {**TRUTH, **UNMODELLED, "q(0)": float(wanted[0]), "v(0)": float(rate[0])}
    run = di.simulate(axis(DRY, " - ripple*sin(60*q)"), truth, di.Experiment(time, {"u": u}), substeps=20)
    return di.Experiment(time, {"u": u}, {"position": run.outputs["position"]}, initial={"q": wanted[0], "v": rate[0]})


def test_missing_dry_friction_is_told_in_the_fit_and_in_the_validation():
    fitted, other = record(0), record(1)
    verdicts = {}
    for friction in (DRY, "0"):
        model = axis(friction)
        unknowns = [di.Parameter(p, TRUTH[p]) for p in model.parameters]
        estimate = di.identify(di.Problem(model, [fitted], unknowns), "single_shooting", progress=False)
        verdicts[friction] = estimate.verdict, estimate.validate(other).verdict
    assert [v.grade for v in verdicts[DRY]] == [Grade.SMALL_REMAINDER] * 2
    assert all(v.grade in (Grade.ROUGH, Grade.NOT) and v.cause is Cause.STRUCTURE for v in verdicts["0"])
    assert "linear black box of the same order" in verdicts["0"][1].sentence
