"""Claims that only a browser can check: the page keeps its own security policy, can be zoomed, is readable by everybody."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import sample

import dynident.report as report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
AXE = Path(os.environ.get("DYNIDENT_AXE", ""))  # axe.min.js of axe-core, which is no part of this tree
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=4000",
         "--enable-logging=stderr")
DARK = "--blink-settings=preferredColorScheme=0"
TRUSTED = """<script>addEventListener("load", async () => {{ const say = (what) => {{ document.title = JSON.stringify(what); }};
{} }});</script>"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no browser is installed")]


def shown(page: Path, *options: str, width: int = 1200) -> subprocess.CompletedProcess:
    """The document after its scripts have run, and what the console said."""
    command = [BROWSER, *QUIET, f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900", *options,
               "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def asked(page: Path, question: str, *options: str, extra: str = "", width: int = 1200):
    """What a script of ours says after the page has loaded; it runs in a copy without the security policy."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text, count=1)
    copy = page.with_name("asked.html")
    copy.write_text(text.replace("</body>", extra + TRUSTED.format(question) + "</body>"), encoding="utf-8")
    document = shown(copy, *options, width=width).stdout
    return json.loads(re.search(r"<title>(.*?)</title>", document, re.DOTALL)[1].replace("&lt;", "<").replace("&gt;", ">")
                      .replace("&amp;", "&"))


@pytest.fixture
def page(tmp_path):
    return report.html(sample.estimate(experiments=2), tmp_path / "page.html", [sample.checked()], command="dynident fit it")


def test_the_page_keeps_its_security_policy_and_its_script_runs_without_an_error(page):
    console = shown(page).stderr
    assert "Content Security Policy" not in console and "Uncaught" not in console


def test_a_stretch_is_looked_at_alone_and_a_double_click_returns(page):
    drag = """
    const figure = document.querySelector("figure.zooms"), plot = figure.querySelector(".plot");
    const box = plot.getBoundingClientRect();
    plot.setPointerCapture = () => {};
    const send = (kind, share) => plot.dispatchEvent(new PointerEvent(kind, { bubbles: true, button: 0, pointerId: 1,
      clientX: box.left + share * box.width, clientY: box.top + 20 }));
    figure.dispatchEvent(new PointerEvent("pointerenter"));
    const state = () => [...figure.querySelectorAll(".curves")].map((s) => s.getAttribute("viewBox"));
    const before = state(), label = figure.querySelector(".xaxis").textContent;
    send("pointerdown", 0.25); send("pointermove", 0.5); const read = figure.querySelector(".readout").textContent;
    send("pointerup", 0.5);
    const during = state(), button = !figure.querySelector(".whole").hidden;
    figure.querySelector(".plot").dispatchEvent(new MouseEvent("dblclick"));
    say({ before, during, after: state(), button, read, back: figure.querySelector(".xaxis").textContent === label });"""
    found = asked(page, drag)
    assert found["before"] == found["after"] and found["back"]
    assert found["button"] and "measured" in found["read"] and "predicted" in found["read"]
    for view in found["during"]:
        left, _, width, height = map(float, view.split())
        assert left == pytest.approx(7500, abs=50) and width == pytest.approx(7500, abs=50) and height < 30_000


def test_colours_follow_the_reader(page):
    colour = 'say(getComputedStyle(document.querySelector(".curves .fitted")).stroke);'
    assert asked(page, colour) == "rgb(0, 114, 178)"
    assert asked(page, colour, DARK) == "rgb(86, 180, 233)"


@pytest.mark.parametrize("width", [1280, 500])
def test_nothing_reaches_beyond_the_window(page, width):
    assert asked(page, "say(document.documentElement.scrollWidth - document.documentElement.clientWidth);", width=width) <= 0


@pytest.mark.skipif(not AXE.is_file(), reason="DYNIDENT_AXE does not name the axe.min.js of axe-core")
@pytest.mark.parametrize("options", [(), (DARK,)])
def test_axe_finds_nothing_serious(page, options):
    ask = """document.querySelectorAll("details").forEach((d) => { d.open = true; });
    const found = await axe.run(document);
    say(found.violations.map((v) => [v.impact, v.id, v.nodes[0].html.slice(0, 200)]));"""
    found = asked(page, ask, *options, extra=f"<script>{AXE.read_text(encoding='utf-8')}</script>")
    assert [each for each in found if each[0] in ("serious", "critical")] == []
