"""Data classes call reports, files and verbs by name; every name leads to a function."""

import subprocess
import sys

import pytest

import dynident  # registers the hooks
from dynident._util import hooks


@pytest.mark.parametrize("name", sorted(hooks.registered()))
def test_every_hook_is_a_function(name):
    assert callable(hooks.hook(name))


def test_the_package_itself_loads_nothing():
    loaded = subprocess.run([sys.executable, "-c", f"import sys, {dynident.__name__}; print(*sys.modules)"],
                            capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.startswith("dynident")}
    assert ours == {"dynident", "dynident._util", "dynident._util.hooks"}
    assert "numpy" not in loaded
