"""Document: the user's problem file as text; a change of one value leaves every comment and every other line as it was."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST_VALUE = 200_000  # characters of one edit, written out

Path = Sequence[str | int]


class EditError(ValueError):
    """A change that makes no sense at this place; the sentence says why."""


def edited(text: str, edits: Sequence[Mapping[str, Any]]) -> str:
    """The text after the changes `{path, value}`; a value of None removes what is there, a list index of `+` adds to a list."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, ValueError) as error:
        raise EditError(f"The file is not valid TOML: {error}. Correct it in an editor, then open it again.") from None
    for edit in edits:
        path, value = edit.get("path"), edit.get("value")
        if not isinstance(path, list) or not path or not all(isinstance(p, str | int) and p is not True for p in path):
            raise EditError("A change names its place as a list of keys.")
        if len(repr(value)) > LARGEST_VALUE:
            raise EditError("This value is too long for a problem file.")
        _change(document, path, _checked(value))
    return tomlkit.dumps(document)


def _checked(value: Any, depth: int = 0) -> Any:
    """Plain data only, as JSON brings it."""
    if depth > 12:
        raise EditError("This value is nested too deeply for a problem file.")
    if isinstance(value, dict):
        return {str(key): _checked(each, depth + 1) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_checked(each, depth + 1) for each in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise EditError("A problem file holds texts, numbers, lists and tables.")


def _change(document: Any, path: Path, value: Any) -> None:
    table = parent = document
    for key, following in itertools.pairwise(path):
        parent, table = table, _inside(table, key, following)
    last = path[-1]
    if not isinstance(table, list | dict):
        raise EditError(f"{_written(path)}: there is no table here.")
    if isinstance(table, list):
        _change_item(table, last, value)
        if not table and isinstance(parent, dict):
            parent.pop(path[-2])  # [[validation]] without an entry is not written
    elif value is None:
        if last in table:
            table.pop(last)
    elif isinstance(last, int):
        raise EditError(f"{_written(path)}: there is no list here.")
    elif last in table and not isinstance(value, dict | list):
        table[last] = value  # the comment behind it stays
    else:
        table[last] = _item(value, top=table is document)


def _inside(table: Any, key: str | int, following: str | int) -> Any:
    if isinstance(table, list):
        if not isinstance(key, int) or not 0 <= key < len(table):
            raise EditError(f"There is no entry {key} in this list.")
        return table[key]
    if not isinstance(key, str) or not hasattr(table, "get"):
        raise EditError(f"There is no table '{key}' here.")
    if key not in table:
        import tomlkit

        table[key] = tomlkit.aot() if following == "+" else tomlkit.table() if hasattr(table, "as_string") else (
            tomlkit.inline_table())
    return table[key]


def _change_item(table: Any, key: str | int, value: Any) -> None:
    if key == "+":
        table.append(_item(value, top=True))
    elif not isinstance(key, int) or not 0 <= key < len(table):
        raise EditError(f"There is no entry {key} in this list.")
    elif value is None:
        del table[key]
    else:
        table[key] = _item(value, top=True)


def _item(value: Any, top: bool) -> Any:
    """A table of its own at the top level, in one line within a table."""
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.table() if top else tomlkit.inline_table()
        for key, each in value.items():
            table[key] = _item(each, top=False)
        return table
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value) and top:
        tables = tomlkit.aot()
        for each in value:
            tables.append(_item(each, top=True))
        return tables
    return tomlkit.item(value)


def _written(path: Path) -> str:
    return ".".join(map(str, path))
