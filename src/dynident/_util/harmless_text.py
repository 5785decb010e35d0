"""Harmless text: names come from files of strangers; how do characters that would steer a terminal stay out of it?

An escape sequence in a column's name clears the screen, renames the window or, on some terminals, answers as if it had been
typed. While a command runs, all that is printed goes through `HarmlessStream`; what styles a page itself (rich) asks for the
stream behind it and cleans its texts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

LAYOUT = str.maketrans("", "", "\n\t")


def clean(text: str) -> str:
    """With control characters, and those that turn the direction of a line, written out."""
    if text.translate(LAYOUT).isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


class HarmlessStream:
    """A text stream that writes clean text; everything else is that of the stream behind it."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(clean(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def styled(stream: Any) -> TextIO:
    """The stream itself, for those who send colours and carriage returns of their own."""
    return stream.stream if isinstance(stream, HarmlessStream) else stream  # type: ignore[no-any-return]


@contextmanager
def harmless_output() -> Iterator[None]:
    """What is printed meanwhile cannot steer the terminal."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = HarmlessStream(out), HarmlessStream(err)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
