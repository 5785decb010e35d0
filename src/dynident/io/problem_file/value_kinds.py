"""Value kinds: of which kind may a value of a problem file be, and what is said where it is another?"""

from __future__ import annotations

from typing import Any

from dynident.problem.experiment import HOLDS


def number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a number, not {shown(value)}.")
    return value


def column_reference(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be a column: its header, or its position counted from 0; not {shown(value)}.")
    return value


def equation(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"must be an equation as text, such as \"-k*x\", not {shown(value)}.")
    return value


def names_or_table(value: Any) -> Any:
    """A list of names means that each signal stands in the column of its own name."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    if not isinstance(value, dict):
        raise ValueError(f"must be a list of names or a table from name to column, not {shown(value)}.")
    return value


def signals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: {"column": it} if isinstance(it, (str, int)) else it for name, it in value.items()}
    return {name: {"column": column} for name, column in names_or_table(value).items()}


def output_equations(value: Any) -> Any:
    return names_or_table(value) if isinstance(value, list) else value


def states_or_names(value: Any) -> Any:
    """With modes, which have the rates, the states are a list of names."""
    return dict.fromkeys(value, "") if isinstance(value, list) and all(isinstance(n, str) for n in value) else value


def hold_kind(value: Any) -> Any:
    kinds = list(value.values()) if isinstance(value, dict) else [value]
    if any(kind not in HOLDS for kind in kinds):
        raise ValueError(f"must be \"zero\", \"linear\" or a table from input to one of them, not {shown(value)}.")
    return value


def size_or_formula(value: Any) -> Any:
    """The same, or a formula of it as text, which the problem reads."""
    return value if isinstance(value, str) and value.strip() else error_size(value)


def error_size(value: Any) -> Any:
    """How large the errors of a signal are: one number, or a column of the file."""
    if isinstance(value, dict):
        if set(value) != {"column"}:
            raise ValueError("must be a number or { column = ... }.")
        column_reference(value["column"])
        return value
    if not number(value) > 0:
        raise ValueError(f"is {value}, but must be positive.")
    return value


def disturbance(value: Any) -> Any:
    """How strong a disturbance is: a number, or true where it is to be found."""
    if value is not True and not number(value) > 0:
        raise ValueError(f"is {value}, but must be positive, or true where it is to be found.")
    return value


def shown(value: Any) -> str:
    """A value as it would stand in the file, if it is short."""
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else repr(value)


def raise_all(faults: list[str]) -> None:
    """One line per fault, without the name of the thing, which the path gives."""
    if faults:
        raise ValueError("\n".join(fault.split("'': ", 1)[-1].split("'' ", 1)[-1] for fault in faults))
