"""ROS bags: numbers in the messages of ROS 1 (.bag) and ROS 2 (.mcap, .db3) recordings.

A signal is called by its topic and field, "/odom.twist.twist.linear.x"; an item of an array "/imu.data[0]", or by the name that
the message gives it, "/joint_states.position[elbow]". Time is `header.stamp` where every topic that is asked for has one, else
that at which the message was recorded, and a note says which; `time="header.stamp"` or `time="log_time"` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.columns import ReadRequest
from dynident.io.readers.dates import printed_date
from dynident.io.readers.own_clocks import CLOCK, ClockedSignals, ClockedValues, clocked_columns
from dynident.io.readers.table_columns import TableColumns

INSTALL = "reading a ROS bag needs rosbags, which is not installed: pip install 'dynident[ros]'."
STAMP, LOGGED = "header.stamp", "log_time"
LONGEST_ARRAY = 100  # items of an array that become signals; images and clouds are none
_PART = re.compile(r"([^.\[\]]+)|\[([^\]]+)\]")


@dataclass(frozen=True)
class Topics:
    """What a bag holds: by header the topic and the path of its field; and the topics whose messages have a stamp."""

    places: Mapping[str, tuple[str, str]]
    stamped: frozenset[str]


def ros_columns(path: Path, request: ReadRequest) -> TableColumns:
    topics = _topics(path)
    if request.time not in (CLOCK, STAMP, LOGGED):
        raise ProblemError(f"{path.name}: time = {request.time!r}; the messages of a bag have {STAMP} and {LOGGED}. Say one of "
                           "the two, or leave time out.")
    chosen: dict[str, Any] = {"clock": request.time, "begin": 0}

    def samples(headers: Sequence[str]) -> dict[str, ClockedValues]:
        wanted = {topics.places[header][0] for header in headers}
        without = sorted(wanted - topics.stamped)
        if request.time == STAMP and without:
            raise ProblemError(f"{path.name}: messages of {', '.join(without)} have no {STAMP}; use time=\"{LOGGED}\".")
        stamped = request.time == STAMP or (request.time == CLOCK and not without)
        found = _values(path, {header: topics.places[header] for header in headers}, stamped)
        begins = [int(each.nanoseconds[0]) for each in found.values() if each.nanoseconds.size]
        chosen.update(clock=STAMP if stamped else LOGGED, begin=min(begins, default=0))
        return found

    def begins() -> str:
        return f"the first sample, near {printed_date(chosen['begin'], True)}, by {chosen['clock']}"

    table = clocked_columns(ClockedSignals(path.name, dict.fromkeys(topics.places, ""), samples, begins=begins), request)
    return replace(table, headers=[request.time, *table.headers[1:]])


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise NotSupported(f"{path.name}: {INSTALL}") from None
    beside = path.suffix == ".db3" and (path.parent / "metadata.yaml").is_file()
    try:
        with AnyReader([path.parent if beside else path], default_typestore=get_typestore(Stores.LATEST)) as reader:
            yield reader
    except (ProblemError, NotSupported, KeyboardInterrupt):
        raise
    except Exception as error:  # rosbags raises many kinds on a damaged file
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ProblemError(f"{path.name} is not a readable ROS bag: {said}.") from error


def _topics(path: Path) -> Topics:
    """Headers from the first message of each topic."""
    places: dict[str, tuple[str, str]] = {}
    stamped = set()
    with _opened(path) as reader:
        for connection in reader.connections:
            for _, _, raw in reader.messages([connection]):
                message = reader.deserialize(raw, connection.msgtype)
                if _stamp(message) is not None:
                    stamped.add(connection.topic)
                for field in _leaves(message):
                    places[f"{connection.topic}.{field}"] = (connection.topic, field)
                break
    return Topics(places, frozenset(stamped))


def _leaves(message: Any, before: str = "") -> Iterator[str]:
    """Paths of all numbers in a message."""
    names = getattr(message, "name", None)
    for field in fields(message):
        value = getattr(message, field.name)
        path = f"{before}{field.name}"
        if isinstance(value, (bool, int, float, np.number)):
            yield path
        elif is_dataclass(value):
            yield from _leaves(value, f"{path}.")
        elif isinstance(value, (list, tuple, np.ndarray)) and 0 < len(value) <= LONGEST_ARRAY and isinstance(
                value[0], (bool, int, float, np.number)):
            named = isinstance(names, list) and len(names) == len(value) == len(set(names))
            yield from (f"{path}[{item}]" for item in (names if named else range(len(value))))  # type: ignore[union-attr]


def _number(message: Any, path: str) -> float:
    """The number at a path of a message; NaN where this one has none."""
    value, owner = message, message
    for name, item in _PART.findall(path):
        if name:
            owner, value = value, getattr(value, name)
            continue
        names = getattr(owner, "name", None)
        place = names.index(item) if isinstance(names, list) and item in names else int(item) if item.isdigit() else -1
        if not 0 <= place < len(value):
            return float("nan")
        value = value[place]
    return float(value)


def _stamp(message: Any) -> int | None:
    stamp = getattr(getattr(message, "header", None), "stamp", None)
    return None if stamp is None else int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def _values(path: Path, wanted: Mapping[str, tuple[str, str]], stamped: bool) -> dict[str, ClockedValues]:
    times: dict[str, list[int]] = {topic: [] for topic, _ in wanted.values()}
    numbers: dict[str, list[float]] = {header: [] for header in wanted}
    with _opened(path) as reader:
        connections = [each for each in reader.connections if each.topic in times]
        for connection, logged, raw in reader.messages(connections):
            message = reader.deserialize(raw, connection.msgtype)
            stamp = _stamp(message) if stamped else logged
            times[connection.topic].append(int(logged if stamp is None else stamp))
            for header, (topic, field) in wanted.items():
                if topic == connection.topic:
                    numbers[header].append(_number(message, field))
    return {header: ClockedValues(np.array(times[topic], dtype=np.int64), np.array(numbers[header]))
            for header, (topic, _) in wanted.items()}
