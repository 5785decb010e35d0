"""Claims about unpacking: what could do harm is refused, with a sentence."""

from __future__ import annotations

import stat
import zipfile

import pytest

from dynident.errors import NotSupported, ProblemError
from dynident.models.fmu import archive
from dynident.models.fmu.archive import description_text, existing_fmu, library_in, unpacked


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
        unpacked(path)
    assert not (tmp_path.parent / "evil.txt").exists()


def test_separators_of_windows_are_understood(tmp_path):
    """As written by some Windows tools: an FMU of JModelica.org in modestpy's tests holds 'binaries\\win32\\Simple2R1C.dll'."""
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("binaries\\linux64\\m.so", "code")])
    assert (unpacked(path) / "binaries" / "linux64" / "m.so").read_text() == "code"
    assert archive.entry_names(path)[1] == "binaries/linux64/m.so"


def test_a_link_is_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), (link, "/etc/passwd")])
    with pytest.raises(ProblemError, match="is a link"):
        unpacked(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("zeros", bytes(50_000_000))])
    with pytest.raises(ProblemError, match="which no FMU needs"):
        unpacked(path)


def test_sizes_that_lie_are_found_while_unpacking(tmp_path, monkeypatch):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("data", bytes(3_000_000))])
    monkeypatch.setattr(archive, "_check", lambda *_: None)  # as if the directory had said less
    monkeypatch.setattr(archive, "MOST_BYTES", 1_000_000)
    with pytest.raises(ProblemError, match="unpacks to more than"):
        unpacked(path)


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_FILES", 5)
    path = zipped(tmp_path / "x.fmu", [(f"f{i}", "") for i in range(6)])
    with pytest.raises(ProblemError, match="holds 6 files"):
        unpacked(path)


def test_two_entries_of_one_name_are_refused(tmp_path):
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", "<a/>"), ("ModelDescription.XML", "<b/>")])
    with pytest.raises(ProblemError, match="two entries"):
        unpacked(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_entities_are_refused(tmp_path, encoding):
    text = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "boo">]><a>&b;</a>'.encode(encoding)
    path = zipped(tmp_path / "x.fmu", [("modelDescription.xml", text)])
    with pytest.raises(ProblemError, match="entities"):
        description_text(path)


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


def test_no_binary_for_this_machine_says_which_there_are(tmp_path):
    names = ["binaries/vax64/m.so", "binaries/pdp11/m.so", "sources/m.c"]
    with pytest.raises(NotSupported, match=r"code for: pdp11, vax64, and source code"):
        library_in(names, tmp_path / "m.fmu", 2, "m")
