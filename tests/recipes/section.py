"""Toy section: how many samples were fitted, in a sentence."""

from __future__ import annotations

from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.html_document import Section, filled


def sample_count(estimate: Estimate) -> Markup | None:
    return filled("<p>{{ count }} samples went into this toy section.</p>",
                  count=sum(experiment.samples for experiment in estimate.problem.experiments))


SAMPLE_COUNT = Section("sample-count", "How many samples", sample_count)
