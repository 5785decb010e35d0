"""Claims about FMUs that bring source code only: a compiler makes a library of it, and says why where it cannot."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from fmu_makers import exported, needs_compiler

import dynident as di

pytestmark = needs_compiler
T = np.linspace(0.0, 4.0, 41)
EXPERIMENT = di.Experiment(T, {"u": np.sin(3 * T)}, hold="linear")
VERSIONS = pytest.mark.parametrize("version", ["2.0", "3.0"])
PLAN = """<?xml version="1.0"?><fmiBuildDescription fmiVersion="3.0"><BuildConfiguration modelIdentifier="{identifier}">
<SourceFileSet><SourceFile name="{file}"/><PreprocessorDefinition name="WANTED" value="1"/></SourceFileSet>
</BuildConfiguration></fmiBuildDescription>"""


def bare(folder, version="2.0", text=lambda source: source, plan=""):
    """Our own export without its library."""
    path = folder / "bare.fmu"
    with zipfile.ZipFile(exported(version=version)) as archive, zipfile.ZipFile(path, "w") as made:
        for name in archive.namelist():
            if name.startswith("sources/") and name.endswith(".c"):
                made.writestr(name, text(archive.read(name).decode()))
            elif not name.startswith("binaries/") and not (plan and name.endswith("buildDescription.xml")):
                made.writestr(name, archive.read(name))
        if plan:
            source = next(n for n in archive.namelist() if n.endswith(".c")).removeprefix("sources/")
            identifier = di.FmuModel(exported(version=version)).description.interfaces["co_simulation"].identifier
            made.writestr("sources/buildDescription.xml", plan.format(file=source, identifier=identifier))
    return path


@VERSIONS
@pytest.mark.parametrize("kind", ["model_exchange", "co_simulation"])
def test_source_code_is_built_and_simulates_as_the_library_does(tmp_path, version, kind):
    model = di.FmuModel(bare(tmp_path, version), kind=kind)
    assert model.kind == kind and "built here from its source code" in str(model)
    found = [di.simulate(m, {}, EXPERIMENT).outputs["y"] for m in (model, di.FmuModel(exported(version=version), kind=kind))]
    assert np.allclose(*found, rtol=0, atol=1e-9)  # another compiler's options may round otherwise


def test_a_build_description_is_followed(tmp_path):
    guarded = bare(tmp_path, "3.0", lambda source: f"#ifndef WANTED\n#error not as described\n#endif\n{source}", PLAN)
    assert np.all(np.isfinite(di.simulate(di.FmuModel(guarded), {}, EXPERIMENT).outputs["y"]))


def test_source_code_from_outside_of_the_archive_is_refused(tmp_path):
    path = bare(tmp_path, "3.0", plan=PLAN.replace("{file}", "../../secret.c"))
    with pytest.raises(di.ProblemError, match=r"refers to '\.\./\.\./secret\.c', outside of the archive"):
        di.simulate(di.FmuModel(path), {}, EXPERIMENT)


def test_what_the_compiler_says_is_said(tmp_path):
    path = bare(tmp_path, text=lambda source: "int broken = ;\n" + source)
    with pytest.raises(di.NotSupported, match=r"source code of bare\.fmu cannot be compiled here: .*error"):
        di.simulate(di.FmuModel(path), {}, EXPERIMENT)


def test_without_a_compiler_source_code_is_refused_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNIDENT_CC", "none")
    with pytest.raises(di.NotSupported, match=r"no C compiler was found to build it\. Install one, or export"):
        di.simulate(di.FmuModel(bare(tmp_path)), {}, EXPERIMENT)
