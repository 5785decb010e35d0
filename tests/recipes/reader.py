"""Toy reader: a JSON object of columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dynident.io.readers.columns import existing_file
from dynident.problem.experiment import Experiment


def read_json(path: str | Path, *, time: str, inputs: Any = (), outputs: Any = (), **options: Any) -> Experiment:
    """Like `read_csv`, from {"t": [...], "y": [...]}."""
    columns = {name: np.array(values) for name, values in json.loads(existing_file(path).read_text()).items()}
    return Experiment(columns[time], {name: columns[name] for name in inputs}, {name: columns[name] for name in outputs},
                      **options)
