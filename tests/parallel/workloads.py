"""Functions that tests hand to other processes; they live here so that these can import them."""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import time
from pathlib import Path


def plus_square(common, x):
    return common + x * x


def dies_the_first_time(folder, x, deadly):
    """Kills its own worker at one task, once; a note on disk tells the second attempt from the first."""
    note = Path(folder, "died")
    if x == deadly and not note.exists():
        note.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def always_dies(common, x, deadly):
    if x == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def hangs_in_a_temporary_folder(common, x):
    with tempfile.TemporaryDirectory():
        Path(common, "begun").write_text("")
        time.sleep(60)


def hangs(common, x, forever):
    if x == forever:
        time.sleep(600)
    return x


def unpacked_here(common):
    """Which object the payload became in this process."""
    return os.getpid(), id(common)


def signals_of_a_worker():
    """Whether Ctrl-C was blocked before this process ran its first line, and whether SIGTERM ends it at once."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def computes_in_one_call(begun):
    """A compiled call of a minute."""
    Path(begun).write_text("")
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**8)
