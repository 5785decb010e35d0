"""Claims about published variants: found by name, loaded only when asked for, each file naming its paper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import dynident.papers
from dynident.integrators import PAPER_VARIANTS as INTEGRATORS
from dynident.set_membership.bisection import PAPER_STRATEGIES
from dynident.set_membership.run import PAPER_VARIANTS as OBSERVERS

PAPERS = ("Direct-methods paper", "Interval paper", "FMU paper", "Thesis", "Filter paper", "The papers")
EVERYTHING_BUT_PAPERS = """
import sys
import dynident as di
import dynident.cli
from dynident.integrators import integrator_named
for name in di.__all__:
    getattr(di, name)
for make in (di.single_shooting, di.kalman, di.set_membership, di.boundary_value, di.least_squares):
    make()
integrator_named("leapfrog")
assert not [name for name in sys.modules if name.startswith("dynident.papers")], "the core has loaded papers"
"""


@pytest.mark.parametrize("place", [*INTEGRATORS.values(), *PAPER_STRATEGIES.values(), *OBSERVERS.values()])
def test_every_variant_stands_where_its_name_leads(place):
    assert place.startswith("dynident.papers.") and resolve_name(place) is not None


def test_the_core_loads_no_paper():
    done = subprocess.run([sys.executable, "-c", EVERYTHING_BUT_PAPERS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_file_names_its_paper_first():
    files = [path for path in Path(dynident.papers.__file__).parent.glob("*.py") if path.name != "__init__.py"]
    assert files and all(path.read_text(encoding="utf-8").lstrip('"').startswith(PAPERS) for path in files)
