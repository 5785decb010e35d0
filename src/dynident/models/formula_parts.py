"""Formula parts: how a model of equations is told more of them, and asked for formulas of its parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import casadi

from dynident.models.definition import column_vector
from dynident.models.parser import names_in, parse_expression


class FormulaParts:
    """What a model that is plain data can do with formulas over its own names."""

    states: tuple[str, ...]
    algebraic: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    constants: Mapping[str, float]
    name: str
    _definition: dict[str, Any]

    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """The model as plain data."""

    @classmethod
    @abstractmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> Self:
        """The model that `definition()` describes."""

    @property
    def _label(self) -> str:
        return f"model '{self.name}'" if self.name else "the model"

    @property
    def words(self) -> tuple[str, ...]:
        """What moves: states, algebraic variables, inputs, definitions and outputs."""
        return tuple(dict.fromkeys([*self.states, *self.algebraic, *self.inputs, *self._definition["definitions"],
                                    *self.outputs]))

    @property
    def output_texts(self) -> Mapping[str, str]:
        """Outputs as they are written."""
        return MappingProxyType(self._definition["outputs"])

    def names_in(self, text: str, where: str) -> tuple[str, ...]:
        """Names that a formula over this model uses."""
        return names_in(text, where, self._definition.get("tables", {}))

    def with_formulas(self, outputs: Mapping[str, str], parameters: Sequence[str]) -> Self:
        """The same model with more outputs, and parameters that need not occur in any equation."""
        if not outputs and not parameters:
            return self
        said = self.definition()
        said["outputs"] |= outputs
        said["parameters"] += list(parameters)
        said["unused"] = [*said.get("unused", ()), *parameters]
        return self.from_definition(said)

    def parameter_formula(self, formulas: Sequence[str]) -> casadi.Function:
        """Formulas of parameters and constants, as a function of all parameters."""
        p = casadi.SX.sym("p", len(self.parameters))
        known = {**{name: casadi.SX(value) for name, value in self.constants.items()},
                 **{name: p[i] for i, name in enumerate(self.parameters)}}
        return casadi.Function("formula", [p], [column_vector(parse_expression(text, known) for text in formulas)])
