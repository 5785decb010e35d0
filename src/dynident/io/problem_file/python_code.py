"""Python code: what does a Python file that a problem names call by a name? Its code is run; whether it may is asked before."""

from __future__ import annotations

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from dynident.errors import ProblemError


def python_attribute(file: Path, name: str, attribute: str, source: bytes) -> Any:
    """None where the file holds no such name; `name` is what the problem file calls it.

    The `source` itself is run: Python's own loader would take compiled code that lies in __pycache__ beside it, of which nobody
    asked and which may hold anything.
    """
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ProblemError(f"'{name}' is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        if isinstance(spec.loader, SourceFileLoader):
            exec(compile(source, str(file), "exec", dont_inherit=True), module.__dict__)
        else:
            spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        raise ProblemError(f"{name} raised {type(error).__name__}: {error}.") from error
    return getattr(module, attribute, None)
