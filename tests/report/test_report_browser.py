"""Claims that only a browser can check: the charts are drawn under the page's own security policy."""

import re
import shutil
import subprocess

import pytest
import sample

import dynident.report as report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=4000")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no browser is installed")]


def shown(page, folder, *options) -> str:
    """The document after its scripts have run."""
    command = [BROWSER, *QUIET, f"--user-data-dir={folder / 'profile'}", "--window-size=1200,9000", *options,
               "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_every_chart_is_drawn_and_none_offers_an_upload(tmp_path):
    page = report.html(sample.estimate(), tmp_path / "page.html", [sample.checked()])
    document = shown(page, tmp_path)
    assert document.count('<figure class="chart') == document.count('class="chart js-plotly-plot"') == 8
    assert set(re.findall(r'data-title="([^"]*)"', document)) == {"Zoom", "Pan", "Reset axes", "Download plot as a PNG"}


def test_names_with_tags_are_text_within_charts(tmp_path):
    page = report.html(sample.estimate(output="<b>y</b>&lt;"), tmp_path / "page.html")
    assert "&lt;b&gt;y&lt;/b&gt;&amp;lt; (m)</text>" in shown(page, tmp_path)


def test_colours_follow_the_reader(tmp_path):
    page = report.html(sample.estimate(), tmp_path / "page.html")
    assert "rgb(0, 114, 178)" in shown(page, tmp_path)
    assert "rgb(86, 180, 233)" in shown(page, tmp_path, "--blink-settings=preferredColorScheme=0")
