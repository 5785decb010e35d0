"""How do sections become one file that opens offline?

The page carries its style, its scripts and its data, and forbids itself everything else: its security policy names
the scripts by their hash and allows no request, so that neither a name in the data nor a library can reach out.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import marshal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dynident._util.atomic import atomic_write
from dynident.codegen.compiler import cached_code
from dynident.estimate.estimate import Estimate

FOOTER = "Written by dynident. This page is one file: it opens offline and requests nothing from the network."
ENVIRONMENT = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@dataclass(frozen=True)
class Section:
    """A part of the page; `body` asks the estimate what it holds, and gives nothing where there is nothing to show."""

    anchor: str
    title: str
    body: Callable[[Estimate], Markup | None]
    folded: bool = False  # opened by the reader who wants it


def filled(template: str, **content: Any) -> Markup:
    """The template with its content; whatever is not Markup is escaped."""
    return Markup(_compiled(template).render(**content))


@functools.cache
def _compiled(template: str) -> Template:
    """One of the few templates of the pages; to compile it takes longer than to fill it, so its code is kept on disk."""
    made_by = f"jinja2 {version('jinja2')} {MAGIC_NUMBER.hex()}"
    code = cached_code(f"{made_by} {template}", lambda: marshal.dumps(ENVIRONMENT.compile(template)))
    return Template.from_code(ENVIRONMENT, marshal.loads(code), ENVIRONMENT.make_globals(None))


@dataclass(frozen=True)
class HtmlPart:
    """A section that has something to show."""

    anchor: str
    title: str
    body: Markup
    folded: bool = False


@dataclass(frozen=True)
class HtmlPage:
    """What is on the page, apart from how it looks."""

    title: str  # of the window
    over: str  # a few words above the heading
    heading: str
    under: str
    verdict: Markup
    ribbon: str  # stays in sight while scrolling; nothing for a result that can be used
    sections: Sequence[HtmlPart]
    charts: bool  # whether charts are on it, which the page's script makes readable point by point
    written: str = ""  # when, and by which version
    command: str = ""  # that makes it again, to be copied

    def html(self) -> str:
        scripts = [_asset("page.js")] if self.charts or self.command else []
        style = _asset("style.css")
        return str(filled(_asset("page.html"), title=self.title, over=self.over, heading=self.heading, under=self.under,
                      verdict=self.verdict, ribbon=self.ribbon, sections=self.sections, footer=FOOTER, written=self.written,
                      command=self.command, policy=_policy(scripts, style), style=Markup(style),
                      scripts=[Markup(script) for script in scripts]))


def write_page(page: HtmlPage, path: str | Path) -> Path:
    """Write the page; one that was there before is replaced whole or not at all."""
    with atomic_write(path) as aside:
        aside.write_text(page.html(), encoding="utf-8", newline="\n")  # as hashed: the policy counts every byte
    return Path(path)


def _asset(name: str) -> str:
    return resources.files("dynident.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Scripts and styles by their hash, and no request at all; `style` attributes are those of drawings that come whole."""
    def hashed(texts: Sequence[str]) -> str:
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    return (f"default-src 'none'; script-src {hashed(scripts)}; style-src {hashed([style])}; "
            "style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'")
