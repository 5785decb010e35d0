"""Fault places: of which line of a problem file does a fault of the whole problem speak?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dynident.io.problem_file.write import KeyPath
from dynident.problem.experiment import Experiment

_IN_EXPERIMENTS = (  # words of a fault -> the table in which its subject stands
    (r"(?:the )?constant '(\w+)'", "constants"), (r"'(\w+)' is a constant of the", "constants"),
    (r"initial state of '(\w+)' on the way to rest", "steady initial"),
    (r"'(\w+)' begins on its way to rest", "steady initial"),
    (r"initial state of '(\w+)'", "initial"), (r"'(\w+)' in `initial`", "initial"),
    (r"standard deviation of '(\w+)'", "outputs"))


def place_of(fault: str, experiments: Sequence[tuple[int, Experiment]]) -> KeyPath:
    """The key that a sentence is about, or () where its words do not tell; experiments with the number of their entry."""
    for number, (k, experiment) in enumerate(experiments, 1):
        name = experiment.name or ("experiment" if len(experiments) == 1 else f"experiment {number}")  # as the problem calls it
        if fault.startswith(f"{name}: "):
            for words, table in _IN_EXPERIMENTS:
                if found := re.match(words, fault[len(name) + 2:]):
                    return "experiment", k, *table.split(), found.group(1)
    found = re.match(r"parameter '(\w+)'", fault)
    return ("parameters", found.group(1)) if found else ()
