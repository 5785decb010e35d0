"""Measurement files: channels of MF4 (MDF) and TDMS files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.array_files import columns_of
from dynident.io.readers.columns import ReadRequest
from dynident.io.readers.own_clocks import CLOCK, ClockedSignals, ClockedValues, clocked_columns
from dynident.io.readers.table_columns import TableColumns

INSTALL_MF4 = "reading an MDF file needs asammdf, which is not installed: pip install 'dynident[mf4]'."
INSTALL_TDMS = "reading a TDMS file needs nptdms, which is not installed: pip install 'dynident[tdms]'."


def mf4_columns(path: Path, request: ReadRequest) -> TableColumns:
    """Channels by their name; one whose name occurs in several groups by "2/name", groups counted from 0."""
    try:
        from asammdf import MDF
    except ImportError:
        raise NotSupported(f"{path.name}: {INSTALL_MF4}") from None
    try:
        with MDF(path) as file:
            places, units = _mf4_channels(file)
    except Exception as error:  # asammdf raises many kinds on a damaged file
        raise ProblemError(f"{path.name} is not a readable MDF file: {_first_line(error)}") from error

    def samples(headers: Sequence[str]) -> dict[str, ClockedValues]:
        found = {}
        with MDF(path) as file:
            for header in headers:
                try:
                    signal = file.get(group=places[header][0], index=places[header][1])
                except Exception as error:
                    raise ProblemError(f"{path.name}: channel '{header}' is not readable: {_first_line(error)}") from error
                found[header] = ClockedValues.of_seconds(signal.timestamps, _only_numbers(path.name, header, signal.samples))
        return found

    return clocked_columns(ClockedSignals(path.name, units, samples), request)


def _mf4_channels(file: Any) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Where each channel stands, and its unit, by header; clocks are no channels."""
    clocks = file.masters_db
    listed = [(name, g, i) for name, where in file.channels_db.items() for g, i in where if clocks.get(g) != i]
    often = Counter(name for name, _, _ in listed)
    headers = {(name if often[name] == 1 else f"{g}/{name}"): (g, i) for name, g, i in listed}
    return headers, {header: str(file.get_channel_unit(group=g, index=i) or "") for header, (g, i) in headers.items()}


def tdms_columns(path: Path, request: ReadRequest) -> TableColumns:
    """Channels by their name, or by "group/name" where that occurs several times.

    A waveform brings its times along; other channels need one of them as `time`.
    """
    try:
        import nptdms
    except ImportError:
        raise NotSupported(f"{path.name}: {INSTALL_TDMS}") from None
    try:
        file = nptdms.TdmsFile.read(path)
        channels = [(group.name, channel) for group in file.groups() for channel in group.channels()]
    except Exception as error:  # nptdms raises many kinds on a damaged file
        raise ProblemError(f"{path.name} is not a readable TDMS file: {_first_line(error)}") from error
    often = Counter(channel.name for _, channel in channels)
    by_header = {(channel.name if often[channel.name] == 1 else f"{group}/{channel.name}"): channel
                 for group, channel in channels}
    units = {header: str(channel.properties.get("unit_string", "")) for header, channel in by_header.items()}
    if request.time not in (CLOCK, 0) or CLOCK in by_header:
        return columns_of(path.name, {header: channel[:] for header, channel in by_header.items()}, units=units)

    def samples(headers: Sequence[str]) -> dict[str, ClockedValues]:
        silent = [header for header in headers if "wf_increment" not in by_header[header].properties]
        if silent:
            raise ProblemError(f"{path.name}: channel '{silent[0]}' is no waveform and brings no times along. Say which "
                               "channel holds them with time=\"...\", or give sample_time.")
        return {header: ClockedValues.of_seconds(by_header[header].time_track(), _only_numbers(
            path.name, header, by_header[header][:])) for header in headers}

    return clocked_columns(ClockedSignals(path.name, units, samples), request)


def _only_numbers(source: str, header: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        held = "text" if array.dtype.kind in "USO" else str(array.dtype)
        raise ProblemError(f"{source}: channel '{header}' holds {held}, not numbers.")
    return array.astype(float)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."
