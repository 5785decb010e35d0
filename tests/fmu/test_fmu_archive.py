"""Claims about unpacking: what could do harm is refused, with a sentence."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from dynident.errors import NotSupported, ProblemError
from dynident.fmu import archive
from dynident.fmu.archive import description_text, existing_fmu, extract, find_library, platform_folders


def zipped(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries:
            made.writestr(name, content)
    return path


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil", "a/../../evil", "..\\evil.txt", "a\\..\\..\\evil.txt",
                                  "C:/evil.txt", "C:\\evil.txt", "\\etc\\evil"])
def test_an_entry_that_leaves_the_folder_is_refused(tmp_path, name):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), (name, "boo")])
    with pytest.raises(ProblemError, match="outside of the folder"):
        extract(path)
    assert not (tmp_path.parent / "evil.txt").exists()


def test_separators_of_windows_are_understood(tmp_path):
    """As written by some Windows tools: an FMU of JModelica.org in modestpy's tests holds 'binaries\\win32\\Simple2R1C.dll'."""
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("binaries\\linux64\\m.so", "code")])
    assert (extract(path) / "binaries" / "linux64" / "m.so").read_text() == "code"
    assert archive.entry_names(path)[1] == "binaries/linux64/m.so"


def test_a_link_is_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), (link, "/etc/passwd")])
    with pytest.raises(ProblemError, match="is a link"):
        extract(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("zeros", bytes(50_000_000))])
    with pytest.raises(ProblemError, match="which no FMU needs"):
        extract(path)


def test_sizes_that_lie_are_found_while_unpacking(tmp_path, monkeypatch):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("data", bytes(3_000_000))])
    monkeypatch.setattr(archive, "_refuse_harmful", lambda *_: None)  # as if the directory had said less
    monkeypatch.setattr(archive, "MAX_BYTES", 1_000_000)
    with pytest.raises(ProblemError, match="unpacks to more than"):
        extract(path)


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_FILES", 5)
    path = zipped(tmp_path / "x.fmu", [(f"f{i}", "") for i in range(6)])
    with pytest.raises(ProblemError, match="holds 6 files"):
        extract(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(tmp_path):
    for names, texts in ((("a.xml", "A.XML"), "aa"), (("a.xml", "a.xml"), "ab")):
        path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), *zip(names, texts, strict=True)])
        with pytest.raises(ProblemError, match="two entries"):
            extract(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_was_packed_twice_is_one(tmp_path):
    twice = [("extra/", ""), ("extra/a.txt", "same")]
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), *twice, *twice])
    assert (extract(path) / "extra" / "a.txt").read_text() == "same"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_entities_are_refused(tmp_path, encoding):
    text = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "boo">]><a>&b;</a>'.encode(encoding)
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", text)])
    with pytest.raises(ProblemError, match="entities"):
        description_text(path)


@pytest.mark.parametrize("head", [b'<?xml version="1.0" encoding="UTF-7"?>', b"<?xml version='1.0' encoding = 'utf-7' ?>",
                                  b'<?xml version="1.0" encoding="cp037"?>', b'<?xml version="1.0" encoding=UTF-7?>',
                                  b'\xff\xfe<\0?\0x\0m\0l\0 \0e\0n\0c\0o\0d\0i\0n\0g\0=\0"\0U\0T\0F\0-\0007\0"\0?\0>\0'])
def test_an_encoding_that_can_hide_entities_is_refused(tmp_path, head):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", head + b'+ADwAIQ-DOCTYPE x [+ADwAIQ-ENTITY n "b">]><x/>')])
    with pytest.raises(ProblemError, match="is not XML in UTF-8, UTF-16, Latin-1 or ASCII"):
        description_text(path)


def test_what_is_written_in_ebcdic_is_refused(tmp_path):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", '<?xml version="1.0"?><!DOCTYPE a []><a/>'.encode("cp037"))])
    with pytest.raises(ProblemError, match="is not XML in"):
        description_text(path)


@pytest.mark.parametrize(("declared", "codec"), [
    ("", "utf-8"), ("", "utf-8-sig"), ("UTF-8", "utf-8"), ("utf-16", "utf-16"), ("ISO-8859-1", "latin-1"),
    ("US-ASCII", "ascii")])
def test_the_usual_encodings_are_read(tmp_path, declared, codec):
    said = f' encoding="{declared}"' if declared else ""
    text = f'<?xml version="1.0"{said}?>\n<a/>'.encode(codec)
    assert description_text(zipped(tmp_path / "x.fmu", [("modelDescription.xml", text)])) == text


def damaged(path):
    """A download with a hole in its largest entry."""
    zipped(path, [("modelDescription.xml", "<a/>"), ("data", random.Random(0).randbytes(5000) + bytes(5000))])
    raw = bytearray(path.read_bytes())
    raw[200:230] = bytes(30)
    path.write_bytes(raw)


def strangely_packed(path):
    """By a method that nobody knows, according to the directory of the archive."""
    zipped(path, [("modelDescription.xml", "<a/>"), ("data", "1")])
    raw = bytearray(path.read_bytes())
    at = raw.rfind(b"PK\x01\x02")
    raw[at + 10:at + 12] = (99).to_bytes(2, "little")
    path.write_bytes(raw)


@pytest.mark.parametrize("make", [
    damaged, strangely_packed,
    lambda path: zipped(path, [("modelDescription.xml", "<a/>"), ("data", "1"), ("data/below", "2")]),
    lambda path: zipped(path, [("modelDescription.xml", "<a/>"), ("data" + "x" * 300, "1")])],
    ids=["damaged", "unknown method", "file and folder", "long name"])
def test_what_cannot_be_unpacked_is_said_with_the_file_and_leaves_nothing(tmp_path, monkeypatch, make):
    make(tmp_path / "x.fmu")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with pytest.raises(ProblemError, match=r"'data.*' in .*x\.fmu cannot be unpacked: .*\. Check the download"):
        extract(existing_fmu(tmp_path / "x.fmu"))
    assert not list((tmp_path / "tmp").iterdir())


UNPACK = """
import os, signal, sys, time
from pathlib import Path
import dynident as di
from dynident.fmu.archive import extract

def unpack(path):
    return str(extract(Path(path)))

if __name__ == "__main__":
    path, way = sys.argv[1:]
    if way == "worker":
        with di.process_pool(workers=1) as pool:
            print(pool.submit(unpack, path).result())
    else:
        print(unpack(path), flush=True)
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "waits":
        sys.stdin.read()
"""


@pytest.fixture
def unpacking(tmp_path):
    """Another process that unpacks an FMU and then ends in some way; and the folder for its temporary files."""
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("data", "1")])
    (tmp_path / "unpack.py").write_text(UNPACK)
    (tmp_path / "tmp").mkdir()
    source = str(Path(archive.__file__).parents[2])

    def start(way):
        return subprocess.Popen([sys.executable, tmp_path / "unpack.py", path, way], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": source})

    def left():
        return list((tmp_path / "tmp").glob("dynident-fmu-*"))

    return start, left


@pytest.mark.parametrize("way", ["ends", "worker"])
def test_nothing_stays_behind_when_a_process_or_its_workers_end(unpacking, way):
    start, left = unpacking
    process = start(way)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "dynident-fmu-" in said
    assert not left()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_what_a_killed_process_left_is_removed_by_the_next_and_what_is_in_use_is_not(unpacking):
    start, left = unpacking
    start("killed").communicate(timeout=60)
    assert len(left()) == 1
    waits = start("waits")
    used = Path(waits.stdout.readline().strip())
    assert [folder for folder in left() if used.is_relative_to(folder)] == left()  # the other one is gone
    start("ends").communicate(timeout=60)
    assert (used / "data").exists()
    waits.communicate(timeout=60)
    assert not left()


def test_a_disk_without_locks_can_be_unpacked_to_and_nothing_is_taken_for_abandoned(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", no_locks)
    made = [archive.new_folder("a"), archive.new_folder("b")]
    others = dict(archive._locks)
    monkeypatch.setattr(archive, "_locks", {})  # as another process sees them
    archive.remove_abandoned()
    assert all(folder.exists() for folder in made)
    monkeypatch.setattr(archive, "_locks", others)
    for folder in made:
        archive.remove_folder(folder)
    assert not list(tmp_path.iterdir())


def test_a_missing_file_names_its_neighbours(tmp_path):
    zipped(tmp_path / "robot.fmu", [("a", "")])
    with pytest.raises(ProblemError, match=r"does not exist. There are: robot\.fmu"):
        existing_fmu(tmp_path / "robott.fmu")


def test_what_is_not_a_zip_is_not_an_fmu(tmp_path):
    (tmp_path / "x.fmu").write_text("hello")
    with pytest.raises(ProblemError, match="not an FMU: it is not a zip"):
        existing_fmu(tmp_path / "x.fmu")


def test_a_zip_without_description_is_not_an_fmu(tmp_path):
    with pytest.raises(ProblemError, match="holds no modelDescription"):
        description_text(zipped(tmp_path / "x.fmu", [("a", "")]))


def test_a_library_of_another_name_is_not_called_another_platform(tmp_path):
    folder = platform_folders()[0]
    with pytest.raises(NotSupported, match=rf"has a folder for this machine \({folder}\), but no m\.\w+ in it: other\.so"):
        find_library([f"binaries/{folder}/other.so"], tmp_path / "m.fmu", 2, "m")


def test_no_binary_for_this_machine_says_which_there_are(tmp_path):
    names = ["binaries/vax64/m.so", "binaries/pdp11/m.so", "sources/m.c"]
    with pytest.raises(NotSupported, match=r"code for: pdp11, vax64, and source code"):
        find_library(names, tmp_path / "m.fmu", 2, "m")
