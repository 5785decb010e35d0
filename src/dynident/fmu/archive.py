"""Archive: how does an FMU, a zip file from somewhere else, come onto the disk without doing harm, stay as it was, and leave?

Each process unpacks into folders of its own and removes them at its end. A worker that is killed cannot; but then nobody
holds the lock in its folder any more, and the next process to unpack or to end, the one that started the worker at the
latest, removes the folder.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import lzma
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import util
from pathlib import Path, PurePosixPath
from typing import IO

from dynident._util.operating_system import is_own, library_suffix, open_files_can_be_removed, system, try_lock
from dynident.errors import DynidentError, NotSupported, ProblemError

MAX_BYTES = 4 * 2**30  # unpacked; the largest FMUs with tables and licences stay below 1 GB
MAX_FILES = 50_000
MAX_COMPRESSION = 200  # of unpacked to packed size; source code reaches 20
SMALL_BYTES = 2**20  # bytes: below this the ratio says nothing
DESCRIPTION = "modelDescription.xml"
MAX_XML_BYTES = 256 * 2**20  # of the description
ENCODINGS = ("utf-8", "utf8", "utf-16", "utf-16le", "utf-16be", "iso-8859-1", "iso8859-1", "latin-1", "latin1",
             "windows-1252", "us-ascii", "ascii")  # in which an entity can be seen without decoding; UTF-7 is not one
PREFIX, LOCK = "dynident-fmu-", ".in-use"  # of a folder's name; of the lock in it
_snapshots: dict[tuple[str, str], Path] = {}  # by path and digest
_locks: dict[Path, IO[bytes]] = {}  # the locks of this process's own folders


def existing_fmu(path: str | Path) -> Path:
    file = Path(path).expanduser()
    if os.path.isdir(file):
        raise ProblemError(f"{file} is a folder, not an FMU; give the .fmu file.")
    if not os.path.isfile(file):
        near = sorted(p.name for p in file.parent.glob("*.fmu")) if os.path.isdir(file.parent) else []
        raise ProblemError(f"{file} does not exist.{f' There are: {chr(44).join(near)}.' if near else ''}")
    try:
        file.open("rb").close()
    except OSError as error:
        raise ProblemError(f"{file} cannot be opened: {error.strerror or error}.") from error
    if not zipfile.is_zipfile(file):
        raise ProblemError(f"{file} is not an FMU: it is not a zip file. Export it again, or check the download.")
    return file.resolve()


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def description_text(path: Path) -> bytes:
    """The model description, checked for what could harm a reader of XML."""
    return xml_text(path, DESCRIPTION)


def xml_text(path: Path, entry: str) -> bytes:
    """An entry of the archive that is XML, checked for what could harm a reader."""
    with _open(path) as archive:
        _refuse_harmful(path, archive)
        by_name = {_slashed(info.filename): info for info in archive.infolist()}
        if entry not in by_name:
            raise ProblemError(f"{path} is not an FMU: it holds no {entry}.")
        info = by_name[entry]
        if info.file_size > MAX_XML_BYTES:
            raise ProblemError(f"{path}: {entry} has {info.file_size} bytes; more than {MAX_XML_BYTES} are refused.")
        with _named_errors(path, entry):
            text = archive.read(info)
    head = text.replace(b"\0", b"")  # an entity hides in UTF-16 as well
    if not _is_plain_xml(head):
        raise ProblemError(f"{path}: {entry} is not XML in UTF-8, UTF-16, Latin-1 or ASCII; it is refused.")
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        raise ProblemError(f"{path}: {entry} declares XML entities, which no FMU needs; it is refused.")
    return text


def _is_plain_xml(head: bytes) -> bool:
    """Whether this begins as XML does, in an encoding that keeps the letters of ASCII."""
    head = head.removeprefix(b"\xef\xbb\xbf").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff").lstrip()
    declaration = head[:head.find(b"?>") + 2] if head.startswith(b"<?xml") else b""
    encodings = re.findall(rb"encoding\s*=\s*[\"']([^\"']*)[\"']", declaration)
    return head.startswith(b"<") and len(encodings) == declaration.count(b"encoding") and all(
        name.decode("latin-1").lower() in ENCODINGS for name in encodings)


def extract(path: Path) -> Path:
    """A folder with the content of the FMU, made once per process and removed at its end."""
    return _extract(str(path), digest_of(path))


@functools.lru_cache(maxsize=64)
def _extract(path: str, digest: str) -> Path:
    with _open(Path(path)) as archive:
        _refuse_harmful(Path(path), archive)
        with _named_errors(Path(path)):
            folder = new_folder(digest[:8])
        try:
            _write_entries(Path(path), archive, folder / "content")
        except BaseException:
            remove_folder(folder)
            raise
    return folder / "content"


def _write_entries(path: Path, archive: zipfile.ZipFile, folder: Path) -> None:
    left = MAX_BYTES
    for info in _distinct_entries(archive):
        target = folder / _slashed(info.filename)
        with _named_errors(path, info.filename):
            if _slashed(info.filename).endswith("/"):
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, target.open("xb") as sink:
                while block := source.read(2**20):  # the stated sizes may lie
                    left -= len(block)
                    if left < 0:
                        raise ProblemError(f"{path}: unpacks to more than {MAX_BYTES} bytes; it is refused.")
                    sink.write(block)


@contextmanager
def _named_errors(path: Path, entry: str = "") -> Iterator[None]:
    """What a damaged or strange archive, or a full disk, does to a reader, as a sentence about the file."""
    try:
        yield
    except DynidentError:
        raise
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError, OSError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        what = f"'{entry}' in {path}" if entry else str(path)
        raise ProblemError(f"{what} cannot be unpacked: {reason.rstrip('.')}. Check the download, or export the FMU "
                           "again.") from error


def _open(path: Path) -> zipfile.ZipFile:
    with _named_errors(path):
        return zipfile.ZipFile(path)


def _refuse_harmful(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse names that leave the folder, links, names that meet, and absurd sizes."""
    entries = archive.infolist()
    faults = []
    if len(entries) > MAX_FILES:
        faults.append(f"{path}: holds {len(entries)} files; more than {MAX_FILES} are refused.")
    total = sum(info.file_size for info in entries)
    packed = sum(info.compress_size for info in entries)
    if total > MAX_BYTES or (total > SMALL_BYTES and total > MAX_COMPRESSION * max(packed, 1)):
        faults.append(f"{path}: unpacks from {packed} to {total} bytes, which no FMU needs; it is refused.")
    seen: dict[str, zipfile.ZipInfo] = {}
    for info in entries[:MAX_FILES]:
        name = PurePosixPath(_slashed(info.filename))
        if name.is_absolute() or ".." in name.parts or (name.parts and ":" in name.parts[0]):
            faults.append(f"{path}: the entry '{info.filename}' would be written outside of the folder; it is refused.")
        if stat.S_ISLNK(info.external_attr >> 16):
            faults.append(f"{path}: the entry '{info.filename}' is a link; links are refused.")
        if info.flag_bits & 0x1:
            faults.append(f"{path}: the entry '{info.filename}' is encrypted.")
        folded = str(name).casefold()
        if folded in seen and not _slashed(info.filename).endswith("/") and not _same_entry(archive, seen[folded], info):
            faults.append(f"{path}: two entries are called '{info.filename}', and are not the same.")
        seen.setdefault(folded, info)
    if faults:
        raise ProblemError(faults[:20])


def _same_entry(archive: zipfile.ZipFile, one: zipfile.ZipInfo, other: zipfile.ZipInfo) -> bool:
    """Whether two entries are one file that was packed twice, as some build tools do."""
    if one.filename != other.filename or one.file_size != other.file_size or one.CRC != other.CRC:
        return False
    try:
        with archive.open(one) as first, archive.open(other) as second:
            while block := first.read(2**20):
                if block != second.read(len(block)):
                    return False
            return not second.read(1)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError, OSError):
        return False


def _distinct_entries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Each file once, also where it was packed twice."""
    return list({_slashed(info.filename): info for info in reversed(archive.infolist())}.values())[::-1]


def platform_folders() -> tuple[str, str, str]:
    """Names of this machine's folder of binaries in FMI 2.0 and 3.0, and the suffix of a library."""
    machine = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64",
               "i386": "x86", "i686": "x86"}.get(platform.machine().lower(), platform.machine().lower())
    bits = "64" if sys.maxsize > 2**32 else "32"
    folders = {"windows": (f"win{bits}", f"{machine}-windows"), "macos": ("darwin64", f"{machine}-darwin"),
               "linux": (f"linux{bits}", f"{machine}-linux")}
    return *folders[system()], library_suffix()


def find_library(names: list[str], path: Path, version: int, identifier: str) -> str:
    """The entry that holds the code for this machine, or an error that says for which machines there is code."""
    first, second, suffix = platform_folders()
    folders = (first,) if version == 2 else (second,)
    if version == 2 and platform.machine().lower() in ("arm64", "aarch64"):
        folders = (second, *folders) if system() == "macos" else (second, f"{second}-gnu")  # type: ignore[assignment]
    for folder in folders:
        if (entry := f"binaries/{folder}/{identifier}{suffix}") in names:
            return entry
    there = sorted({name.split("/")[1] for name in names if name.startswith("binaries/") and name.count("/") >= 2})
    sources = any(name.startswith("sources/") and name.endswith((".c", ".cpp")) for name in names)
    here = [folder for folder in folders if folder in there]
    if here:
        files = sorted(n.split("/")[-1] for n in names if n.startswith(f"binaries/{here[0]}/") and not n.endswith("/"))
        raise NotSupported(f"{path.name} has a folder for this machine ({here[0]}), but no {identifier}{suffix} in it: "
                           f"{', '.join(files) or 'it is empty'}. Export it again.")
    offered = f"It has code for: {', '.join(there)}" if there else "It has no binary at all"
    extra = ", and source code in a language that is not compiled here" if sources else ""
    raise NotSupported(f"{path.name} has no code for this machine ({' or '.join(folders)}). {offered}{extra}. "
                       "Export it for this platform.")


def entry_names(path: Path) -> list[str]:
    with _open(path) as archive:
        return [_slashed(name) for name in archive.namelist()]


def _slashed(name: str) -> str:
    """Some tools on Windows write their own separator, which no FMU uses otherwise."""
    return name.replace("\\", "/")


def snapshot(path: Path, digest: str) -> Path:
    """A copy of the file as it was when its model was made, under its own name, until the process ends; refuses a file
    that is no longer the one with this digest."""
    if (str(path), digest) not in _snapshots:
        _snapshots[str(path), digest] = _copy(path, digest)
    return _snapshots[str(path), digest]


def restore(path: Path, copy: Path, digest: str) -> Path:
    """Where to make the same model in another process: the file, or where that is no longer the same, its copy.

    A copy that can be seen from here serves both processes.
    """
    if _has_digest(copy, digest):
        own = path if _has_digest(path, digest) else copy
        _snapshots.setdefault((str(own), digest), copy)
        return own
    if _has_digest(path, digest):
        return path
    raise ProblemError(f"{path} is gone or has changed since its model was made. Put the file back, or make the model again.")


def _has_digest(path: Path, digest: str) -> bool:
    try:
        return digest_of(path) == digest
    except OSError:
        return False


def _copy(path: Path, digest: str) -> Path:
    copy = new_folder(digest[:8]) / path.name
    try:
        shutil.copyfile(path, copy)
    except OSError as error:
        raise ProblemError(f"{path} cannot be read any more, though its model was made from it: {error.strerror}. Put the "
                           "file back, or make the model again from another.") from None
    if digest_of(copy) != digest:
        raise ProblemError(f"{path} has changed since its model was made. Make the model again with FmuModel(...), or put "
                           "the old file back.")
    return copy


# folders that are unpacked into, each with a lock as long as its process lives


def new_folder(label: str) -> Path:
    """An empty folder that is gone when this process is."""
    remove_abandoned()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{label}-"))
        lock = (folder / LOCK).open("wb")
        if try_lock(lock) is not False and (folder / LOCK).exists():
            break
        lock.close()  # somebody took it for abandoned between the two lines above
    _locks[folder] = lock
    util.Finalize(None, remove_folder, (folder,), exitpriority=0)  # unlike atexit, this runs in workers that end by themselves
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder of this process."""
    lock = _locks.pop(folder, None)
    if lock is not None:
        if not open_files_can_be_removed():
            lock.close()
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def remove_abandoned() -> None:
    """Remove folders of this user whose processes have ended without doing so."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder not in _locks and not folder.is_symlink() and is_own(folder) and (folder / LOCK).is_file():
                _remove_unless_locked(folder)


def _remove_unless_locked(folder: Path) -> None:
    if not open_files_can_be_removed():
        (folder / LOCK).unlink()  # fails while its process has it open
        shutil.rmtree(folder, ignore_errors=True)
        return
    with (folder / LOCK).open("rb") as lock:
        if try_lock(lock):  # on a disk that knows no locks, nobody's folder is taken for abandoned
            shutil.rmtree(folder, ignore_errors=True)


atexit.register(remove_abandoned)  # the workers of this process have ended before it
