"""Model: the contract that every source of models keeps."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Model(Protocol):
    """Names of what goes in and comes out; values, bounds and data live elsewhere."""

    @property
    def states(self) -> tuple[str, ...]: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def parameters(self) -> tuple[str, ...]: ...

    def definition(self) -> dict:
        """The model as plain data (text and numbers, no code), from which it can be built again."""
        ...
