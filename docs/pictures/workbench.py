"""Takes the pictures of the workbench for README and manual, in a real browser.

    python docs/pictures/workbench.py       writes docs/_static/workbench/*.png

Needs the package playwright (`pip install playwright`) and a Chromium of the system.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynident.demo import copy_to

TARGET = Path(__file__).parents[1] / "_static" / "workbench"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
PATIENCE = 60_000  # ms
SETTLED = 700  # ms until curves and charts are drawn


@contextmanager
def workbench(folder: Path) -> Iterator[str]:
    """The link of a workbench on the demo."""
    process = subprocess.Popen([sys.executable, "-m", "dynident", "open", str(folder / "servo.toml"), "--no-browser"],
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def opened(browser: Any, link: str, scheme: str, size: dict[str, int]) -> Any:
    page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(link)
    page.locator(".panel .fit", has_text="%").first.wait_for()
    return page


def take(page: Any, name: str) -> None:
    page.wait_for_timeout(SETTLED)
    page.screenshot(path=TARGET / f"{name}.png")
    print(f"{TARGET / name}.png")


def draw() -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("No Chromium is installed on this system.")
    TARGET.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        visits = (("light", WIDE, ("parameters", "model", "trust", "design")), ("dark", WIDE, ("", "", "dark", "")),
                  ("light", NARROW, ("narrow", "", "", "")))
        for scheme, size, names in visits:
            with tempfile.TemporaryDirectory() as folder:
                copy_to(Path(folder))
                with workbench(Path(folder)) as link:
                    visit(opened(browser, link, scheme, size), *names)
        browser.close()


def visit(page: Any, parameters: str, model: str, trust: str, design: str) -> None:
    """The steps in their order; a step without a name for its picture is passed by."""
    if parameters:
        for name, value in (("M", "78"), ("Fv", "175"), ("Fc", "14")):
            page.get_by_label(f"{name}, value").fill(value)
            page.get_by_label(f"{name}, value").press("Enter")
            page.wait_for_timeout(SETTLED)
        page.get_by_role("button", name="Keep this point").click()
        take(page, parameters)
    if model:
        page.keyboard.press("2")
        page.locator("[data-line='states/v'] math").wait_for()
        take(page, model)
    if trust:
        page.keyboard.press("4")
        page.keyboard.press("Control+Enter")
        page.locator(".strip .grade").wait_for()
        page.keyboard.press("5")
        take(page, trust)
    if design:
        page.keyboard.press("6")
        page.get_by_label("Pieces, harmonics, order or switches").fill("6")
        page.get_by_label("Duration [s]").fill("3")
        page.get_by_label("Sample time [s]").fill("0.05")
        page.get_by_label("Starts of the search").fill("1")
        page.get_by_role("button", name="Plan the input").click()
        page.locator(".plan").wait_for()
        page.locator(".plan").scroll_into_view_if_needed()
        take(page, design)


if __name__ == "__main__":
    draw()
