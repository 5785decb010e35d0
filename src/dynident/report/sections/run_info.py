"""What did it cost, and with what was it made?"""

from __future__ import annotations

import platform
from importlib import metadata

from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.number_format import format_number, seconds
from dynident.report.result_table import fits, method_options
from dynident.report.sections.section import Section, filled

PACKAGES = ("dynident", "casadi", "numpy", "scipy")

TEMPLATE = """
<dl class="listing">
{% for name, text in facts.items() %}<div><dt>{{ name }}</dt><dd>{{ text }}</dd></div>{% endfor %}
</dl>
"""


def body(estimate: Estimate) -> Markup:
    facts = {"method": method_options(estimate), "status": estimate.status, "cost": format_number(estimate.cost)}
    facts |= {name.replace("_", " ").replace("jacobian", "Jacobian"): str(number) for name, number in estimate.counts.items()}
    facts |= {f"time: {name}": seconds(duration) for name, duration in estimate.times.items()}
    shown_above = {f"fit_{output}" for output in fits(estimate)}
    facts |= {name.replace("_", " "): format_number(number) for name, number in estimate.statistics.items()
              if name not in shown_above}
    facts["problem hash"] = estimate.problem.content_hash()[:16]
    versions = [*(_version(package) for package in PACKAGES), f"Python {platform.python_version()}"]
    facts["page written with"] = ", ".join(versions)
    return filled(TEMPLATE, facts=facts)


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} (not installed)"


SECTION = Section("run", "Run", body)
