"""What is seen while a fit runs: one live line on a terminal or in a notebook, plain lines in a log, nothing in a script.

    with shown(progress) as tell:      # progress: None, False or a callable that takes an Iteration
        tell(iteration)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from dynident._util.harmless_text import clean, styled

if TYPE_CHECKING:
    from dynident.estimate.estimate import Iteration

Tell = Callable[..., object]  # takes an Iteration, or a line about how far a computation is
Said = Callable[..., str]

QUIET_SECONDS = 1.0  # s; a fit that ends sooner shows nothing
BETWEEN_RETURNS = 0.2  # s; a notebook redraws no faster
BETWEEN_LINES = 1.0  # s; a log gets at most one line in this time


@contextmanager
def reporter(progress: Tell | bool | None = None, said: Said | None = None) -> Iterator[Tell]:
    """What to call after each iteration: `progress` itself, or a live line on a terminal, or nothing (False)."""
    if callable(progress):
        yield progress
    elif progress is not False and in_notebook():
        with returning_line(sys.stderr, QUIET_SECONDS, said) as tell:
            yield tell
    elif progress is not False and sys.stderr.isatty():
        with live_line(sys.stderr, QUIET_SECONDS, said) as tell:
            yield tell
    else:
        yield lambda iteration: None


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this process."""
    return "ipykernel" in sys.modules


@contextmanager
def returning_line(stream: TextIO, patience: float = 0.0, said: Said | None = None, between: float = BETWEEN_RETURNS
                   ) -> Iterator[Tell]:
    """One line that is written over by a carriage return, as a notebook shows it, and vanishes at the end."""
    begin, last, width = time.monotonic(), -float("inf"), 0

    def tell(iteration: Iteration) -> None:
        nonlocal last, width
        now = time.monotonic()
        if now - begin >= patience and now - last >= between:
            text = clean((said or line)(iteration, now - begin))
            print(f"\r{text.ljust(width)}", end="", file=styled(stream), flush=True)
            last, width = now, len(text)

    try:
        yield tell
    finally:
        if width:
            print(f"\r{' ' * width}\r", end="", file=styled(stream), flush=True)


@contextmanager
def live_line(stream: TextIO, patience: float = 0.0, said: Said | None = None) -> Iterator[Tell]:
    """One line that is written over again and again, from `patience` seconds on, and vanishes at the end.

    `said` makes the line from what is told and the seconds so far; that of an iteration unless given.
    """
    from rich.console import Console  # takes 0.1 s, and most runs never need it
    from rich.live import Live
    from rich.text import Text

    begin = time.monotonic()
    live = Live(console=Console(file=styled(stream)), auto_refresh=False, transient=True)

    def tell(iteration: Iteration) -> None:
        elapsed = time.monotonic() - begin
        if elapsed >= patience:
            live.start()
            live.update(Text(clean((said or line)(iteration, elapsed)), overflow="ellipsis", no_wrap=True), refresh=True)

    try:
        yield tell
    finally:
        live.stop()


@contextmanager
def plain_lines(stream: TextIO, between: float = BETWEEN_LINES, said: Said | None = None) -> Iterator[Tell]:
    """A line for the first iteration, then at most one in `between` seconds; `said` as above."""
    begin = time.monotonic()
    last = -float("inf")

    def tell(iteration: Iteration) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= between:
            last = now
            stream.write(clean((said or line)(iteration, now - begin)) + "\n")  # at once: Ctrl-C comes before or after a line
            stream.flush()

    yield tell


def line(iteration: Iteration, seconds: float) -> str:
    """The stage where there are several; iteration, cost, step and, where segments have to meet, how far apart they are."""
    gap = f"  max defect {iteration.max_defect:.1e}" if iteration.max_defect else ""
    cost, step = f"{iteration.cost:.6g}", f"{iteration.step:.1e}"
    stage = f"{iteration.stage}  " if iteration.stage else ""
    return f"{stage}iteration {iteration.number:4d}  cost {cost}  step {step}{gap}  {seconds:.1f} s"
