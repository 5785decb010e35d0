"""`dynident watch`: states, parameters and consistency while samples arrive."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from dynident._util.harmless_text import clean
from dynident._util.operating_system import can_be_read, terminate_like_interrupt
from dynident._util.progress import BETWEEN_LINES
from dynident.cli.common import NOT_GOOD, AllowCode, AllowOutside, ProblemPath, Stop, page, print_error, read
from dynident.errors import NotSupported, ProblemError

if TYPE_CHECKING:
    from dynident.io.readers.columns import ReadRequest
    from dynident.io.readers.stream import Lines
    from dynident.kalman.online import FilterEstimate, OnlineFilter
    from dynident.problem.problem import Problem

WATCH_TABLE_WIDTH = 52  # columns of the table at a terminal, so that what stands above and below it fits a line
REFRESH = 0.1  # seconds between two pictures at a terminal
BETWEEN_SAVES = 5.0  # seconds
POLL_SECONDS = 0.05  # seconds to wait for more lines
READ_BYTES = 65_536  # bytes read from a pipe at once
INNOVATION_MEMORY = 0.98  # share of the past in the running mean of the innovations: some 50 samples
SUSPICIOUS = 3.0  # mean squared innovation over its variance from which on the filter is called too sure

From = Annotated[str, typer.Option("--from", metavar="stdin|FILE", help=(
    "Where lines come from; the first names the columns."))]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="At the end of the file, wait for more.")]
State = Annotated[Path | None, typer.Option("--state", metavar="FILE", show_default=False, help=(
    "Where the filter's state is kept and resumed from; beside the problem file unless said."))]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start again: do not resume.")]


def run(problem: ProblemPath, source: From = "stdin", follow: Follow = False, state: State = None, fresh: Fresh = False,
        allow_outside: AllowOutside = False, allow_code: AllowCode = False) -> None:
    """Filter samples as they arrive and show what is known; a malformed line is reported, skipped and counted.

    The filter is the file's [method] if that is kalman or moving_horizon. Its state is saved every few seconds and at
    the end, and resumed by the next run.

    Example: dynident watch problem.toml --from drive.csv --follow
    """
    from dynident.io.readers.stream import Lines
    from dynident.kalman.method import FilterMethod, KalmanMethod
    from dynident.methods.presets import method_from

    said = read(problem, allow_outside, allow_code)
    method: Any = method_from(said.method) if said.method else KalmanMethod()
    if not isinstance(method, FilterMethod):
        raise NotSupported(f"watch needs a filter, but {problem} says kind = \"{said.method.get('kind')}\". Write "
                           "kind = \"kalman\" under [method].")
    kept = state or problem.with_suffix(".watch.npz")
    if kept.is_dir():
        raise ProblemError(f"--state {kept} is a folder; name a file in it.")
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(kept.parent, os.W_OK):
        raise ProblemError(f"--state {kept}: nothing can be written into {kept.parent}; name another file.")
    online = method.start(said.problem)
    if kept.exists() and not fresh:
        online.resume(kept)
        print(f"Resumed from {kept} at t = {online.time:g}.", file=sys.stderr)
    lines = Lines(request_of(problem, said.problem), print_error)
    _watch(online, lines, _arriving(source, follow), kept)


def request_of(path: Path, problem: Problem) -> ReadRequest:
    """The columns that the problem file gives time, inputs and outputs in its first experiment, and the units in which
    the problem works."""
    from dynident.io.problem_file.read import parse_file
    from dynident.io.readers.columns import ReadRequest

    table, record, model = parse_file(path)[2]["experiment"][0], problem.experiments[0], problem.model

    def column(group: str, name: str) -> str | int:
        said = table.get(group, {})
        entry = said.get(name, name) if isinstance(said, dict) else name
        return entry.get("column", name) if isinstance(entry, dict) else entry

    if "time" not in table:
        raise NotSupported(f"watch needs to know when a sample was taken, but the first experiment of {path} names no "
                           "column of time. Write time = \"t\" with the name of one.")
    outputs = {name: column("outputs", name) for name in model.outputs if name in record.outputs}
    units = {name: unit for name, unit in model.units.items() if name in (*model.inputs, *outputs)} | {**record.units}
    return ReadRequest(table["time"], {name: column("inputs", name) for name in model.inputs}, outputs, hold="zero",
                   initial={}, start=None, name=None, units=units, time_unit=table.get("time_unit"),
                   sample_time=None)


def _arriving(source: str, follow: bool) -> Iterator[str | None]:
    """Lines as they come, and None while there is none."""
    if source in ("stdin", "-"):
        yield from _piped(sys.stdin)
        return
    with open(source, encoding="utf-8", errors="replace") as file:
        part = ""
        while True:
            line = file.readline()
            if line.endswith("\n"):
                yield part + line
                part = ""
            elif follow:
                part += line  # half a line: whoever writes it is not done
                time.sleep(POLL_SECONDS)
                yield None
            else:
                if part + line:
                    yield part + line
                return


def _piped(stream: TextIO) -> Iterator[str | None]:
    """Lines of a pipe; the picture must not stand still until the next one."""
    descriptor, part = stream.fileno(), b""
    while True:
        if not can_be_read(descriptor, POLL_SECONDS):
            yield None
            continue
        read = os.read(descriptor, READ_BYTES)
        if not read:
            break
        *whole, part = (part + read).split(b"\n")
        yield from (line.decode("utf-8", "replace") + "\n" for line in whole)
    if part:
        yield part.decode("utf-8", "replace")


def _watch(online: OnlineFilter, lines: Lines, text: Iterator[str | None], kept: Path) -> None:
    from dynident.kalman.backend import FilterStopped

    count, mean, saved, known = 0, None, time.monotonic(), None
    resumed = online.time
    terminate_like_interrupt()
    with _display() as show:
        try:
            for sample in lines.samples(text, after=online.time):
                if sample is not None:
                    known = online.update(sample.time, sample.inputs, sample.outputs)
                    count += 1
                    mean = _averaged(mean, known)
                if known is None:
                    continue
                show(known, count, lines.skipped, mean, False)
                if time.monotonic() - saved > BETWEEN_SAVES:
                    online.save(kept)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            pass
        except FilterStopped as stop:
            print_error(str(stop))
            raise Stop(NOT_GOOD) from None
        if known is not None:
            show(known, count, lines.skipped, mean, True)
            online.save(kept)
    if lines.passed:
        were = "sample was" if lines.passed == 1 else "samples were"
        print_error(f"{lines.passed} {were} passed over, up to t = {resumed:g}: the filter that was resumed has seen that "
                    "time. If this is another record, whose clock started again, say --fresh.")
    where = f"; the filter's state is in {kept}" if kept.exists() else ""
    print(f"{counted(count, lines.skipped)}{where}.")


def _averaged(mean: float | None, known: FilterEstimate) -> float | None:
    """The running mean of the squared innovations, with one more sample."""
    seen = sum(1 for value in known.whitened_innovations.values() if value == value)
    if not seen:
        return mean
    size = known.nis / seen
    return size if mean is None else INNOVATION_MEMORY * mean + (1 - INNOVATION_MEMORY) * size


class _display:
    """A table that is drawn over itself at a terminal, lines elsewhere."""

    def __enter__(self) -> Callable[..., None]:
        self.last, self.live = 0.0, None
        self.shown: FilterEstimate | None = None
        if sys.stdout.isatty():
            from rich.live import Live

            self.live = Live(console=page(), auto_refresh=False)
            self.live.start()
        return self.show

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, known: FilterEstimate, count: int, skipped: int, mean: float | None, last: bool) -> None:
        now = time.monotonic()
        if known is self.shown or (not last and now - self.last < (REFRESH if self.live else BETWEEN_LINES)):
            return
        self.last, self.shown = now, known
        if self.live is None:
            print(f"{known}; {verdict(mean)}", flush=True)
        else:
            self.live.update(picture(known, count, skipped, mean), refresh=True)


def counted(samples: int, skipped: int) -> str:
    return f"{samples} sample{'s' * (samples != 1)}, {skipped} line{'s' * (skipped != 1)} skipped"


def verdict(mean: float | None) -> str:
    if mean is None:
        return "nothing measured yet"
    sure = "too sure of itself" if mean > SUSPICIOUS else "consistent"
    return f"innovations {mean:.2f} where 1 is right ({sure})"


def picture(known: FilterEstimate, count: int, skipped: int, mean: float | None) -> Any:
    from rich.table import Table

    table = Table(title=f"t = {known.time:g}   {counted(count, skipped)}", caption=verdict(mean), min_width=WATCH_TABLE_WIDTH)
    for heading in ("", "value", "standard deviation"):
        table.add_column(heading)
    std = known.std
    for name, value in known.states.items():
        table.add_row(clean(name), f"{value:.6g}", f"{std[name]:.2g}")
    table.add_section()
    for name, value in known.parameters.items():
        table.add_row(clean(name), f"{value:.6g}", f"{std[name]:.2g}", style="bold")
    return table
