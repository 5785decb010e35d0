"""Python attribute: what does a Python file beside a problem file call by a name? Its code is run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from dynident.errors import ProblemError


def python_attribute(file: Path, name: str, attribute: str) -> Any:
    """None where the file holds no such name; `name` is what the problem file calls it."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ProblemError(f"'{name}' is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        raise ProblemError(f"{name} raised {type(error).__name__}: {error}.") from error
    return getattr(module, attribute, None)
