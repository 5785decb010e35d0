"""Does the model follow the measurements that it was fitted to, and others?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dynident.estimate.estimate import Estimate, Validation
from dynident.report.chart_svg import drawn
from dynident.report.html_document import Section, filled
from dynident.report.result_table import counted, fits, judged_fit, percent
from dynident.report.signal_chart import (
    SignalRecord,
    drawn_records,
    expected_std,
    fitted_records,
    left_out_sentence,
    signal_chart,
    thinning_sentence,
    validated_record,
)
from dynident.statistics.residual_tests import ResidualTest
from dynident.statistics.verdict import Verdict

OPEN_RECORDS = 3  # drawn at once; the charts of more are unfolded by the reader

GRADED = """
{% macro graded(parts) %}
<ul class="graded">{% for part in parts %}
<li><strong class="grade {{ part.colour }}">{{ part.grade }}</strong>{% if part.subject %} <b>{{ part.subject }}</b>:{% endif %}
 {{ part.sentence }}</li>{% endfor %}</ul>
{% endmacro %}
"""
SIGNALS_TEMPLATE = GRADED + """
{% if parts | length > 1 %}{{ graded(parts) }}{% endif %}
<p class="hint">Wide and pale: measured; thin: the model.
{%- if filtered %} Below: innovations, the errors of predictions from all samples before, of which noise of the model and of
inputs is a part; shaded where 95 % of them were foreseen.
{%- elif shaded %} Shaded: where 95 % of the residuals belong if the noise is as stated.{% endif %}
 <span class="on-screen">Drag across a chart to look at a stretch, double-click to return.</span></p>
{% if left_out %}<p class="hint">{{ left_out }}</p>{% endif %}
{% if records | length > 1 %}
<nav class="records" aria-label="Experiments">
  {% for record in records %}
  <a href="#record-{{ loop.index }}">{{ record.name }}</a>
  {% endfor %}
</nav>
{% endif %}
{% for record in records %}
<article id="record-{{ loop.index }}">
  {% if records | length > 1 %}
  <h3>{{ record.name }}</h3>
  {% endif %}
  {% if record.thinned %}
  <p class="hint">{{ record.thinned }}</p>
  {% endif %}
  {% if loop.index > open %}
  <details><summary>Show the signals</summary>{{ record.chart }}</details>
  {% else %}
  {{ record.chart }}
  {% endif %}
</article>
{% endfor %}
"""
VALIDATION_TEMPLATE = GRADED + """
<p class="hint">Records that were not fitted: what the model predicts there is the strongest evidence for or against it.</p>
<div class="scroll" tabindex="0"><table>
  <thead><tr><th>fit of</th><th>fitted records</th>
    {% for record in records %}
    <th>{{ record.name }}</th>
    {% endfor %}
  </tr></thead>
  <tbody>
    {% for output, shares in table.items() %}
    <tr><th scope="row">{{ output }}</th>{% for share, allowed in shares %}<td class="number">{{ share }}
    {%- if allowed %} <small>{{ allowed }}</small>{% endif %}</td>{% endfor %}</tr>
    {% endfor %}
  </tbody>
</table></div>
{% for record in records %}
<article>
  <h3>{{ record.name }}</h3>
  {{ graded(record.parts) }}
  {% if record.predicted %}<p class="hint">Graded and drawn are predictions from sample to sample, by the filter of the fit with
  its noises: noise in the model or its inputs moves a record away from any simulation, however right the values are.</p>
  {% endif %}
  {% for note in record.notes %}
  <p class="hint">{{ note }}</p>
  {% endfor %}
  {% if record.thinned %}
  <p class="hint">{{ record.thinned }}</p>
  {% endif %}
  {{ record.chart }}
  {% if record.tests or record.ahead %}<details><summary>{{ record.summary }}</summary>
  {% for sentence in record.ahead %}<p class="hint">{{ sentence }}</p>{% endfor %}
  <ul class="tests">
    {% for test in record.tests %}
    <li class="{{ 'passed' if test.passed else 'missed' }}"><b>{{ 'ok' if test.passed else 'fails' }}</b>
      {{ test.sentence }}</li>
    {% endfor %}
  </ul></details>{% endif %}
</article>
{% endfor %}
"""


def signals(estimate: Estimate) -> Markup:
    chosen, points = drawn_records(estimate)
    records = fitted_records(estimate)
    expected = expected_std(estimate)
    return filled(SIGNALS_TEMPLATE, left_out=left_out_sentence(estimate), open=OPEN_RECORDS, parts=_parts(estimate.verdict),
                  filtered=estimate.filtered is not None, shaded=bool(expected),
                  records=[_drawn(records[k], expected, points) for k in chosen])


SIGNALS = Section("signals", "Signals", signals)


def _drawn(record: SignalRecord, noise_std: Mapping[str, float], points: int) -> dict[str, Any]:
    return {"name": record.name, "thinned": thinning_sentence(record, points),
            "chart": drawn(signal_chart(record, noise_std, points))}


def _parts(verdict: Verdict | None, most: int = 12) -> Sequence[Verdict]:
    """One sentence per signal, the worst first where there are too many for all."""
    parts = () if verdict is None else verdict.parts
    return parts if len(parts) <= most else sorted(parts, key=lambda part: -part.severity)[:most]


def validation(estimate: Estimate) -> Markup | None:
    if not estimate.validations:
        return None
    _, points = drawn_records(estimate)
    outputs = dict.fromkeys(output for validation in estimate.validations for output in validation.fit)
    table = {output: [_share(fits(estimate), output), *(_validated_share(v, output) for v in estimate.validations)]
             for output in outputs}
    return filled(VALIDATION_TEMPLATE, table=table, records=[_validated(estimate, v, points) for v in estimate.validations])


def _share(fit: Mapping[str, float], output: str, attainable: Mapping[str, float] | None = None) -> tuple[str, str]:
    """Fit of an output, and what the noise allows of it."""
    allowed = (attainable or {}).get(output)
    return (percent(fit[output]) if output in fit else "-"), "" if allowed is None else f"(the noise allows {percent(allowed)})"


def _validated_share(validation: Validation, output: str) -> tuple[str, str]:
    """Fit where it was judged; beside a prediction what a simulation of the whole record reaches."""
    samples, fit = judged_fit(validation)
    share, allowed = _share(fit, output, validation.attainable)
    return (share, allowed) if not samples else (
        share, f"over {counted(samples, 'sample')} ({percent(validation.fit[output])} simulated)")


def _validated(estimate: Estimate, validation: Validation, points: int) -> dict[str, Any]:
    noise = expected_std(estimate) if validation.predicted else estimate.noise_std
    shown = _drawn(validated_record(estimate, validation), noise, points)
    return {**shown, "tests": validation.tests, "notes": validation.notes, "ahead": validation.ahead_sentences,
            "summary": _summary(validation.tests), "parts": _parts(validation.verdict), "predicted": validation.predicted}


def _summary(tests: Sequence[ResidualTest]) -> str:
    failed = sum(not test.passed for test in tests)
    return (f"All {len(tests)} tests of the residuals" if len(tests) > 1 else "The test of the residuals") + (
        f" ({failed} failed)" if failed else " (passed)")


VALIDATION = Section("validation", "Validation", validation)
