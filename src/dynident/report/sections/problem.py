"""What was asked (model, data, unknowns), what did it cost, and with what was it made?"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.problem.experiment import Experiment
from dynident.problem.problem import Unknown
from dynident.report.html_document import Section, filled
from dynident.report.result_table import counted, fits, format_number, method_options, seconds

LEFT_SIDES = {"states": "d/dt {}", "algebraic": "0 (gives {})", "outputs": "{}", "definitions": "{}"}  # of an equation
PROBLEM_TEMPLATE = """
<h3>Model</h3>
{% if equations %}
<div class="scroll" tabindex="0"><table class="equations"><tbody>
  {% for left, right in equations %}
  <tr><th scope="row"><code>{{ left }}</code></th><td><code>= {{ right }}</code></td></tr>
  {% endfor %}
</tbody></table></div>
{% endif %}
{% if facts %}
<dl class="listing">
  {% for name, text in facts.items() %}
  <div><dt>{{ name }}</dt><dd>{{ text }}</dd></div>
  {% endfor %}
</dl>
{% endif %}
<h3>Data</h3>
<div class="scroll" tabindex="0"><table>
  <thead><tr><th>experiment</th><th>samples</th><th>time</th><th>inputs</th><th>outputs</th><th>source</th></tr></thead>
  <tbody>
    {% for row in data %}
    <tr><th scope="row">{{ row[0] }}</th>{% for cell in row[1:] %}<td>{{ cell }}</td>{% endfor %}</tr>
    {% endfor %}
  </tbody>
</table></div>
<h3>Unknowns</h3>
<div class="scroll" tabindex="0"><table>
  <thead><tr><th>name</th><th>start</th><th>lower</th><th>upper</th><th>unit</th><th>known beforehand</th></tr></thead>
  <tbody>{% for row in unknowns %}
    <tr><th scope="row">{{ row[0] }}</th>{% for cell in row[1:] %}<td class="number">{{ cell }}</td>{% endfor %}</tr>
  {% endfor %}</tbody>
</table></div>
"""
PACKAGES = ("dynident", "casadi", "numpy", "scipy")
RUN_TEMPLATE = """
<dl class="listing">
{% for name, text in facts.items() %}<div><dt>{{ name }}</dt><dd>{{ text }}</dd></div>{% endfor %}
</dl>
"""


def asked(estimate: Estimate) -> Markup:
    problem = estimate.problem
    definition = problem.model.definition()
    written_out = [part for part in LEFT_SIDES if isinstance(definition.get(part), Mapping)]
    equations = [(LEFT_SIDES[part].format(name), text)
                 for part in written_out for name, text in definition[part].items()]
    modes, transitions = definition.pop("modes", {}), definition.pop("transitions", [])
    equations += [(f"{mode}: d/dt {name}", text) for mode, said in modes.items() for name, text in said["rate"].items()]
    facts = {key: _told(value) for key, value in definition.items() if value and key not in written_out}
    facts |= {f"mode {mode} where": said["invariant"] for mode, said in modes.items() if "invariant" in said}
    facts |= {f"transition {k}": _transition(said) for k, said in enumerate(transitions, 1)}
    return filled(PROBLEM_TEMPLATE, equations=equations, facts=facts, data=[_data_row(e) for e in problem.experiments],
                  unknowns=[_unknown_row(u) for u in problem.unknowns])


def _transition(said: Mapping[str, Any]) -> str:
    after = f", then {_told(said['reset'])}" if said.get("reset") else ""
    return f"{said['source']} → {said['target']} when {said['when']}{after}"


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_told(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_told(inner) for inner in value)
    return format_number(value) if isinstance(value, float) else str(value)


def _data_row(experiment: Experiment) -> list[str]:
    time = np.asarray(experiment.time)
    inputs = ", ".join(f"{name} ({'constant' if hold == 'zero' else 'linear'} between samples)"
                       for name, hold in experiment.hold.items())
    outputs = ", ".join(name + _missing(values) for name, values in experiment.outputs.items())
    return [experiment.name, str(experiment.samples), f"{time[0]:g} to {time[-1]:g}", inputs or "none",
            outputs or "none", experiment.source or "-"]


def _missing(values: np.ndarray) -> str:
    missing = int(np.sum(~np.isfinite(values)))
    return f" ({counted(missing, 'value')} missing)" if missing else ""


def _unknown_row(unknown: Unknown) -> list[str]:
    start = "from the data" if unknown.start is None else format_number(unknown.start)
    known = unknown.prior
    prior = "" if known is None else (f"{format_number(known.mean)} ± {format_number(known.std)} (std"
                                      f"{'' if known.on == 'lin' else f', of the {known.on}'})")
    scale = "logarithmic" if unknown.log else ""
    return [unknown.name, start, *("" if math.isinf(end) else format_number(end) for end in (unknown.lower, unknown.upper)),
            unknown.unit, "; ".join(part for part in (prior, scale) if part)]


PROBLEM = Section("problem", "Problem", asked)


def run_info(estimate: Estimate) -> Markup:
    facts = {"method": method_options(estimate), "status": estimate.status}
    if not math.isnan(estimate.cost):  # a method that proves bounds minimises nothing
        facts["cost"] = format_number(estimate.cost)
    facts |= {name.replace("_", " ").replace("jacobian", "Jacobian"): str(number) for name, number in estimate.counts.items()}
    facts |= {f"time: {name}": seconds(duration) for name, duration in estimate.times.items()}
    shown_above = {f"fit_{output}" for output in fits(estimate)}
    facts |= {name.replace("_", " "): format_number(number) for name, number in estimate.statistics.items()
              if name not in shown_above}
    facts["problem hash"] = estimate.problem.content_hash()[:16]
    versions = [*(_version(package) for package in PACKAGES), f"Python {platform.python_version()}"]
    facts["page written with"] = ", ".join(versions)
    return filled(RUN_TEMPLATE, facts=facts)


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} (not installed)"


RUN_INFO = Section("run", "Run", run_info, folded=True)
