"""Claims about the file of an FMU that is gone or replaced while its model lives."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
from fmu_makers import LAG, exported, needs_compiler

import dynident as di
from dynident.fmu.model import same_model

pytestmark = needs_compiler
T = np.linspace(0.0, 5.0, 51)
RECORD = di.Experiment(T, {"u": np.sin(3 * T)}, {"y": np.sin(3 * T - 1)})


@pytest.fixture
def path(tmp_path):
    return shutil.copyfile(exported(), tmp_path / "m.fmu")


def replace(path):
    shutil.copyfile(exported(LAG, {"gain": 9.0, "tau": 1.5}), path)


@pytest.mark.parametrize("lose", [lambda path: path.unlink(), replace], ids=["gone", "replaced"])
def test_an_estimate_outlives_its_file(path, lose, tmp_path):
    model = di.FmuModel(path, outputs=["y"])
    before = di.simulate(model, {}, RECORD).outputs["y"]
    estimate = di.identify(di.Problem(model, [RECORD], [di.Parameter("gain", start=1.0)]), progress=False)
    lose(path)
    assert np.array_equal(di.simulate(model, {}, RECORD).outputs["y"], before)
    assert np.array_equal(di.simulate(pickle.loads(pickle.dumps(model)), {}, RECORD).outputs["y"], before)
    estimate.validate(RECORD)
    estimate.save(tmp_path / "results")
    assert di.load(tmp_path / "results", allow_code=True).problem.model.digest == model.digest
    assert di.identify(estimate.problem, progress=False).values == estimate.values


@pytest.mark.parametrize(("lose", "sentence"), [(lambda path: path.unlink(), "cannot be read any more"),
                                                (replace, "has changed since its model was made")], ids=["gone", "replaced"])
def test_a_file_that_was_lost_before_the_first_use_is_said(path, lose, sentence, tmp_path):
    model = di.FmuModel(path, outputs=["y"])
    problem = di.Problem(model, [RECORD], [di.Parameter("gain", start=1.0)])
    lose(path)
    for ask in (lambda: di.simulate(model, {}, RECORD), lambda: di.identify(problem, progress=False),
                lambda: di.write_problem(problem, None, tmp_path / "problem.toml")):
        with pytest.raises(di.ProblemError, match=rf"m\.fmu {sentence}"):
            ask()


def test_another_process_does_not_take_another_file(path):
    told = pickle.dumps(di.FmuModel(path).identity())
    replace(path)
    where, _, digest, options = pickle.loads(told)
    with pytest.raises(di.ProblemError, match=r"m\.fmu is gone or has changed"):
        same_model(where, str(path.with_name("no copy here.fmu")), digest, options)
