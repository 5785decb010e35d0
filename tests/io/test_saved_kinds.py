"""Every kind of uncertainty and of history comes back from a folder as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_results import made_by_hand

from dynident._util.codec import encode
from dynident.errors import NotSupported, ProblemError
from dynident.estimate.enclosure import Band, Enclosure, Refutation
from dynident.estimate.estimate import Estimate, StartResult
from dynident.estimate.filter_result import FilterCovariance, FilterRecord, FilterResult
from dynident.estimate.smoother_result import PseudoTimeStep, SmootherRecord, SmootherResult
from dynident.io.results.estimate_json import UNCERTAINTIES
from dynident.io.results.result_folder import load, save
from dynident.models.augmented import ParameterTransform
from dynident.statistics.active_bounds import BoundRelaxation
from dynident.statistics.bootstrap_result import Bootstrap
from dynident.statistics.covariance import Covariance
from dynident.statistics.profile_likelihood import Profile, ProfileCurve
from dynident.statistics.residual_tests import ResidualTest
from dynident.statistics.uncertainty import Uncertainty
from dynident.status import Status, StatusCode

NAMES = ("k", "x(0)[run 1]", "x(0)[run 2]")


def covariance() -> Covariance:
    return Covariance(
        NAMES, np.array([1.0, 2.0, 3.0]), np.diag([1e-4, 0.0, np.inf]), dof=7.5, corrected=np.eye(3),
        corrected_dof=np.array([3.0, np.nan, np.inf]), default_kind="corrected", reason="they drift",
        active={NAMES[1]: "lower"}, std_if_released={"plain": {NAMES[1]: np.inf}},
        bound_relaxations=(BoundRelaxation(NAMES[1], np.array([0.1, 0.0, np.nan]), {}, {"plain": 3.0}),),
        unidentifiable=(NAMES[2],), combinations=("k + x is determined",), null_space=np.array([[0.0], [0.0], [1.0]]),
        logarithmic=("k",), fixed={"m": 2.0}, assumed="all is well")


def enclosure(refutation: Refutation | None = None) -> Enclosure:
    band = Band("run 1", np.arange(3.0), {"k": np.zeros(3)}, {"k": np.full(3, np.inf)}, np.array([1, 2, 3]),
                np.array([1, 1, 3]), ("slip", "stick"), (0.5,), 2)
    return Enclosure(NAMES, np.full(3, np.nan), np.ones(3), "It is proved.", np.zeros(3), np.full(3, np.inf),
                     np.ones((2, 3, 4)), max_outliers=2, refutation=refutation, bands=(band,), fixed={"m": 2.0},
                     plot_pair=("k", NAMES[1]), truth={"k": 1.5, NAMES[1]: np.arange(3.0)})


KINDS = {
    "covariance": [covariance(), Covariance((), np.zeros(0), np.zeros((0, 0)))],
    "profile": [Profile(NAMES, np.ones(3), np.ones(3), {"k": ProfileCurve(
                        np.arange(3.0), np.array([9.0, 0.0, 9.0]), np.ones((3, 3)),
                        ("reached", "far"), None, 12)}, covariance(), notes=("slow",))],
    "bootstrap": [Bootstrap(NAMES, np.ones(3), np.arange(12.0).reshape(4, 3), "parametric", 1, {"m": 2.0})],
    "enclosure": [enclosure(), enclosure(Refutation("run 1", 0.5, None)), enclosure(Refutation("run 1", 0.5, 1.25))],
    "filter_covariance": [FilterCovariance(NAMES, np.ones(3), np.diag([1.0, np.inf, 0.0]),
                                           (ParameterTransform(), ParameterTransform("log", 0.0), ParameterTransform()),
                                           {"k": "as given"}, {"m": 2.0}, False)],
}


@pytest.fixture(autouse=True)
def _no_report(monkeypatch):
    """These estimates are made of odd numbers, to be kept and not to be drawn."""
    monkeypatch.setattr("dynident.io.results.result_folder.write_report", lambda *_: None)


def saved(tmp_path, **changes) -> Estimate:
    return load(save(made_by_hand(**changes), tmp_path / "r"))


def test_every_kind_is_tried():
    assert set(KINDS) == set(UNCERTAINTIES)


@pytest.mark.parametrize("made", [
    pytest.param(made, id=f"{kind} {i}") for kind, all_ in KINDS.items() for i, made in enumerate(all_)])
def test_uncertainty_comes_back_field_by_field(tmp_path, made):
    if not made.names:  # as many unknowns as the problem has
        made = replace(made, names=NAMES, values=np.ones(3), matrix=np.eye(3), null_space=np.zeros((3, 0)))
    back = saved(tmp_path, uncertainty=made).uncertainty
    assert type(back) is type(made) and isinstance(back, Uncertainty)
    assert encode(back) == encode(made)
    for name, array in vars(made).items():
        if isinstance(array, np.ndarray):
            assert vars(back)[name].shape == array.shape and vars(back)[name].dtype == array.dtype, name


@pytest.mark.parametrize("made", [pytest.param(all_[0], id=kind) for kind, all_ in KINDS.items()])
def test_every_uncertainty_answers_all_that_is_asked(made):
    assert isinstance(made.meaning, str) and isinstance(made.heading, str) and isinstance(made.status_word, str)
    assert made.default_kind in made.kinds or not (made.kinds or made.default_kind)
    assert isinstance(made.combinations, tuple)
    for matrix in (made.correlation(), made.covariance()):
        assert matrix is None or matrix.shape == (3, 3)
    for name in NAMES:
        low, high = made.interval(name)
        assert low <= high or np.isnan(low)
        assert made.std(name) >= 0 or np.isnan(made.std(name))
        assert isinstance(made.remark(name), str) and isinstance(made.is_informed(name), bool)
        for kind in made.kinds:
            assert len(made.interval(name, 0.9, kind)) == 2
    assert made.linearized is None or isinstance(made.linearized, Covariance)
    assert made.with_plot_pair((), {}) is None or isinstance(made, Enclosure)
    with pytest.raises(ProblemError, match="kind = 'odd'"):
        made.interval(NAMES[0], 0.95, "odd")


def test_a_filter_s_history_comes_back(tmp_path):
    test = ResidualTest("innovation size", "innovations", np.nan, (0.0, np.inf), False, "too sure")
    for smoothed in (None, np.arange(4.0).reshape(2, 2)):
        records = tuple(FilterRecord(name, np.array([0.0, 1.0]), ("x", "k"), ("y",), np.arange(4.0).reshape(2, 2),
                                       np.full((2, 2), np.inf), np.array([[np.nan], [1.0]]), np.array([[True], [False]]),
                                       smoothed, smoothed) for name in ("b", "a"))
        made = FilterResult(records, ("k",), {"x": 0.1}, "sample", ("y",), {"x": np.inf}, np.nan, (test,))
        back = saved(tmp_path, filtered=made).filtered
        assert encode(back) == encode(made)
        assert back.records[0].left_out.dtype == bool


def test_a_smoother_s_history_comes_back(tmp_path):
    record = SmootherRecord("a", np.array([0.0, 1.0]), ("x", "k"), *(np.array([[1.0, 2.0], [np.nan, 3.0]]),) * 4)
    made = SmootherResult((record,), {"x": 2.0}, ("k",), (PseudoTimeStep(1, "newton", 1.0, 0.1, np.inf, True, False),))
    assert encode(saved(tmp_path, smoothed=made).smoothed) == encode(made)


def test_status_and_starts_come_back_with_their_codes(tmp_path):
    status = Status("Converged.", StatusCode.CONVERGED)
    start = StartResult({"k": 1.0}, {"k": 2.0}, np.inf, False, Status("stopped", StatusCode.ITERATION_LIMIT), -3.0)
    back = saved(tmp_path, status=status, starts=(start,))
    assert back.status == "Converged." and back.status.code is StatusCode.CONVERGED
    assert encode(back.starts) == encode((start,)) and back.starts[0].status.code is StatusCode.ITERATION_LIMIT


def test_a_status_without_a_code_has_one_all_the_same():
    assert made_by_hand(status="Odd.").status.code is StatusCode.UNKNOWN


def test_an_uncertainty_that_is_not_known_is_refused_with_the_file(tmp_path):
    path = save(made_by_hand(), tmp_path / "r") / "estimate.json"
    path.write_text(path.read_text().replace('"kind": "covariance"', '"kind": "later"'))
    with pytest.raises(NotSupported, match=r"estimate\.json holds an uncertainty of kind 'later'"):
        load(tmp_path / "r")
