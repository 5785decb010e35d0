"""Memory: ten thousand records stream through main process and workers without leaving anything behind."""

from __future__ import annotations

import os
from pathlib import Path

import fleets
import pytest

import dynident as di

RECORDS, EARLY = 10_000, 1_000
ALLOWED = 24e6  # bytes, over 9,000 records; one record with its estimate takes 50 kB


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line for line in status.split("\n") if line.startswith("VmRSS")).split()[1])


def children() -> list[int]:
    own = f"PPid:\t{os.getpid()}\n"
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if own in status.read_text() and resident(int(status.parent.name)) > 50e6:  # workers, not helpers
                found.append(int(status.parent.name))
        except (OSError, StopIteration):
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_stays_flat_over_ten_thousand_records(tmp_path):
    sources = [fleets.write(tmp_path / "data" / f"source{k}.csv", fleets.record(k, samples=30)) for k in range(50)]
    for k in range(RECORDS):
        os.link(sources[k % 50], tmp_path / "data" / f"m{k % 400:03d}_{k:05d}.csv")
    asked = di.Fleet(fleets.LAG, "data/{machine}_{time}.csv", fleets.PARAMETERS, di.single_shooting(),
                     {**fleets.READING, "separator": ",", "decimal": "."}, folder=tmp_path)
    assert len(asked.records) == RECORDS
    seen: dict[int, tuple[int, int]] = {}

    def watch(progress) -> None:
        if progress.done in (EARLY, RECORDS) and progress.done not in seen:
            seen[progress.done] = resident(os.getpid()), max(resident(pid) for pid in children())

    with di.process_pool(2) as pool:
        result = di.fleet(asked, tmp_path / "results", executor=pool, progress=watch)
    assert len(result.records) == RECORDS
    main, worker = (after - before for before, after in zip(seen[EARLY], seen[RECORDS], strict=True))
    print(f"main process {main / 1e6:+.1f} MB, workers {worker / 1e6:+.1f} MB over {RECORDS - EARLY:,} records")
    assert main < ALLOWED
    assert worker < ALLOWED
