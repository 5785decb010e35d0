"""A crash or a full disk leaves the old files as they were; two runs never share a folder."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from dynident._util import atomic
from dynident._util.atomic import (
    LOCK,
    InUse,
    NotWritten,
    atomic_replace,
    atomic_write,
    exclusive,
    finish_replacing,
    is_half_replaced,
)


def disk_full(*_args, **_kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failed_write_keeps_the_old_file_and_leaves_no_litter(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="the writer broke"), atomic_write(path) as aside:
        aside.write_text("half of the n")
        raise RuntimeError("the writer broke")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_is_said_in_a_sentence_and_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(atomic, "_flush", disk_full)
    with pytest.raises(NotWritten, match=r"a\.txt could not be written: No space left on device"), \
            atomic_write(path) as aside:
        aside.write_text("new")
    assert path.read_text() == "old"


def test_files_are_replaced_together(tmp_path):
    (tmp_path / "kept.txt").write_text("the user's own")
    (tmp_path / "a.txt").write_text("old")
    with atomic_replace(tmp_path) as aside:
        (aside / "a.txt").write_text("new")
        (aside / "b.txt").write_text("new")
        assert (tmp_path / "a.txt").read_text() == "old"
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {
        "kept.txt": "the user's own", "a.txt": "new", "b.txt": "new"}


@pytest.mark.parametrize("files_written", [0, 1, 2])
def test_a_full_disk_at_any_file_leaves_the_whole_old_set(tmp_path, files_written):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("old")
    with pytest.raises(NotWritten, match="What was there before is intact"), atomic_replace(tmp_path) as aside:
        for name in ("a.txt", "b.txt")[:files_written]:
            (aside / name).write_text("new")
        disk_full()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.txt": "old", "b.txt": "old"}


def test_a_move_that_was_cut_short_is_finished_by_the_next(tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("old")
    moves = []

    def killed_at_the_second_move(source, target):
        moves.append(target)
        if len(moves) == 2:
            raise KeyboardInterrupt
        os.rename(source, target)

    monkeypatch.setattr(atomic.os, "replace", killed_at_the_second_move)
    with pytest.raises(KeyboardInterrupt), atomic_replace(tmp_path) as aside:
        for name in ("a.txt", "b.txt"):
            (aside / name).write_text("new")
    monkeypatch.undo()
    assert is_half_replaced(tmp_path)
    finish_replacing(tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.txt": "new", "b.txt": "new"}


def test_second_run_in_the_same_process_refuses_and_the_first_goes_on(tmp_path):
    with exclusive(tmp_path):
        with pytest.raises(InUse, match=f"in use by process {os.getpid()}"), exclusive(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()
    with exclusive(tmp_path):
        pass


def test_second_run_refuses_while_another_process_is_at_work_and_takes_over_when_it_was_killed(tmp_path):
    code = "import sys, time; from dynident._util.atomic import exclusive\n" \
           "with exclusive(sys.argv[1]): print('holding', flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "holding\n"
        with pytest.raises(InUse, match=f"in use by process {other.pid}"), exclusive(tmp_path):
            pass
    finally:
        other.kill()
        other.wait()
    assert (tmp_path / LOCK).exists()  # nobody cleaned up after it
    with exclusive(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not list(tmp_path.iterdir())


def test_lock_of_another_machine_is_respected_and_the_way_out_is_named(tmp_path):
    (tmp_path / LOCK).write_text(json.dumps({"pid": 1, "host": socket.gethostname() + "-other"}))
    with pytest.raises(InUse, match=r"If no run is at work there, delete .*\.lock"), exclusive(tmp_path):
        pass


def test_unreadable_lock_is_not_taken_for_a_dead_one(tmp_path):
    (tmp_path / LOCK).write_text("")
    with pytest.raises(InUse, match="another process"), exclusive(tmp_path):
        pass


def test_lock_left_by_a_dead_process_with_our_own_number_is_taken_over(tmp_path):
    (tmp_path / LOCK).write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    begin = time.monotonic()
    with exclusive(tmp_path):
        assert time.monotonic() - begin < 1


def test_folder_made_in_vain_is_taken_away_but_not_one_that_was_there(tmp_path):
    for folder, stays in ((tmp_path / "new", False), (tmp_path / "there", True)):
        if stays:
            folder.mkdir()
        with pytest.raises(RuntimeError), exclusive(folder):
            raise RuntimeError
        assert folder.exists() == stays
