"""Claim: names, units, notes and paths that strangers chose are text in every step of the workbench, in a real browser.

The page is driven by a few lines behind its own first module, since no more than a browser is needed then: they go through all
steps and tell what stands there. What they tell is looked at here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from bench import connected, running

from dynident.workbench import server as serving
from dynident.workbench.server import static_file

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr")
PATIENCE = 120.0  # s; the machine may be busy
DRIVER = """
const pause = (ms) => new Promise((go_on) => setTimeout(go_on, ms));
const seen = [];
addEventListener("securitypolicyviolation", (event) => seen.push(`violation: ${event.violatedDirective}`));
globalThis.alert = () => seen.push("alert");
(async () => {
  while (!store.state?.file) await pause(50);
  for (const step of STEPS) {
    go(step);
    await pause(1500);
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    await pause(500);
    const fields = [...document.querySelectorAll("input, select, textarea")].map((field) => field.value);
    seen.push({ page: document.documentElement["outer" + "HTML"], fields });
  }
  await post("/api/seen", { seen });
})();
"""
KNOWN = {"a", "article", "aside", "b", "body", "br", "button", "canvas", "caption", "circle", "clippath", "code", "datalist",
         "dd", "defs", "desc", "details", "dialog", "div", "dl", "dt", "em", "fieldset", "figcaption", "figure",
         "footer", "form", "g", "h1", "h2", "h3", "head", "header", "hr", "html", "i", "input", "kbd", "label",
         "legend", "li", "line", "link", "main", "math", "meta", "mfrac", "mi", "mn", "mo", "mover", "mrow", "mspace",
         "msqrt", "msub", "msup", "mtable", "mtd", "mtext", "mtr", "nav", "noscript", "ol", "optgroup", "option",
         "output", "p", "path", "polygon", "polyline", "pre", "progress", "rect", "script", "section", "select",
         "small", "span", "strong", "summary", "svg", "table", "tbody", "td", "text", "textarea", "th", "thead",
         "time", "title", "tr", "ul"}  # beside the icon of the page, which is an img

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no browser is installed")]


def planted(place: str) -> str:
    """Markup that would close what it stands in, ask for a picture and run; it holds no slash, so that a file can have it."""
    return f"'\"><img src=x onerror=alert(1)><script>{place}"


class Tags(HTMLParser):
    """Tags and attributes as a browser reads them, and all text."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.handlers, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]
        self.text += [value or "" for _, value in attributes]

    def handle_data(self, text):
        self.text.append(text)


def write_problem(folder) -> str:
    """A problem whose every text that is free to choose is planted; names of equations are identifiers by their grammar."""
    t = np.linspace(0, 5, 51)
    x = np.exp(-t) + 0.01 * np.sin(40 * t)
    record, column = f"{planted('path')}.csv", planted("column")
    quoted = column.replace('"', '""')
    (folder / record).write_text(f'"t","{quoted}"\n' + "\n".join(f"{a},{b}" for a, b in zip(t, x, strict=True)))
    text = {key: json.dumps(planted(key)) for key in ("experiment", "unit", "parameter unit", "model", "time unit")}
    name = f"{planted('problem')}.toml"
    (folder / name).write_text(f"""
[model]
name = {text["model"]}
states = {{ x = "-k*x" }}
outputs = {{ y = "x" }}
units = {{ y = {text["unit"]} }}
[[experiment]]
name = {text["experiment"]}
file = {json.dumps(record)}
time = "t"
outputs.y = {{ column = {json.dumps(column)}, gaussian = 0.01 }}
constants = {{ unused = 1.0 }}
[parameters]
k = {{ start = 0.5, lower = 0.01, unit = {text["parameter unit"]} }}
[initial_states]
x = {{ start = 1.0 }}
""")
    return name


def test_every_step_takes_strangers_texts_as_text(tmp_path, monkeypatch):
    name = write_problem(tmp_path)
    told: list[list] = []
    original = static_file("/app.js")
    driven = (original[0] + DRIVER.encode(), original[1])
    monkeypatch.setattr(serving, "static_file", lambda path: driven if path == "/app.js" else static_file(path))
    with running(tmp_path) as server:
        page = connected(server)
        status, state = page.call("POST", "/api/open", {"file": name})
        assert status == 200 and state["description"]["faults"] == [], state
        ended = page.job("fit")
        assert ended["state"] == "done", ended
        server.routes.table["POST", "/api/seen"] = lambda request: told.append(request["seen"]) or {}
        browser = subprocess.Popen([BROWSER, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,900",
                                    server.link(server.keys.new_token())], stdout=subprocess.DEVNULL,
                                   stderr=(console := (tmp_path / "console").open("w+")))
        try:
            until = time.monotonic() + PATIENCE
            while not told and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            browser.terminate()
            browser.wait(20)
    console.seek(0)
    assert told, console.read()[-2000:]
    (steps,) = told
    assert [said for said in steps if isinstance(said, str)] == []  # no alert, no violation of the policy
    assert len(steps) == 6
    for step in steps:
        seen = Tags(step["page"])
        assert set(seen.tags) - {"img"} <= KNOWN, set(seen.tags) - KNOWN
        for tag in ("img", "script"):
            assert seen.tags.count(tag) == static_file("/")[0].decode().count(f"<{tag}"), tag  # those of the page itself
        assert not seen.handlers
    words = "".join(text for step in steps for text in (*Tags(step["page"]).text, *step["fields"]))
    for place in ("problem", "path", "experiment", "unit", "parameter unit"):
        assert planted(place) in words, place  # it is there, as it was given
