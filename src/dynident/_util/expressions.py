"""Expressions as text becomes a tree, and those of SymPy become text: by what they have, never by importing the package."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from dynident._util import hooks


def syntax_tree(text: str) -> ast.Expression:
    """The tree of an expression; SyntaxError where it is none, and where Python would only warn (`1if x`, `"\\d"`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return ast.parse(text, mode="eval")
        except (RecursionError, MemoryError, ValueError) as error:
            raise NestedTooDeeply(str(error)) from error


class NestedTooDeeply(SyntaxError):
    """An expression that Python's own reader gives up."""


def is_expression(value: Any) -> bool:
    """An expression of SymPy, by what it has: whoever gives one has the package."""
    return hasattr(value, "free_symbols") and hasattr(value, "func") and hasattr(value, "args")


def symbol_name(key: Any) -> str:
    """The name under which a symbol of SymPy, or a function of time such as q(t), is known; text as it is."""
    if not is_expression(key):
        return str(key)
    if type(key).__name__ == "Derivative":
        return symbol_name(key.args[0])
    return str(getattr(key, "name", None) or getattr(key.func, "__name__", str(key)))


def without_expression(value: Any) -> Any:
    """Text in the grammar of equations in place of an expression or a comparison of SymPy; everything else as it is."""
    return hooks.call("expression_text", value) if is_expression(value) else value
