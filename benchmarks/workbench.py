"""Workbench: is the link there at once, does the curve follow a slider, and are long records as quick to look at as short ones?

Wall time here, not CPU: three processes answer together, and what a person waits for is what counts. The browser's part (some
milliseconds of drawing) is measured where playwright and a Chromium are installed.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from timing import Line, Result, main, size, spoken

SAMPLES = size((10_001, 100_001, 1_000_001), (2_001,))
MOVES = size(60, 3)
STARTS = size(5, 1)
LINK_LIMIT, CURVE_LIMIT = 0.5, 2.0  # s until the link is printed; from opening the page to the first curve
FASTEST = 20  # updates a second that are wanted at 10,001 samples and two outputs
PROBLEM = """\
[model]
inputs = ["u"]
states = {{ q = "v", v = "(35.15*u - Fv*v - Fc*tanh(v/0.005))/M" }}
outputs = {{ position = "q", velocity = "v" }}
[[experiment]]
file = "{file}"
time = "t"
inputs = ["u"]
outputs = {{ position = "q", velocity = "v" }}
initial = {{ q = 0.0, v = 0.0 }}
[parameters]
M = {{ start = 95, lower = 10, upper = 500 }}
Fv = {{ start = 200, lower = 0, upper = 1000 }}
Fc = {{ start = 20, lower = 0, upper = 200 }}
"""


class Page:
    """One connection with its key, kept alive as a browser does."""

    def __init__(self, link: str):
        port, token = link.removeprefix("http://127.0.0.1:").split("/#token=")
        self.connection = http.client.HTTPConnection("127.0.0.1", int(port))
        self.key = ""
        self.key = self.call("POST", "/api/session", {"token": token})["key"]

    def send(self, method: str, path: str, body: Any = None) -> bytes:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content.decode())
        return content

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        return json.loads(self.send(method, path, body))


@contextmanager
def opened(file: Path) -> Iterator[tuple[str, float]]:
    """The link of a workbench, and after how many seconds it was printed."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "dynident", "open", str(file), "--no-browser"], stdout=subprocess.PIPE,
                               text=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.stdout.readline().strip(), time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def written(folder: Path, samples: int) -> Path:
    """A problem with a record of so many samples."""
    t = np.arange(samples) * 10.0 / (samples - 1)
    columns = np.column_stack([t, np.sign(np.sin(3 * t)), 0.1 * np.sin(t), 0.1 * np.cos(t)])
    np.savetxt(folder / f"{samples}.csv", columns, delimiter=",", header="t,u,q,v", comments="", fmt="%.9g")
    file = folder / f"{samples}.toml"
    file.write_text(PROBLEM.format(file=f"{samples}.csv"))
    return file


def round_trip(file: Path) -> float:
    """Seconds from a new value to the thinned curve, the median of many."""
    with opened(file) as (link, _):
        page = Page(link)
        while not page.call("GET", "/api/state")["file"]:
            time.sleep(0.05)
        view = {"record": 0, "width": 1200}
        page.send("POST", "/api/record", view)
        took = []
        for k in range(MOVES + 2):
            began = time.perf_counter()
            page.send("POST", "/api/simulate", {**view, "values": {"M": 80.0 + k, "Fv": 200.0, "Fc": 20.0}})
            took.append(time.perf_counter() - began)
    return median(took[2:])  # the first compiles


def in_browser(file: Path) -> tuple[float, float] | None:
    """Seconds to the first curve, and updates a second while a slider is moved; None where there is no browser."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if find_spec("playwright") is None or chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    with opened(file) as (link, _), sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        began = time.perf_counter()
        page.goto(link)
        page.locator(".panel .fit", has_text="%").first.wait_for(timeout=60_000)
        first = time.perf_counter() - began
        slider = page.get_by_role("slider", name="M").bounding_box()
        assert slider is not None
        page.mouse.move(slider["x"] + 60, slider["y"] + 8)
        page.mouse.down()
        frames = page.evaluate("() => Number(document.getElementById('stack').dataset.frames)")
        began = time.perf_counter()
        for k in range(MOVES * 3):
            page.mouse.move(slider["x"] + 60 + k % 120, slider["y"] + 8)
        seconds = time.perf_counter() - began
        shown = page.evaluate("() => Number(document.getElementById('stack').dataset.frames)") - frames
        browser.close()
    return first, shown / seconds


def run() -> Result:
    lines = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = {samples: written(folder, samples) for samples in SAMPLES}
        first = next(iter(files.values()))
        links = []
        for _ in range(STARTS):
            with opened(first) as (_, seconds):
                links.append(seconds)
        lines.append(Line("`dynident open` until its link is printed", spoken(min(links)), f"under {LINK_LIMIT:g} s",
                          min(links) < LINK_LIMIT))
        times = {samples: round_trip(file) for samples, file in files.items()}
        for samples, seconds in times.items():
            wanted = samples == 10_001
            lines.append(Line(f"a new value to its curve, {samples:,} samples, two outputs, without drawing",
                              f"{spoken(seconds)} ({1 / seconds:,.0f} a second)",
                              f"at least {FASTEST} a second" if wanted else "", 1 / seconds >= FASTEST if wanted else None))
        drawn = in_browser(first)
        if drawn is not None:
            lines.append(Line("opening the page to the first curve", spoken(drawn[0]), f"under {CURVE_LIMIT:g} s",
                              drawn[0] < CURVE_LIMIT))
            lines.append(Line(f"updates a second while a slider moves, {next(iter(files)):,} samples, in Chromium",
                              f"{drawn[1]:.0f}", f"at least {FASTEST}", drawn[1] >= FASTEST))
    return Result("Workbench", "Wall time on this machine, one page, 1,200 pixels; the live worker has one BLAS thread.", lines)


if __name__ == "__main__":
    main(run)
