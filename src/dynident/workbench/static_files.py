"""Static files: what does the page consist of? A list, so that no address leads to anything else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent / "static"
REPORT = Path(__file__).parents[1] / "report" / "assets"  # the chart library and the palette are those of the report
MODULES = ("app", "api", "store", "elements", "plots", "charts", "sliders", "records", "model", "fit", "trust", "design",
           "keys", "history")
KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
FILES = {"/": PAGE / "index.html", "/style.css": PAGE / "style.css", "/icon.svg": PAGE / "icon.svg",
         **{f"/{name}.js": PAGE / f"{name}.js" for name in MODULES},
         **{f"/vendor/{name}": REPORT / name for name in ("uPlot.iife.min.js", "uPlot.min.css")}}


@cache
def static_file(path: str) -> tuple[bytes, str] | None:
    """Content and kind; None for what is not on the list."""
    if path == "/palette.css":
        return palette().encode(), KINDS[".css"]
    file = FILES.get(path)
    return None if file is None else (file.read_bytes(), KINDS[file.suffix])


def palette() -> str:
    """The colours of the report, light and dark: the rules of its style sheet that hold variables of the root alone."""
    text = re.sub(r"/\*.*?\*/", "", (REPORT / "style.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    root = r":root[^{}]*\{[^{}]*\}"
    return "\n".join(re.findall(rf"@media screen[^{{}}]*\{{\s*{root}\s*\}}|{root}", text))
