"""Wheel smoke: does dynident work where only its wheel was installed: a fit, its report, its command, an FMU?

Run by the Python of that environment, away from the sources.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import dynident as di

TRUTH = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "offset": -3.0}  # of the embedded example
WITHIN = 4.0  # standard errors
PARTS = ("py.typed", "__init__.pyi")  # what type checkers read


def installed() -> str:
    package = Path(di.__file__).parent
    assert Path(sys.prefix) in package.parents, f"dynident comes from {package} and not from the wheel"
    assert list(package.rglob("*.c")), "the wheel has no C sources"
    lacking = [name for name in PARTS if not (package / name).exists()]
    assert not lacking, f"the wheel lacks {lacking}"
    return f"dynident {di.__version__} in {sys.prefix}"


def fit(folder: Path) -> str:
    """The embedded example by the command line, read back in Python."""
    subprocess.run([Path(sys.executable).with_name("dynident"), "demo", "--out", "demo"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    estimate = di.load(folder / "demo" / "results")
    miss = max(abs(estimate.values[name] - true) / estimate.uncertainty.std(name) for name, true in TRUTH.items())
    assert estimate.converged and miss < WITHIN, f"{miss:.1f} standard errors from the truth"
    page = (folder / "demo" / "results" / "report.html").read_text(encoding="utf-8")
    assert "offset" in page, "the report shows nothing"
    return f"fit within {miss:.1f} standard errors of the truth; a report of {len(page) // 1024} KiB"


def fmu(folder: Path) -> str:
    """Export a model, simulate it again, and let fmpy look for faults: where the extra and a compiler are there."""
    from dynident.codegen.compiler import compiler
    from dynident.fmu.export import export_fmu

    if find_spec("fmpy") is None or compiler() is None:
        return "no FMU was tried: that needs dynident[fmu] and a C compiler"
    import fmpy
    from fmpy.validation import validate_fmu

    model, values = di.library.mass_spring_damper(), {"m": 1.0, "d": 0.4, "k": 5.0}
    path = export_fmu(model, folder / "spring.fmu", values)
    time = np.linspace(0, 2, 201)
    record = di.Experiment(time, {"F": np.sin(time)}, initial={"x": 0.0, "v": 0.0})
    here = di.simulate(model, values, record).outputs["position"]
    there = di.simulate(di.FmuModel(path, trusted=True), {}, record).outputs["position"]
    assert np.allclose(here, there, atol=1e-6), f"the FMU differs by {np.max(np.abs(here - there)):.1e}"
    assert not validate_fmu(str(path)), "fmpy finds faults in the FMU"
    return f"an FMU made here simulates as its equations do, and fmpy {fmpy.__version__} finds no fault in it"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for sentence in (installed(), fit(Path(place)), fmu(Path(place))):
            print(sentence)
