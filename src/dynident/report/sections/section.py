"""What is a section of the page?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dynident.estimate.estimate import Estimate

ENVIRONMENT = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@dataclass(frozen=True)
class Section:
    """A part of the page; `body` asks the estimate what it holds, and gives nothing where there is nothing to show."""

    anchor: str
    title: str
    body: Callable[[Estimate], Markup | None]


def filled(template: str, **content: Any) -> Markup:
    """The template with its content; whatever is not Markup is escaped."""
    return Markup(ENVIRONMENT.from_string(template).render(**content))
