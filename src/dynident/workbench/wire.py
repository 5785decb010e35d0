"""Wire: how do messages and columns of numbers travel, between processes and to the page?

Between processes a message is two lengths (four bytes each, big-endian), a head as JSON and a body of bytes. To the page go a
head of JSON, padded with blanks, and columns of little-endian doubles: four bytes with the head's length come first, so that
the columns begin at a multiple of eight and a browser reads them in place.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

LENGTHS = struct.Struct(">II")
LARGEST_MESSAGE = 1 << 28  # bytes; more is a sign of a stream that is out of step
Message = tuple[dict[str, Any], bytes]  # head and body
Notify = Callable[[dict[str, Any]], object]  # takes what is to be said on the way


def write_message(stream: IO[bytes], head: Mapping[str, Any], body: bytes = b"") -> None:
    """One message, whole."""
    text = to_json(head)
    stream.write(LENGTHS.pack(len(text), len(body)) + text + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> Message | None:
    """The next message; None at the end of the stream, also where it ends in the middle of one."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head, body = LENGTHS.unpack(lengths)
    if head + body > LARGEST_MESSAGE:
        return None
    text, rest = stream.read(head), stream.read(body)
    return (json.loads(text), rest) if len(text) == head and len(rest) == body else None


def to_json(data: Any) -> bytes:
    """As browsers read it: what is not finite becomes null, what is infinite a text."""
    return json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def plain(data: Any) -> Any:
    """Numbers, texts, lists and tables only."""
    if isinstance(data, (bool, str, int)) or data is None:
        return data
    if isinstance(data, float):
        return data if math.isfinite(data) else None if math.isnan(data) else "inf" if data > 0 else "-inf"
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple, set)):
        return [plain(value) for value in data]
    if hasattr(data, "tolist"):  # an array or a number of NumPy
        return plain(data.tolist())
    return str(data)


def pack_columns(head: Mapping[str, Any], columns: Sequence[np.ndarray]) -> bytes:
    """A head and columns of equal length, as the page takes them."""
    text = to_json({**head, "rows": len(columns[0]) if columns else 0, "columns": len(columns)})
    text += b" " * (-(len(text) + 4) % 8)
    return struct.pack("<I", len(text)) + text + b"".join(column.astype("<f8").tobytes() for column in columns)
