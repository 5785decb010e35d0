"""Source code: how does an FMU that brings C instead of a library for this machine become one that can be loaded?

FMI 2.0 lists the files in the model description, FMI 3.0 in sources/buildDescription.xml; where neither does, all files in
`sources` are compiled. To compile runs nothing of the FMU; what comes out is loaded as any other FMU's code is.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree as xml

from dynident._util.operating_system import library_flags, link_flags
from dynident.codegen.compiler import COMPILE_LIMIT, cached_build, compiler
from dynident.codegen.compiler_process import run_compiler
from dynident.errors import NotSupported, ProblemError
from dynident.fmu.archive import entry_names, platform_folders, xml_text

SOURCES, BUILD_DESCRIPTION = "sources/", "sources/buildDescription.xml"
C_SUFFIXES = (".c",)
FLAGS = ("-O2", "-w", *library_flags())  # warnings about somebody else's code help nobody


@dataclass(frozen=True)
class BuildPlan:
    """What is compiled into one library, by paths below `sources`."""

    library: str  # where the library belongs in the archive
    files: tuple[str, ...]
    definitions: tuple[str, ...] = ()  # of the preprocessor: NAME or NAME=value
    include_folders: tuple[str, ...] = ()
    external: tuple[str, ...] = ()  # libraries that it wants to be linked with, by their names


def build_plan(path: Path, version: int, interface: Any) -> BuildPlan | None:
    """How to build an interface of the FMU; None where it brings no C for it."""
    names, identifier = entry_names(path), interface.modelIdentifier
    second, third, suffix = platform_folders()
    library = f"binaries/{second if version == 2 else third}/{identifier}{suffix}"
    if version == 3 and BUILD_DESCRIPTION in names:
        return _from_build_description(path, identifier, library)
    description = xml.fromstring(xml_text(path, "modelDescription.xml"))
    listed = [e.get("name", "") for e in description.iterfind(f"{type(interface).__name__}/SourceFiles/File")]
    there = [name.removeprefix(SOURCES) for name in names if name.startswith(SOURCES)]
    files = tuple(f for f in listed or there if f in there and f.endswith(C_SUFFIXES))
    return BuildPlan(library, files) if files else None


def _from_build_description(path: Path, identifier: str, library: str) -> BuildPlan | None:
    root = xml.fromstring(xml_text(path, BUILD_DESCRIPTION))
    for configuration in root.findall("BuildConfiguration"):
        if configuration.get("modelIdentifier") != identifier or configuration.get("platform") not in (
                None, "", platform_folders()[1]):
            continue
        files = tuple(e.get("name", "") for e in configuration.iterfind(".//SourceFile"))
        definitions = tuple(_definition(e) for e in configuration.iterfind(".//PreprocessorDefinition")
                            if e.get("optional") not in ("true", "1"))
        folders = tuple(e.get("name", "") for e in configuration.iterfind(".//IncludeDirectory"))
        external = tuple(e.get("name", "") for e in configuration.iterfind("Library"))
        if files and all(f.endswith(C_SUFFIXES) for f in files):
            return BuildPlan(library, files, definitions, folders, external)
    return None


def _definition(element: xml.Element) -> str:
    value = element.get("value")
    return f"{element.get('name', '')}={value}" if value is not None else element.get("name", "")


def compile_sources(folder: Path, plan: BuildPlan, file: str) -> None:
    """The library in the unpacked FMU, made once and kept by the content of its sources, as compiled kernels are; raises
    NotSupported with what the compiler says."""
    target = folder / plan.library
    if target.exists():
        return
    working = compiler()
    if working is None:
        raise NotSupported(f"{file} brings source code for this machine, but no C compiler was found to build it. Install one, "
                           "or export the FMU with a library for this platform.")
    named = [PurePosixPath(n) for n in (*plan.files, *plan.include_folders)]
    outside = [n for n in named if ".." in n.parts or n.is_absolute()]
    if outside:
        raise ProblemError(f"{file}: its source code refers to '{outside[0]}', outside of the archive; it is refused.")
    sources = folder / "sources"
    key = f"source code of an FMU {_digest(sources)} {plan} {FLAGS} headers of {version('fmpy')}"
    kept = cached_build(key, working, lambda made: _compile(sources, plan, file, working, made))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kept, aside := target.with_name(f".{target.name}"))
    aside.replace(target)


def _digest(sources: Path) -> str:
    """Of all files below a folder, by name and content: what is compiled, and what that includes."""
    digest = hashlib.sha256()
    for path in sorted(p for p in sources.rglob("*") if p.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _compile(sources: Path, plan: BuildPlan, file: str, working: str, made: Path) -> None:
    include = [f"-I{sources}", *(f"-I{sources / n}" for n in plan.include_folders), f"-I{_headers()}"]
    command = [working, *FLAGS, *link_flags(), *include, *(f"-D{d}" for d in plan.definitions),
               *(str(sources / f) for f in plan.files), "-o", str(made), *(f"-l{n}" for n in plan.external), "-lm"]
    failure = run_compiler(command, f"the source code of {file}", COMPILE_LIMIT).failure
    if failure or not made.exists():
        raise NotSupported(f"The source code of {file} cannot be compiled here: {failure or 'nothing was written'}. Export it "
                           "with a library for this platform.")


def _headers() -> Path:
    """The headers of the standard, which source code includes and does not always bring along."""
    import fmpy

    return Path(fmpy.__file__).parent / "c-code"
