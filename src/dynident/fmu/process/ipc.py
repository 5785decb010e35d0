"""IPC: messages between a session and the process in which a foreign FMU runs; numbers and text, no code."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

HEAD = struct.Struct("<QQ")  # lengths of the text and of the numbers


@dataclass(frozen=True, eq=False)
class ReceivedInputs:
    """Inputs along a record as they arrive on the other side."""

    time: np.ndarray
    substeps: np.ndarray
    u_begin: np.ndarray
    u_end: np.ndarray
    u_node: np.ndarray
    output_mask: np.ndarray
    finite_mask: np.ndarray


INPUT_ARRAYS = ("time", "substeps", "u_begin", "u_end", "u_node", "output_mask", "finite_mask")


def send(stream: BinaryIO, message: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    whole = {**message, "arrays": [(a.dtype.str, a.shape) for a in arrays]}
    text = json.dumps(whole).encode()
    body = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)
    stream.write(HEAD.pack(len(text), len(body)) + text + body)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The next message; EOFError where the other side is gone."""
    head = _read_exactly(stream, HEAD.size)
    text, body = (_read_exactly(stream, n) for n in HEAD.unpack(head))
    message = json.loads(text)
    arrays, place = [], 0
    for kind, shape in message.pop("arrays"):
        count = int(np.prod(shape))
        array = np.frombuffer(body, np.dtype(kind), count, place).reshape(shape)
        arrays.append(array.copy())
        place += array.nbytes
    return message, arrays


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
