"""Makers: FMUs for the tests, honest and not so honest, from our own exporter and from those of others.

A dishonest one is an honest one whose source code was changed before it was compiled.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pytest

from dynident.codegen import compiler
from dynident.models.equations import EquationModel

FOLDER = Path(tempfile.mkdtemp(prefix="dynident-test-fmus-"))

fmpy = pytest.importorskip("fmpy", reason="FMUs need FMPy: pip install dynident[fmu]")
needs_compiler = pytest.mark.skipif(compiler.compiler() is None, reason="these FMUs are compiled; no C compiler here")

LAG = EquationModel(name="lag", states={"x": "(gain*u - x)/tau"}, outputs={"y": "x", "through": "u"}, inputs=["u"],
                    parameters=["gain", "tau"], units={"tau": "s", "u": "V", "through": "V"})
LAG_VALUES = {"gain": 2.0, "tau": 0.5}
BALL = EquationModel(name="ball", states={"h": "v", "v": "-g"}, outputs={"height": "h", "own": "restitution + kick"},
                     parameters=["g", "restitution", "kick"])


def exported(model: EquationModel = LAG, values: dict | None = None, version: str = "2.0", **options) -> Path:
    """An FMU of our own; made once."""
    return _exported(model.content_hash(), version, tuple(sorted((values or LAG_VALUES).items())),
                     tuple(sorted(options.items())), _Held(model))


class _Held:
    def __init__(self, model: EquationModel):
        self.model = model

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return True


@functools.cache
def _exported(key: str, version: str, values: tuple, options: tuple, held: _Held) -> Path:
    from dynident.fmu.export import export_fmu

    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    return export_fmu(held.model, folder / f"{held.model.name or 'model'}.fmu", dict(values), version=version,
                      **dict(options))


def tampered(name: str, changes: dict[str, str], described: dict[str, str] | None = None, model: EquationModel = LAG,
             values: dict | None = None) -> Path:
    """An FMU 2.0 with lines of its source code and of its description replaced."""
    honest = exported(model, values)
    with zipfile.ZipFile(honest) as archive:
        content = {entry: archive.read(entry) for entry in archive.namelist()}
    source = next(entry for entry in content if entry.startswith("sources/"))
    text, description = content[source].decode(), content["modelDescription.xml"].decode()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    for old, new in (described or {}).items():
        assert old in description, old
        description = description.replace(old, new)
    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    (folder / "code.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n" + text)
    library = next(entry for entry in content if entry.startswith("binaries/"))
    subprocess.run([compiler.compiler(), "-O1", "-fPIC", "-shared", "-w", str(folder / "code.c"), "-o",
                    str(folder / "code.so"), "-lm"], check=True)
    path = folder / f"{name}.fmu"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", description)
        archive.write(folder / "code.so", library)
    return path


def bouncing_ball() -> Path:
    """State events (the floor), a time event (a kick of the velocity at 1.5 s), and a state that events change."""
    return tampered("ball", {
        "double z[], size_t n) { (void)c; (void)z; return n ? ERROR : OK; }":
            "double z[], size_t n) { z[0] = M->v[0]; return OK; }",
        "NewDiscreteStates(Instance c, Info *info) { (void)c; memset(info, 0, sizeof *info); return OK; }":
            """NewDiscreteStates(Instance c, Info *info) {
  double *kick = M->v + AT_P + 2;
  memset(info, 0, sizeof *info);
  if (M->v[0] <= 0 && M->v[1] < 0) { M->v[0] = 0; M->v[1] *= -M->v[AT_P + 1]; info->values = 1; M->fresh = 0; }
  if (M->v[AT_T] >= 1.5 && *kick != 0) { M->v[1] += *kick; *kick = 0; info->values = 1; M->fresh = 0; }
  if (*kick != 0) { info->defined = 1; info->next = 1.5; }
  return OK;
}"""}, {'numberOfEventIndicators="0"': 'numberOfEventIndicators="1"'}, BALL,
        {"g": 9.81, "restitution": 0.7, "kick": 1.0, "h(0)": 1.0, "v(0)": 0.0})
