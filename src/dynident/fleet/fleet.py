"""Fleet: what is asked of every record, and what they have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynident._util.data_classes import short_fields
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.fleet.records import FleetRecord, records_from
from dynident.methods.method import Method
from dynident.methods.presets import method_from, plain_method
from dynident.parallel.tasks import RETRIES
from dynident.problem.model import Model
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class TaskSpec:
    """What travels to the workers: everything but the records."""

    model: Any  # a Model
    parameters: tuple[Parameter | InitialState, ...]
    constraints: tuple[Any, ...]
    method: Any  # a Method, or None for the one that suits the problem
    reading: Mapping[str, Any]  # the arguments of `read_table`
    shared: tuple[str, ...]
    limit: float | None  # s

    def problem(self, record: FleetRecord) -> Problem:
        return Problem(self.model, [record.read(self.reading, self.model)], self.parameters, self.constraints)

    def method_for(self, problem: Problem, record: str) -> Method:
        """The method; one that draws random numbers gets a seed of its own for each record."""
        method = plain_method(problem) if self.method is None else self.method
        options = method.options()
        if "seed" not in options:
            return method
        return method_from({**options, "seed": derive_seed(options["seed"], record)})

    def content_hash(self) -> str:
        """Of everything that the answers depend on, apart from the records."""
        options = None if self.method is None else self.method.options()
        told = (json.dumps(self.model.definition(), sort_keys=True), repr(self.parameters), repr(self.constraints),
                json.dumps(options, sort_keys=True, default=repr), repr(sorted(self.reading.items())), repr(self.shared))
        return hashlib.sha256("\0".join(told).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Fleet:
    """One model, many records, fitted one by one; on request with parameters that the whole fleet shares.

    See the manual, howto/fleets.

    Parameters
    ----------
    model : EquationModel or FmuModel
        Of every record.
    records : str, or sequence of paths or of Experiment
        A pattern of file names such as "data/{machine}/{time}.csv", or the files or experiments themselves.
    parameters : sequence of Parameter or InitialState, default ()
        As in `Problem`.
    method : method, str or mapping, optional
        As in `identify`.
    reading : mapping of str to object, optional
        Arguments of `read_table` for the files: `{"time": "t", "inputs": ["u"], "outputs": ["y"]}`.
    constraints : sequence of str, default ()
        As in `Problem`.
    shared : sequence of str, default ()
        Parameters with one value in all records.
    timeout : float, optional
        Seconds for the fit of one record.
    retries : int, default 1
        How often a record is tried again whose worker was lost, that ran over its time, or that met an unforeseen error.
    folder : str or Path, default "."
        In which the pattern is looked for.

    Raises
    ------
    ProblemError
        With everything that is wrong, and for a fleet without records.
    NotSupported
        For shared parameters together with constraints.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> records = [di.Experiment([0, 1, 2, 3], outputs={"x": x}, name=name) for name, x in
    ...            {"a": [1.0, 0.61, 0.37, 0.22], "b": [1.0, 0.37, 0.14, 0.05]}.items()]
    >>> len(di.Fleet(decay, records, [di.Parameter("k", start=1, lower=0)]).records)
    2
    """

    model: Any
    records: Any  # kept as a tuple of FleetRecord
    parameters: Sequence[Parameter | InitialState] = ()
    method: Any = None  # a Method, its name or its options
    reading: Mapping[str, Any] = field(default_factory=dict)
    constraints: Sequence[Any] = ()
    shared: Sequence[str] = ()
    timeout: float | None = None
    retries: int = RETRIES
    folder: str | Path = "."

    __repr__ = short_fields

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise ProblemError(f"the model is a {type(self.model).__name__}; use EquationModel(...) or another model of "
                               "dynident.")
        faults = self._faults()
        try:
            records = records_from(self.records, Path(self.folder))
        except ProblemError as error:
            faults += error.faults
        else:
            faults += ["the fleet has no record; give at least one."] * (not records)
        if faults:
            raise ProblemError(faults)
        if self.shared and self.constraints:
            raise NotSupported("Parameters that a fleet shares cannot be combined with constraints; leave one of them out.")
        given = {"records": records, "parameters": tuple(self.parameters), "shared": tuple(self.shared),
                 "constraints": tuple(self.constraints), "reading": dict(self.reading),
                 "method": None if self.method is None else method_from(self.method)}
        for key, value in given.items():
            object.__setattr__(self, key, value)

    def _faults(self) -> list[str]:
        faults = []
        free = [p.name for p in self.parameters if isinstance(p, Parameter) and p.free]
        for name in self.shared:
            if name not in free:
                faults.append(f"shared names '{name}', which is not a free parameter.{did_you_mean(name, free)}")
        if self.timeout is not None and not self.timeout > 0:
            faults.append(f"timeout = {self.timeout}; give a positive number of seconds, or leave it out.")
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            faults.append(f"retries = {self.retries!r}; give a whole number from 0 on.")
        return faults

    @property
    def task_spec(self) -> TaskSpec:
        """What travels to the workers, which is everything but the records."""
        return TaskSpec(self.model, tuple(self.parameters), tuple(self.constraints), self.method, self.reading,
                        tuple(self.shared), self.timeout)

    def content_hash(self) -> str:
        """A hash of everything that the answers depend on, apart from the records."""
        return self.task_spec.content_hash()

    def problem(self, record: FleetRecord) -> Problem:
        """The problem of one record, to look at it by itself."""
        return self.task_spec.problem(record)


def derive_seed(seed: int, record: str) -> int:
    """A seed for one record, whoever fits it and when."""
    return int.from_bytes(hashlib.sha256(f"{seed} {record}".encode()).digest()[:4], "big")
