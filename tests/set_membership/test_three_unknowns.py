"""Three unknowns: how far does the set reach beyond points that fit, which an independent optimisation finds from inside?"""

from importlib.util import find_spec
from pathlib import Path

import pytest

from dynident.codegen.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_two_masses_with_three_unknowns_are_bounded_within_three_times_the_feasible_cloud(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import three_unknowns as study

    ratio, _, estimate = study.compare(1)
    found = estimate.uncertainty
    assert 1 <= ratio <= 3
    record = study.make_record(1)
    assert found.feasible.shape[1] > 0
    for point in found.feasible.T[:50]:  # what the set proves to fit does, in an exact solution
        assert record.largest_error([dict(zip(found.names, point, strict=True))[n] for n in study.TRUTH]) <= 1 + 1e-9
    for name, value in study.TRUTH.items():
        low, high = found.interval(name)
        inner_low, inner_high = found.feasible_interval(name)
        assert low <= inner_low <= inner_high <= high and low <= value <= high
