"""Claims about FMUs that bring source code only: a compiler makes a library of it, and says why where it cannot."""

from __future__ import annotations

import sys
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


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache of this test alone, and the compilations that were asked for."""
    from dynident.codegen import compiler
    from dynident.fmu import source_code

    folder, asked, run = tmp_path / "cache", [], source_code.run_compiler
    monkeypatch.setenv("DYNIDENT_CACHE", str(folder))
    monkeypatch.setattr(compiler, "_own_folder", [])
    monkeypatch.setattr(source_code, "run_compiler", lambda *told: (asked.append(told), run(*told))[1])
    return folder, asked


def simulated_anew(folder, number):
    """The same source code in another archive, which is unpacked anew."""
    own = folder / str(number)
    own.mkdir()
    path = bare(own)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("documentation/number.txt", str(number))
    return di.simulate(di.FmuModel(path, trusted=True), {}, EXPERIMENT).outputs["y"]


def test_source_code_is_compiled_once_for_all_runs(tmp_path, own_cache):
    _, compiled = own_cache
    first, second = (simulated_anew(tmp_path, k) for k in range(2))
    assert len(compiled) == 1 and first.tobytes() == second.tobytes()


@pytest.mark.skipif(sys.platform == "win32", reason="owners and modes of POSIX")
@pytest.mark.parametrize("change", ["content", "mode", "folder"])
def test_a_library_that_somebody_else_may_have_written_is_compiled_anew(tmp_path, own_cache, change):
    cache, compiled = own_cache
    simulated_anew(tmp_path, 0)
    for library in cache.glob("*.so"):
        if change == "content":
            library.write_bytes(library.read_bytes() + b"planted")
        elif change == "mode":
            library.chmod(0o777)
    if change == "folder":
        cache.chmod(0o777)
    assert np.all(np.isfinite(simulated_anew(tmp_path, 1)))
    assert len(compiled) == 2


def test_other_source_code_is_compiled_for_itself(tmp_path, own_cache):
    _, compiled = own_cache
    simulated_anew(tmp_path, 0)
    changed = tmp_path / "changed"
    changed.mkdir()
    di.simulate(di.FmuModel(bare(changed, text=lambda source: source + "\n/* another */\n"), trusted=True), {}, EXPERIMENT)
    assert len(compiled) == 2


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
