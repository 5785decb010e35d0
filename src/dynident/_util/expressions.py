"""Expressions of SymPy where text is taken: by what they have, never by importing the package."""

from __future__ import annotations

from typing import Any

from dynident._util import hooks


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
