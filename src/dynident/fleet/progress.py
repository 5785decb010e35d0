"""What is seen while a fleet is fitted: done, failed, running, time left."""

from __future__ import annotations

from dataclasses import dataclass

HOUR, MINUTE = 3600.0, 60.0


@dataclass(frozen=True)
class FleetProgress:
    """Counts of one pass over the fleet."""

    what: str  # which pass
    total: int
    done: int  # failed ones included
    failed: int
    running: int  # on a worker; where it is not known how many these are, handed out
    here: int = 0  # done in this run, from which the time left follows
    workers: int | None = None

    def line(self, seconds: float) -> str:
        left = self.total - self.done
        rate = self.here / seconds if seconds > 0 else 0.0
        ahead = f"  {format_duration(left / rate)} left" if rate > 0 and left else ""
        under_way = f"{self.running} running" if self.workers is not None else f"{self.running:,} handed out"
        return (f"{self.what}: {self.done:,} of {self.total:,} done  {self.failed:,} failed  {under_way}  "
                f"{format_duration(seconds)}{ahead}")


def format_duration(seconds: float) -> str:
    """A duration as one says it."""
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min {int(seconds % MINUTE):02d} s"
    return f"{int(seconds // HOUR)} h {int(seconds % HOUR // MINUTE):02d} min"


def line(progress: FleetProgress, seconds: float) -> str:
    return progress.line(seconds)
