"""Payload: how does what many tasks share reach other processes (a broadcast), and is unpacked there only once?

It is serialised once and travels with each task under the hash of its content. Each process keeps what it has unpacked
by that hash, so that a second task costs no more than the copying of bytes. Nothing compiled travels: a model is text,
built again from its definition, and finds its compiled kernels in the cache on disk.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

CACHED = 4  # payloads per process; a run has one or two

_unpacked: OrderedDict[str, Any] = OrderedDict()
casadi_lock = threading.RLock()  # CasADi crashes where two threads of a process use it: they take turns


@dataclass(frozen=True)
class Payload:
    """Content of all tasks, serialised: bytes and their hash."""

    digest: str
    content: bytes

    def unpack(self) -> Any:
        """The content; the same object for every task of this process."""
        with casadi_lock:
            if self.digest not in _unpacked:
                _unpacked[self.digest] = pickle.loads(self.content)
                while len(_unpacked) > CACHED:
                    _unpacked.popitem(last=False)
            _unpacked.move_to_end(self.digest)
            return _unpacked[self.digest]


def pack(content: Any) -> Payload:
    """Serialise once what all tasks share."""
    written = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return Payload(hashlib.sha256(written).hexdigest(), written)
