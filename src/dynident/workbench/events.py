"""Events: what every open page is told, in order, so that one that was away for a moment misses nothing."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

MOST_KEPT = 2000  # events; a page that was away longer asks for the whole state


class EventLog:
    """Numbered events; whoever waits is woken by the next one."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.kept: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MOST_KEPT)
        self.last = 0

    def tell(self, kind: str, **facts: Any) -> None:
        with self.changed:
            self.last += 1
            self.kept.append((self.last, {"event": kind, **facts}))
            self.changed.notify_all()

    def after(self, number: int, seconds: float) -> list[tuple[int, dict[str, Any]]]:
        """Those after this number, as soon as there are any; none when so many seconds have passed."""
        with self.changed:
            if self.last <= number:
                self.changed.wait(seconds)
            return [(n, event) for n, event in self.kept if n > number]
