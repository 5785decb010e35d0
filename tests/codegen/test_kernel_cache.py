"""Is a kernel compiled once, kept unharmed, and done without where there is no compiler?"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dynident
from dynident._util.operating_system import library_suffix, replaceable_by_others, system
from dynident.codegen import compiler

needs_compiler = pytest.mark.skipif(compiler.compiler() is None, reason="this machine has no C compiler")
TRIPLE = "double dyn_triple(double x) { return 3 * x; }\n"
SOURCES = str(Path(dynident.__file__).parents[1])

RUN_A_FIT = """
    import logging, sys
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    import numpy as np, dynident as di
    from dynident.codegen import compiler
    t = np.linspace(0, 2, 41)
    model = di.EquationModel(states={"x": "-a*x"})
    run = di.Experiment(t, outputs={"x": np.exp(-0.7*t) + 0.01*np.cos(9*t)})
    problem = di.Problem(model, [run], [di.Parameter("a", start=1.0)])
    for _ in range(2):
        estimate = di.identify(problem, di.multiple_shooting(segments=4), progress=False)
    print(compiler.libraries_compiled, f"{estimate.values['a']:.9f}")
"""


COMPILE_TOGETHER = """
    import ctypes, pathlib, sys, time
    from dynident.codegen import compiler
    begin = pathlib.Path(sys.argv[1])
    compiler.compiler()
    print("ready", flush=True)
    while not begin.exists():
        time.sleep(0.001)
    library = compiler.load_library("triple", lambda: "double dyn_triple(double x) { return 3 * x; }")
    library.dyn_triple.restype, library.dyn_triple.argtypes = ctypes.c_double, [ctypes.c_double]
    print(library.dyn_triple(2.0))
"""


def python_elsewhere(script: str, *arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": SOURCES, **environment})


def fit_elsewhere(cache: Path, **environment: str) -> tuple[int, float, str]:
    """A small fit in a process of its own: libraries compiled, value of a, and what it logged."""
    process = python_elsewhere(RUN_A_FIT, DYNIDENT_CACHE=str(cache), **environment)
    out, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    compiled, value = out.split()
    return int(compiled), float(value), log


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of its own, as for a process that just began."""
    monkeypatch.setenv("DYNIDENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "_own_folder", [])
    forget()
    yield tmp_path / "cache"
    forget()


def forget() -> None:
    for remembered in (compiler._compiler_for, compiler._installed, compiler._opened):
        remembered.cache_clear()


def triple(key: str = "triple") -> float | None:
    library = compiler.load_library(key, lambda: TRIPLE)
    if library is None:
        return None
    import ctypes

    library.dyn_triple.restype, library.dyn_triple.argtypes = ctypes.c_double, [ctypes.c_double]
    return library.dyn_triple(2.0)


@needs_compiler
def test_second_run_compiles_nothing_and_gives_the_same_number(tmp_path):
    first, value, _ = fit_elsewhere(tmp_path)
    assert first == 5  # march of the model, sweep along time, steps within bounds, whole steps of one record, and the check
    second, again, _ = fit_elsewhere(tmp_path)
    assert second == 0
    assert again == value


@needs_compiler
def test_source_is_not_even_generated_when_the_library_is_kept(cache):
    assert triple() == 6.0

    def never() -> str:
        raise AssertionError("asked for the source of a kernel that is kept")

    compiler._opened.cache_clear()
    assert compiler.load_library("triple", never) is not None


@needs_compiler
def test_another_key_is_another_kernel(cache):
    before = compiler.libraries_compiled
    assert triple("one") == triple("two") == 6.0
    assert compiler.libraries_compiled == before + 2


@needs_compiler
def test_other_flags_are_another_kernel(cache, monkeypatch):
    before = compiler.libraries_compiled
    assert triple() == 6.0
    monkeypatch.setenv("DYNIDENT_CFLAGS", "-march=x86-64 -DUNUSED='a b'" if "x86" in compiler._machine() else "-O1")
    assert triple() == 6.0
    assert compiler.libraries_compiled == before + 2


@needs_compiler
@pytest.mark.parametrize("damage", ["cut short", "half zero", "empty", "gone", "note gone", "note torn"])
def test_damaged_kernel_is_made_again(cache, damage):
    assert triple() == 6.0
    (library,), (note,) = cache.glob("*.so"), cache.glob("*.txt")
    whole = library.read_bytes()
    harm = {"cut short": lambda: library.write_bytes(whole[:len(whole) // 2]),
            "half zero": lambda: library.write_bytes(whole[:len(whole) // 2] + bytes(len(whole) // 2)),
            "empty": lambda: library.write_bytes(b""), "gone": library.unlink, "note gone": note.unlink,
            "note torn": lambda: note.write_bytes(b"\xff\xfe")}
    library.rename(cache / "aside")  # this process has it open: the damaged one is another file
    (cache / "aside").rename(library) if damage.startswith("note") else library.write_bytes(whole)
    harm[damage]()
    forget()
    before = compiler.libraries_compiled
    assert triple() == 6.0
    assert compiler.libraries_compiled == before + 1


@needs_compiler
def test_processes_that_compile_the_same_at_the_same_time_do_not_break_each_other(tmp_path):
    cache, begin = tmp_path / "cache", tmp_path / "begin"
    together = [python_elsewhere(COMPILE_TOGETHER, str(begin), DYNIDENT_CACHE=str(cache)) for _ in range(4)]
    for process in together:
        assert process.stdout.readline() == "ready\n"
    begin.touch()
    assert [process.communicate(timeout=60)[0] for process in together] == ["6.0\n"] * 4
    assert not [path for path in cache.iterdir() if path.suffix not in (".so", ".txt")]  # nothing is left aside


def test_without_a_compiler_the_same_answer_comes_and_it_is_said_once(tmp_path):
    compiled, value, log = fit_elsewhere(tmp_path, DYNIDENT_CC="none")
    assert compiled == 0
    assert log.count("CasADi's own machine") == 1
    assert not list(tmp_path.iterdir())
    if compiler.compiler() is not None:
        assert fit_elsewhere(tmp_path / "with")[1] == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("behaviour", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\nexit 0\n", "not a program"],
                         ids=["fails", "writes nothing", "is no program"])
def test_broken_compiler_is_named_and_done_without(cache, tmp_path, monkeypatch, caplog, behaviour):
    broken = tmp_path / "my-cc"
    broken.write_text(behaviour)
    broken.chmod(0o755)
    monkeypatch.setenv("DYNIDENT_CC", str(broken))
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() is None
        assert triple("other") is None
    (said,) = caplog.messages
    assert "my-cc' does not work" in said


def test_compiler_that_is_not_there_is_named(cache, monkeypatch, caplog):
    monkeypatch.setenv("DYNIDENT_CC", "no-such-compiler")
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() is None
    assert "'no-such-compiler' does not work" in caplog.text


@needs_compiler
def test_a_working_compiler_is_taken_where_the_preferred_one_is_broken(cache, tmp_path, monkeypatch):
    broken = tmp_path / "cc-broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.delenv("DYNIDENT_CC", raising=False)
    monkeypatch.setenv("CC", str(broken))
    assert triple() == 6.0


@needs_compiler
def test_kernel_that_does_not_compile_is_done_without_and_said(cache, caplog):
    with caplog.at_level(logging.WARNING, "dynident"):
        assert compiler.load_library("nonsense", lambda: "this is not C") is None
    assert "could not be compiled" in caplog.text


@needs_compiler
def test_cache_that_cannot_be_written_serves_this_run_only_and_says_so(cache, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DYNIDENT_CACHE", str(tmp_path / "file" / "cache"))  # below a file no folder can be made
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() == 6.0
        before = compiler.libraries_compiled
        assert triple() == 6.0
        assert triple("other") == 6.0
    assert compiler.libraries_compiled == before + 1
    assert len(caplog.messages) == 1 and "DYNIDENT_CACHE" in caplog.text


@needs_compiler
def test_cache_stands_where_the_environment_says(cache):
    triple()
    assert len(list(cache.glob("*.so"))) == 1
    assert cache.stat().st_mode & 0o077 == 0  # code that is run: nobody else may write there


def test_kernel_functions_must_carry_the_prefix_that_keeps_them_from_libc():
    import casadi as ca

    from dynident.codegen.c_source import c_source

    x = ca.SX.sym("x")
    assert "dyn_twice" in c_source([ca.Function("dyn_twice", [x], [2 * x])])
    with pytest.raises(ValueError, match="dyn_"):
        c_source([ca.Function("step", [x], [2 * x])])


def test_a_process_whose_compiler_changes_forgets_what_the_other_one_gave(monkeypatch):
    """A kernel that was not to be had, or had other flags, must not stay for the life of the process."""
    loads = []

    @compiler.remembered()
    def load(key: str) -> int:
        loads.append(key)
        return len(loads)

    monkeypatch.delenv("DYNIDENT_CC", raising=False)
    monkeypatch.delenv("DYNIDENT_CFLAGS", raising=False)
    assert load("a") == load("a") == 1
    monkeypatch.setenv("DYNIDENT_CC", "none")
    assert load("a") == 2
    monkeypatch.delenv("DYNIDENT_CC")
    monkeypatch.setenv("DYNIDENT_CFLAGS", "-O1")
    assert load("a") == 3
    monkeypatch.delenv("DYNIDENT_CFLAGS")
    assert load("a") == 1


def test_every_loop_that_is_loaded_once_is_remembered_per_compiler(monkeypatch):
    from dynident.boundary.solve_bvp import block_elimination
    from dynident.fmu.stepping_compiled import stepping_library
    from dynident.linalg import chain_qr

    monkeypatch.setenv("DYNIDENT_CC", "none")
    assert [load() for load in (chain_qr._library, block_elimination._library, stepping_library)] == [None] * 3
    monkeypatch.delenv("DYNIDENT_CC")
    if compiler.compiler() is None:
        pytest.skip("there is no C compiler to come back to")
    assert all(load() is not None for load in (chain_qr._library, block_elimination._library, stepping_library))


def planted(cache: Path) -> None:
    """The cache with a library of somebody else in place of ours: it answers 10*x, and its name fits its content."""
    triple()
    (note,) = cache.glob("*.txt")
    (ours,) = cache.glob(f"*{library_suffix()}")
    source, made = cache / "planted.c", cache / "planted.so"
    source.write_text(TRIPLE.replace("3", "10"))
    subprocess.run([compiler.compiler(), "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
    content = compiler._content(made)
    made.rename(cache / f"{content}{library_suffix()}")
    note.write_text(content)
    ours.unlink()
    compiler._opened.cache_clear()


@needs_compiler
@pytest.mark.skipif(system() == "windows", reason="Windows has no modes")
@pytest.mark.parametrize("place", ["folder", "library", "note"])
def test_what_others_may_write_is_not_loaded(cache, caplog, place):
    planted(cache)
    assert triple() == 20.0  # it is ours as far as anybody can see
    places = {"folder": cache, "library": next(cache.glob(f"*{library_suffix()}")), "note": next(cache.glob("*.txt"))}
    places[place].chmod(0o777)
    compiler._opened.cache_clear()
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() == triple() == 6.0
    assert len(caplog.messages) == (place == "folder")
    assert "mode 777; chmod go-w" in caplog.text or place != "folder"


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder away")
def test_cache_of_another_user_is_not_loaded_from(cache, caplog):
    planted(cache)
    os.chown(cache, 12345, 12345)
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() == 6.0
    assert "belongs to another user (number 12345)" in caplog.text


@needs_compiler
@pytest.mark.skipif(system() == "windows", reason="Windows has no modes")
@pytest.mark.parametrize("way", ["straight", "link", "link to a link", "up and down"])
def test_a_cache_that_others_could_replace_is_not_loaded_from(cache, tmp_path, monkeypatch, caplog, way):
    """Who may write to the folder in which a cache lies may rename it, and put another one of this user in its place."""
    shared, ours = tmp_path / "shared", tmp_path / "ours"
    shared.mkdir()
    ours.mkdir()
    (shared / "cache").mkdir(mode=0o700)
    if way == "link to a link":
        (tmp_path / "kept").mkdir(mode=0o700)
        (shared / "cache").rmdir()
        (shared / "cache").symlink_to(tmp_path / "kept")
    if way.startswith("link"):
        (ours / "cache").symlink_to("../shared/cache" if way == "link" else shared / "cache")
    place = {"straight": shared / "cache", "up and down": shared / "cache" / ".." / "cache"}.get(way, ours / "cache")
    monkeypatch.setenv("DYNIDENT_CACHE", str(place))
    planted(place)
    assert triple() == 20.0
    shared.chmod(0o1777)
    compiler._opened.cache_clear()
    assert triple() == 20.0  # everybody may put something there, and nobody touch what is ours
    shared.chmod(0o777)
    compiler._opened.cache_clear()
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() == triple() == 6.0
    assert len(caplog.messages) == 1
    assert f"others may write to {shared}, in which it lies (mode 777" in caplog.text


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder or a link away")
@pytest.mark.parametrize("what", ["folder", "link"])
def test_a_cache_in_the_folder_of_another_user_is_not_loaded_from(cache, tmp_path, monkeypatch, caplog, what):
    (tmp_path / "theirs").mkdir()
    place = tmp_path / "theirs" / "cache"
    monkeypatch.setenv("DYNIDENT_CACHE", str(place))
    if what == "link":
        (tmp_path / "ours").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "ours")
    triple()
    planted(place)
    os.chown(place if what == "link" else place.parent, 12345, 12345, follow_symlinks=False)
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() == 6.0
    assert "another user" in caplog.text


@pytest.mark.skipif(system() == "windows", reason="Windows has no modes")
def test_a_group_of_one_may_write_on_the_way(tmp_path, monkeypatch):
    """Many systems give each user a group of his own, and let that write to whatever he makes."""
    import grp
    import pwd

    tmp_path.chmod(0o775)
    group = grp.getgrgid(tmp_path.stat().st_gid)
    names = pwd.getpwuid(os.getuid())
    own = names.pw_name
    for members, name, closed in ([], own, True), ([own, "else"], own, False), ([], "staff", False):
        monkeypatch.setattr(grp, "getgrgid", lambda _, n=name, m=members: grp.struct_group((n, "x", group.gr_gid, m)))
        assert (replaceable_by_others(tmp_path / "cache") == "") is closed


@needs_compiler
def test_a_relative_cache_counts_as_not_set(cache, tmp_path, monkeypatch, caplog):
    """The current folder may hold what others sent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "also/relative")
    monkeypatch.setenv("DYNIDENT_CACHE", "kept/here")
    compiler._say_relative.cache_clear()
    with caplog.at_level(logging.WARNING, "dynident"):
        assert triple() == triple("other") == 6.0
    assert not (tmp_path / "kept").exists() and not (tmp_path / "also").exists()
    assert len(caplog.messages) == 1 and "DYNIDENT_CACHE=kept" in caplog.text


@needs_compiler
def test_note_that_points_out_of_the_cache_is_not_followed(cache, tmp_path):
    planted(cache)
    (library,), (note,) = cache.glob(f"*{library_suffix()}"), cache.glob("*.txt")
    library.rename(tmp_path / library.name)
    note.write_text(f"../{library.stem}")
    assert triple() == 6.0


@needs_compiler
def test_generous_umask_does_not_open_the_cache(cache):
    before = os.umask(0)
    try:
        assert triple() == 6.0
        compiled = compiler.libraries_compiled
        assert triple() == 6.0
    finally:
        os.umask(before)
    assert compiler.libraries_compiled == compiled


def made_code(text: bytes = b"made") -> tuple[bytes, int]:
    """Code from the cache, and how often it had to be made."""
    made: list[bytes] = []

    def make() -> bytes:
        made.append(text)
        return text

    return compiler.cached_code("a template", make), len(made)


def test_code_of_python_is_made_once_and_kept(cache):
    assert [made_code(), made_code()] == [(b"made", 1), (b"made", 0)]
    (kept,) = cache.glob(f"*{compiler.CODE_SUFFIX}")
    kept.write_bytes(b"mad")  # cut short
    assert [made_code(), made_code()] == [(b"made", 1), (b"made", 0)]


@pytest.mark.skipif(system() == "windows", reason="Windows has no modes")
def test_code_of_python_that_others_may_write_is_not_loaded(cache):
    made_code(b"planted")
    next(cache.glob(f"*{compiler.CODE_SUFFIX}")).chmod(0o777)
    assert made_code() == (b"made", 1)
