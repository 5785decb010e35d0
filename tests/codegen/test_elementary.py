"""Our own tanh: as exact as a C library's, everywhere."""

import ctypes

import numpy as np
import pytest

from dynident.codegen.c_source import QUICK, kernel_text
from dynident.codegen.compiler import load_library

LOOP = "\nvoid all(long long n, const double *x, double *y) { while (n--) y[n] = tanh(x[n]); }\n"
WITHIN = 4  # units in the last place; glibc's own tanh is within 2


@pytest.fixture(scope="module", params=["elementary.c", "elementary_simd.c"])
def tanh(request):
    text = kernel_text(request.param) + LOOP
    library = load_library(f"test {text}", lambda: text, QUICK)
    if library is None:
        pytest.skip("no C compiler")

    def call(x: np.ndarray) -> np.ndarray:
        x, y = np.ascontiguousarray(x, float), np.empty(len(x))
        library.all(ctypes.c_longlong(len(x)), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        return y

    return call


def test_it_is_right_to_a_few_units_in_the_last_place(tanh):
    rng = np.random.default_rng(1)
    x = np.concatenate([10.0 ** rng.uniform(-300, 2, 2000), rng.uniform(0, 1, 2000), rng.uniform(0, 25, 2000)])
    exact = np.tanh(x.astype(np.longdouble)).astype(float)
    assert np.max(np.abs(tanh(x) - exact) / np.spacing(exact)) <= WITHIN
    np.testing.assert_array_equal(tanh(-x), -tanh(x))


def test_it_never_leaves_the_range_and_keeps_what_is_special(tanh):
    x = np.array([np.inf, -np.inf, 1e300, 22.0, 0.0, -0.0, np.nan, 5e-324])
    np.testing.assert_array_equal(tanh(x), [1, -1, 1, 1, 0, 0, np.nan, 5e-324])
    assert np.max(tanh(np.linspace(0, 30, 100_001))) <= 1


@pytest.mark.parametrize("seam", [0.625, 22.0])
def test_it_rises_across_the_seams_of_its_pieces(tanh, seam):
    below, above = tanh(np.array([np.nextafter(seam, 0), np.nextafter(seam, 30)]))
    assert above >= below - WITHIN * np.spacing(below)
