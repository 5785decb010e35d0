"""How data become JSON that every reader accepts.

JSON has no NaN and no infinity: they are written as the texts "nan", "inf" and "-inf", which float() understands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_json(data: Any) -> str:
    return json.dumps(plain(data), allow_nan=False, indent=1, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Lists, numbers, texts and dicts only; anything else is left for json to refuse."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
