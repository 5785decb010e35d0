"""The exported filter is the Python filter: compiled by itself as C99 and compared sample by sample."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from linear_oracle import oscillator

import dynident as di
from dynident.kalman.export_c import export_filter
from dynident.kalman.method import KalmanMethod, MovingHorizon

CC = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(CC is None, reason="no C compiler")
STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function",
          "-pedantic", "-Werror"]
KNOWN = {"process_noise": {"v": 0.3}, "initial_std": {"q": 0.2, "v": 0.1}, "integrator": "heun"}


class Exported:
    """The two calls of an exported filter through ctypes; every array of the result is of known length."""

    def __init__(self, folder, states: int, parameters: int, outputs: int):
        built = subprocess.run([CC, *STRICT, "-fPIC", "-shared", str(folder / "axis.c"), "-o", str(folder / "axis.so"),
                                "-lm"], capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        self.library = ctypes.CDLL(str(folder / "axis.so"))
        self.library.axis_update.argtypes = [ctypes.c_void_p, ctypes.c_double, *[ctypes.c_void_p] * 3]
        self.memory = np.zeros(10_000)
        self.result = np.zeros(2 * states + 2 * max(parameters, 1) + outputs + 1)
        self.states, self.parameters = states, parameters
        assert self.library.axis_init(ctypes.c_void_p(self.memory.ctypes.data)) == 0

    def update(self, t, u, y):
        u, y = np.array(u, float), np.array(y, float)
        assert self.library.axis_update(self.memory.ctypes.data, t, u.ctypes.data, y.ctypes.data,
                                        self.result.ctypes.data) == 0
        parts = np.split(self.result, np.cumsum([self.states, self.states, self.parameters, self.parameters]))
        return np.concatenate([parts[0], parts[2]]), np.concatenate([parts[1], parts[3]])


@needs_compiler
@pytest.mark.parametrize("options", [
    {"covariance_update": "joseph"}, {"covariance_update": "square_root"}, {"filter": "unscented"},
    {"filter": "iterated", "gate": 4.0},
    {"horizon": 6}, {"bound_handling": "transform", "substeps": 2}],
    ids=["joseph", "square_root", "unscented", "iterated", "horizon", "transform"])
def test_exported_filter_gives_the_numbers_of_the_python_filter(tmp_path, options):
    problem, *_ = oscillator(150, seed=29, free=("k", "d"))
    bounded = [di.Parameter("k", start=6, lower=0.1, upper=50), di.Parameter("d", start=0.8, lower=0),
               *[p for p in problem.parameters if isinstance(p, di.InitialState)]]
    problem = problem.replace(parameters=bounded)
    method = (MovingHorizon if "horizon" in options else KalmanMethod)(**{**KNOWN, **options})
    estimate = method.identify(problem, None, lambda _: None)
    export_filter(estimate, tmp_path, "axis")
    exported, python, e = Exported(tmp_path, 2, 2, 1), method.start(problem), problem.experiments[0]
    for k, t in enumerate(e.time):
        y = np.nan if k % 7 == 3 else e.outputs["position"][k]
        known = python.update(t, [e.inputs["F"][k]], [y])
        values, std = exported.update(t, [e.inputs["F"][k]], [y])
        assert values == pytest.approx(list({**known.states, **known.parameters}.values()), rel=1e-9)
        assert std == pytest.approx(list(known.std.values()), rel=1e-7)


@needs_compiler
def test_header_says_model_discretization_and_operations(tmp_path):
    problem, *_ = oscillator(50, seed=31, free=("k",))
    estimate = di.identify(problem, di.kalman(**KNOWN))
    _, header = export_filter(estimate, tmp_path, "axis")
    text = header.read_text()
    assert "v' = F - k*q - d*v" in text and "heun (order 2)" in text and "multiplications" in text
    assert "malloc" not in (tmp_path / "axis.c").read_text()


def test_only_a_filter_can_be_exported(tmp_path):
    problem, *_ = oscillator(60, seed=31, free=("k",))
    with pytest.raises(di.NotSupported, match="holds a filter"):
        export_filter(di.identify(problem, di.single_shooting()), tmp_path)
    with pytest.raises(di.ProblemError, match="cannot be the name"):
        export_filter(di.identify(problem, di.kalman(**KNOWN)), tmp_path, "Bad Name")
