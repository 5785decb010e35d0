"""Fleet schema: which keys a fleet file may hold beyond those of a problem file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from dynident.io.problem_file.schema import QuestionTable, RecordTable, _Table
from dynident.io.problem_file.value_kinds import number


def _positive(value: Any) -> Any:
    if not number(value) > 0:
        raise ValueError(f"is {value}, but must be positive.")
    return value


class IndexColumns(_Table):
    """How the columns of an index are called."""

    file: str = "file"
    machine: str = "machine"
    time: str = "time"


class FleetTable(_Table):
    """Which records there are, and what the whole fleet shares."""

    records: str | None = None  # "data/{machine}/{time}.csv"
    index: str | None = None  # a table with a line per record
    columns: IndexColumns = IndexColumns()
    shared: list[str] = Field(default_factory=list)
    timeout: Annotated[Any, BeforeValidator(_positive)] = None  # s, per record
    retries: int = Field(default=1, ge=0)

    @model_validator(mode="after")
    def one_list(self) -> FleetTable:
        if (self.records is None) == (self.index is None):
            raise ValueError("needs exactly one of records and index, but has " + ("none." if self.index is None else "both."))
        if self.records is not None and "columns" in self.model_fields_set:
            raise ValueError("columns belong to an index; remove them, or name an index in the place of records.")
        return self


class FleetFileTable(QuestionTable):
    record: RecordTable
    fleet: FleetTable
