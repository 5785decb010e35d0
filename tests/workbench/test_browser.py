"""The whole way in a real browser: record, model, sliders, fit, stop, save, and the saved file on the command line.

Wants the package playwright and a Chromium of the system; skipped with the reason where one is missing.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import os
import re
import shutil
import signal
import time
from collections.abc import Callable

import pytest
from bench import connected, running

import dynident as di
from dynident.cli import main
from dynident.demo import copy_to

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed on this system")
PATIENCE = 60_000  # ms; the machine may be busy
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]
CURVE = ".panel .fit"


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    copy_to(folder)
    with running(folder) as server:
        server.folder = folder
        server.session.live.start()
        server.session.worker.start()
        yield server


@pytest.fixture
def opened(chromium, bench):
    """A new tab on the demo, opened anew; what the page logs as an error fails the test."""
    made = []

    def tab(file: str | None = "servo.toml", **options):
        if file is not None:
            for name in ("servo.toml", "slide.csv", "slide_validation.csv"):
                (bench.folder / name).unlink(missing_ok=True)
            copy_to(bench.folder)
            assert connected(bench).call("POST", "/api/open", {"file": file})[0] == 200
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda line: page.errors.append(line.text) if "Content Security" in line.text else None)
        page.goto(bench.link(bench.keys.new_token()))
        made.append((context, page))
        return page

    yield tab
    faults = [error for _, page in made for error in page.errors]
    for context, _ in made:
        context.close()
    assert faults == []


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE / 1000
    while not holds():
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.05)


def curve_is_there(page) -> None:
    until(lambda: any("%" in text for text in page.locator(CURVE).all_text_contents()), "the curve")


def step(page, name: str) -> None:
    page.locator("nav").get_by_role("button", name=re.compile(name)).click()


def test_from_a_record_to_a_fit_of_the_saved_file(opened, bench, monkeypatch, capsys):
    page = opened("slide.csv")
    page.get_by_role("button", name="Columns, units, noise").click()
    page.get_by_label("Name of q").fill("position")
    page.get_by_label("Role of v").select_option("ignore")
    page.get_by_label("Standard deviation of the noise of q").fill("2.02e-5")
    page.get_by_role("button", name="Use these columns").click()
    step(page, "Model")
    page.get_by_label("Start from a template").select_option("servo_axis")
    page.get_by_role("button", name="Use it").click()
    step(page, "Parameters")
    curve_is_there(page)
    page.get_by_label("M, value").fill("90")
    page.get_by_label("M, value").press("Enter")
    until(lambda: "start = 90" in bench.session.opened.text, "the value in the text")
    step(page, "Fit")
    page.get_by_label("Method", exact=True).select_option("multiple_shooting")
    page.keyboard.press("Control+Enter")
    until(lambda: page.locator(".strip .grade").count() == 1, "the verdict")
    page.keyboard.press("Control+s")
    until(lambda: (bench.folder / "slide.toml").is_file(), "the saved file")
    monkeypatch.chdir(bench.folder)
    with pytest.raises(SystemExit) as end:
        main(["fit", "slide.toml", "--out", "again"])
    assert end.value.code in (0, 3, 4)
    assert di.load("again").values == di.load("results/slide-fit-001").values
    page.keyboard.press("5")
    page.get_by_role("heading", name="Trust: fit 1").wait_for()


def test_the_curve_follows_a_slider_while_it_moves(opened):
    page = opened()
    curve_is_there(page)
    slider = page.get_by_role("slider", name="M in kg")
    before = page.locator(CURVE).first.text_content()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 46, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + box["height"] / 2, steps=12)
    until(lambda: page.locator(CURVE).first.text_content() != before, "another curve, before the mouse is let go")
    assert page.locator("#file").text_content() == "servo.toml"  # nothing was written into the problem yet
    page.mouse.up()
    until(lambda: "not saved" in page.locator("#file").text_content(), "the new start value in the problem")


def test_everything_can_be_done_by_keys(opened, bench):
    page = opened()
    curve_is_there(page)
    slider = page.get_by_role("slider", name="M in kg")
    slider.focus()
    was = bench.session.opened.text
    page.keyboard.press("ArrowRight")
    until(lambda: bench.session.opened.text != was, "the slider's new value")
    page.keyboard.press("Control+z")
    until(lambda: bench.session.opened.text == was, "undo")
    for key, heading in zip("123456", ("Records", "Model", "Parameters", "Fit", "Trust", "Next experiment"), strict=True):
        page.keyboard.press(key)
        page.get_by_role("heading", name=re.compile(heading)).first.wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Ctrl + Enter").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    for _ in range(60):  # by Tab alone to the first slider
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.type") == "range":
            break
    assert page.evaluate("() => document.activeElement.type") == "range"


def test_a_fault_stands_under_its_line_while_one_types(opened):
    page = opened()
    step(page, "Model")
    line = page.get_by_label("d v/dt")
    page.locator("[data-line='states/v'] math").wait_for()
    line.fill("(gain*u - Fv*v / M")
    until(lambda: "bracket" in page.locator("[data-line='states/v'] .fault").text_content(), "the fault")
    assert page.get_by_role("button", name="Apply the equations").is_disabled()
    line.fill("(gain*u - Fv*v - Fc*tanh(v/0.005) - offset)/M")
    until(lambda: page.locator("[data-line='states/v'] .fault").text_content() == "", "no fault")
    assert page.locator("[data-line='states/v'] mfrac").count() >= 1


def test_stop_keeps_the_best_point_and_says_so(opened, bench):
    page = opened()
    curve_is_there(page)
    endless = {"kind": "multistart", "starts": 5000, "method": {"kind": "single_shooting"}}
    connected(bench).edit({"path": ["method"], "value": endless})
    until(lambda: "multistart" in str(bench.session.description.get("content")), "the method")
    until(lambda: page.evaluate("() => document.title").startswith("•"), "the page has heard of it")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Fitting").wait_for()
    until(lambda: any(re.search(r"cost \d", text) for text in page.locator(".progress").all_text_contents()), "progress")
    page.keyboard.press("Control+.")
    until(lambda: "best point so far" in (page.locator("#verdict").text_content() or ""), "the stopped fit")


def test_a_diverging_curve_greys_the_last_good_one(opened, bench):
    page = opened()
    connected(bench).edit({"path": ["parameters", "Fv", "lower"], "value": -1e9})
    curve_is_there(page)
    page.get_by_label("Fv, value").fill("-1e7")
    page.get_by_label("Fv, value").press("Enter")
    page.locator(".badge.warn").get_by_text("last good curve").wait_for()
    assert page.locator(".panel .fit.old").count() >= 1


def test_the_page_survives_a_killed_worker_and_a_reload(opened, bench):
    page = opened()
    curve_is_there(page)
    os.kill(bench.session.live.process.pid, signal.SIGKILL)
    bench.session.live.process.wait()
    page.get_by_label("M, value").fill("77")
    page.get_by_label("M, value").press("Enter")
    until(lambda: "start = 77" in bench.session.opened.text, "the edit")
    curve_is_there(page)
    page.reload()
    curve_is_there(page)
    assert page.get_by_label("M, value").input_value() == "77"


def test_two_tabs_show_the_same_and_a_changed_file_is_asked_about(opened, bench):
    one = opened()
    curve_is_there(one)
    two = opened(None)
    curve_is_there(two)
    one.get_by_label("M, value").fill("66")
    one.get_by_label("M, value").press("Enter")
    until(lambda: two.get_by_label("M, value").input_value() == "66", "the other tab")
    file = bench.folder / "servo.toml"
    file.write_text(file.read_text().replace("upper = 500", "upper = 450"))
    two.get_by_text("was changed on disk").wait_for()
    two.get_by_role("button", name="Load it again").click()
    until(lambda: "upper = 450" in bench.session.opened.text, "the file's own text")
    one.get_by_text("was changed on disk").wait_for(state="hidden")


def test_a_lost_server_is_said(chromium, tmp_path):
    copy_to(tmp_path)
    context = chromium.new_context()
    with running(tmp_path) as server:
        page = context.new_page()
        page.goto(server.link(server.keys.new_token()))
        page.get_by_role("button", name="servo.toml").wait_for(timeout=PATIENCE)
    page.get_by_text("This page is not connected").wait_for(timeout=PATIENCE)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["wide", "narrow"])
def test_no_serious_finding_of_axe_and_nothing_overflows(opened, scheme, size):
    if importlib.util.find_spec("axe_playwright_python") is None:
        pytest.skip("needs axe-core: pip install axe-playwright-python")
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page = opened(color_scheme=scheme, viewport={"width": size[0], "height": size[1]}, bypass_csp=True)
    curve_is_there(page)
    page.evaluate(axe)
    for key in "123456":
        page.keyboard.press(key)
        page.wait_for_timeout(150)
        found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        serious = [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found["violations"]
                   if one["impact"] in ("serious", "critical")]
        assert serious == [], f"step {key}"
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"step {key}"


def test_the_curve_stays_in_sight_on_a_telephone_while_a_slider_moves(opened):
    page = opened(viewport={"width": 390, "height": 844})
    curve_is_there(page)
    page.keyboard.press("3")
    last = page.locator("input[type=range]").last
    last.scroll_into_view_if_needed()
    last.focus()
    plot, slider = page.locator(".panel").first.bounding_box(), last.bounding_box()
    assert plot["y"] >= 0 and plot["y"] + 100 < slider["y"] <= 844
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_the_spectrum_follows_the_sliders_and_the_way_back_is_there(opened):
    page = opened()
    curve_is_there(page)
    page.get_by_role("button", name="spectrum").click()
    until(lambda: page.locator("[aria-label^='Spectrum of measured and simulated']").count() == 2, "two spectra")
    before = page.locator("#stack").get_attribute("data-frames")
    page.keyboard.press("3")
    page.locator("input[type=range]").first.press("ArrowRight")
    until(lambda: page.locator("#stack").get_attribute("data-frames") != before, "another curve")
    page.get_by_role("button", name="signals").click()
    curve_is_there(page)
