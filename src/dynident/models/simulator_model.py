"""SimulatorModel: how does a function that simulates, whatever is inside, become a model of a problem?"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np

from dynident.errors import NotSupported, ProblemError, SimulationDiverged, did_you_mean
from dynident.models.definition import names_of, numbers_of
from dynident.models.isolated_call import CallFailed, IsolatedFunction, packed, unpacked
from dynident.problem.model import NominalValue

KIND = "simulator"


class NamedValues(dict[str, Any]):
    """Values by name, also as attributes (`p.k`) and by number (`p[0]`)."""

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self:
            raise AttributeError(f"there is no '{name}'.{did_you_mean(name, self)}")
        return self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedValues, (dict(self),)


class UnavailableFunction:
    """A function of a saved problem whose code was not read."""

    def __init__(self, where: str, code: str = ""):
        self.where, self.code = where, code

    def __call__(self, *_: Any) -> Any:
        raise NotSupported(f"the simulator {self.where} is code, which a problem file does not run unless it is trusted: read "
                           "the problem with allow_code=True (--allow-code), with that file beside it.")


@final
class SimulatorModel:
    """A model that can only be simulated: any function of times, inputs and parameters.

    A program behind a socket, a package of its own, a `solve_ivp` that cannot be traced. Derivatives come from differences with
    steps above the simulator's own noise, or from `jacobian`, once differences have confirmed it. Fitted by `least_squares`
    (what `automatic` takes); it has no states: initial states are parameters. See the manual, howto/simulators.

    Parameters
    ----------
    simulate : callable
        `simulate(t, u, p)` returns a dict from output to array, one value per time. `t` are the times of the record, `u` holds
        the inputs there and `p` the parameters, by name (`p["k"]`, `p.k`). What it raises rejects these values.
    parameters : sequence of str
        Their names.
    outputs : sequence of str
        Names of what it returns.
    jacobian : callable, optional
        `jacobian(t, u, p)` returns a dict from output to an array (times, parameters), or to a dict from parameter to array.
    inputs : sequence of str, default ()
        Names of inputs that records hold.
    isolated : bool, default False
        Whether it runs in processes of its own: a crash or a hang then rejects the values and ends nothing, and several
        simulations run side by side.
    time_limit : float, default 60.0
        Seconds after which an isolated simulation is ended.
    starts : mapping of str to float, optional
        Start values that the model brings along, in the units of the parameters.
    units : mapping of str to str, optional
        By name, and of "time"; records are checked against them.
    name : str, default ""
        For reports.

    Raises
    ------
    ProblemError
        For names that are none, and options that make no sense.

    Examples
    --------
    >>> import numpy as np
    >>> import dynident as di
    >>> def simulate(t, u, p):
    ...     return {"y": p.a * np.exp(-p.k * t)}
    >>> model = di.SimulatorModel(simulate, parameters=["a", "k"], outputs=["y"])
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"y": [2.0, 1.21, 0.74, 0.45]}, noise={"y": di.Gaussian(0.01)})
    >>> problem = di.Problem(model, [record], [di.Parameter("a", start=1), di.Parameter("k", start=1)])
    >>> print(f"{di.identify(problem).values['k']:.2f}")
    0.50
    """

    modes = ("",)
    hybrid = False
    stepwise: tuple[str, ...] = ()
    sample_time: float | None = None
    delays = ()
    states: tuple[str, ...] = ()

    def __init__(self, simulate: Callable[..., Any], parameters: Sequence[str], outputs: Sequence[str],
                 jacobian: Callable[..., Any] | None = None, *, inputs: Sequence[str] = (), isolated: bool = False,
                 time_limit: float = 60.0, starts: Mapping[str, float] | None = None, units: Mapping[str, str] | None = None,
                 name: str = ""):
        faults: list[str] = []
        self.parameters = tuple(names_of("parameters", parameters, faults))
        self.outputs = tuple(names_of("outputs", outputs, faults))
        self.inputs = tuple(names_of("inputs", inputs, faults))
        self.starts = MappingProxyType(numbers_of(starts or {}, faults, "start of"))
        self.units = MappingProxyType({str(k): str(v) for k, v in (units or {}).items()})
        faults += [f"{what} is {function!r}, which cannot be called." for what, function in
                   (("simulate", simulate), ("jacobian", jacobian)) if function is not None and not callable(function)]
        faults += ["simulate is None; give a function simulate(t, u, p)."] * (simulate is None)
        faults += ["a simulator needs an output; outputs is empty."] * (not self.outputs)
        faults += [f"starts names '{n}', which is not a parameter.{did_you_mean(n, self.parameters)}"
                   for n in self.starts if n not in self.parameters]
        twice = sorted({*self.parameters} & {*self.inputs})
        faults += [f"'{n}' is declared as parameter and as input. Each name means one thing: rename one." for n in twice]
        if isinstance(time_limit, bool) or not isinstance(time_limit, (int, float)) or not time_limit > 0:
            faults.append(f"time_limit = {time_limit!r}; give a positive number of seconds.")
        if faults:
            raise ProblemError(faults)
        self.simulate, self.jacobian, self.name = simulate, jacobian, str(name)
        self.isolated, self.time_limit = bool(isolated), float(time_limit)

    restart_obstacle = "a simulator has no states that could be set"
    shown_states: Mapping[str, str] = MappingProxyType({})

    @property
    def nominal_values(self) -> Mapping[str, NominalValue]:
        """Of the parameters for which the model brings a start along (`starts`)."""
        return {name: NominalValue(value) for name, value in self.starts.items()}

    def why_not_estimable(self, name: str) -> str:
        """Nothing: what is no parameter is not handed to the simulator."""
        return ""

    def definition(self) -> dict[str, Any]:
        """The model as plain data: where its code stands and a fingerprint of it, not the code."""
        run: dict[str, Any] = {"simulate": _place(self.simulate), "code": _fingerprint(self.simulate)}
        run |= {"jacobian": _place(self.jacobian)} if self.jacobian is not None else {}
        run |= {"isolated": True, "time_limit": self.time_limit} if self.isolated else {}
        return {"kind": KIND, "name": self.name, "simulator": run, "parameters": list(self.parameters),
                "outputs": list(self.outputs), "inputs": list(self.inputs), "units": dict(self.units),
                "starts": dict(self.starts)}

    def record_simulator(self, declared: Iterable[str], integrator: str) -> CallableSimulator:
        """For records of a problem; it needs to know nothing of what the problem declares."""
        return CallableSimulator(self)

    def segment_simulator(self, declared: Iterable[str], integrator: str) -> Any:
        """There is none: nothing inside can be set."""
        raise NotSupported(f"Of a record only the whole can be simulated: {self.restart_obstacle}.")

    def __reduce__(self) -> tuple[Any, ...]:
        options = {"inputs": self.inputs, "isolated": self.isolated, "time_limit": self.time_limit, "starts": dict(self.starts),
                   "units": dict(self.units), "name": self.name}
        return _unpacked_model, (packed(self.simulate), self.parameters, self.outputs, packed(self.jacobian), options)

    def __repr__(self) -> str:
        return (f"SimulatorModel {self.name}".rstrip() + f"({_place(self.simulate)}, parameters: {', '.join(self.parameters)}; "
                f"outputs: {', '.join(self.outputs)})")


def _unpacked_model(simulate: bytes, parameters: tuple[str, ...], outputs: tuple[str, ...], jacobian: bytes,
                    options: dict[str, Any]) -> SimulatorModel:
    return SimulatorModel(unpacked(simulate), parameters, outputs, unpacked(jacobian), **options)


def _unwrapped(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function) if callable(function) else function


def _place(function: Any) -> str:
    """'pump.py:simulate', as a problem file names it."""
    if isinstance(function, UnavailableFunction):
        return function.where
    inner = _unwrapped(function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    try:
        return f"{Path(inspect.getsourcefile(inner) or '').name}:{name}"
    except TypeError:  # built in, or an object
        return f":{name}"


def _fingerprint(function: Any) -> str:
    """Of the text of a function, where there is one; a result says whether it was changed since."""
    if isinstance(function, UnavailableFunction):
        return function.code
    try:
        return hashlib.sha256(inspect.getsource(_unwrapped(function)).encode()).hexdigest()
    except (OSError, TypeError):
        return ""


class CallableSimulator:
    """A user's function along the records of a problem."""

    adaptive = True  # its steps are its own
    hidden_solver = True
    keeps_tolerance = False
    static = False
    stiff_alternative = ""
    notes: tuple[str, ...] = ()

    def __init__(self, model: SimulatorModel):
        self.model = model
        self.integrator = "the simulator itself"
        self.thread_safe = self.own_process = model.isolated
        self.has_derivatives = model.jacobian is not None
        self._simulate, self._jacobian = model.simulate, model.jacobian
        if model.isolated:
            self._simulate = IsolatedFunction(model.simulate, model.time_limit)
            self._jacobian = None if model.jacobian is None else IsolatedFunction(model.jacobian, model.time_limit)

    def run(self, p: np.ndarray, x0: np.ndarray, grid: Any, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        returned = self._called(self._simulate, p, grid)
        outputs, count = np.full((grid.nodes, len(self.model.outputs)), np.nan), grid.nodes - grid.offset
        for j, name in enumerate(self.model.outputs):
            outputs[grid.offset:, j] = self._column("simulate", returned, name, (count,))
        asked = np.broadcast_to(grid.output_mask[:, None] > 0, outputs.shape)
        needed = grid.finite_mask if grid.finite_mask.shape[1] else asked
        bad = np.argwhere(~np.isfinite(outputs) & (needed > 0))
        if bad.size:
            node, j = bad[0]
            raise SimulationDiverged(float(grid.time[node]), int(node), what=f"output '{self.model.outputs[j]}' is not finite")
        return outputs, np.zeros((grid.nodes, 0))

    def derivatives(self, p: np.ndarray, x0: np.ndarray, grid: Any, by_parameters: np.ndarray, by_initials: np.ndarray
                    ) -> np.ndarray:
        assert self._jacobian is not None
        returned = self._called(self._jacobian, p, grid)
        count, names = grid.nodes - grid.offset, self.model.parameters
        found = np.zeros((grid.nodes, len(self.model.outputs), len(by_parameters)))
        for j, name in enumerate(self.model.outputs):
            own = returned.get(name) if isinstance(returned, Mapping) else None
            if isinstance(own, Mapping):
                found[grid.offset:, j] = np.column_stack([
                    self._column(f"jacobian: '{name}'", own, names[i], (count,)) for i in by_parameters])
            else:
                whole = self._column("jacobian", returned, name, (count, len(names)))
                found[grid.offset:, j] = whole[:, [int(i) for i in by_parameters]]
        return found

    def with_tighter_tolerance(self) -> None:
        return None

    def with_visible_solver(self) -> None:
        return None

    def modes(self, p: np.ndarray, x0: np.ndarray, grid: Any) -> np.ndarray | None:
        return None

    def _called(self, function: Callable[..., Any], p: np.ndarray, grid: Any) -> Any:
        model = self.model
        inputs = NamedValues({name: np.array(grid.u_node[grid.offset:, k]) for k, name in enumerate(model.inputs)})
        values = NamedValues({name: float(value) for name, value in zip(model.parameters, p, strict=True)})
        try:
            return function(np.array(grid.time[grid.offset:]), inputs, values)
        except CallFailed as failure:
            raise SimulationDiverged(math.nan, 0, what=f"the simulator failed: {failure}", lost=failure.crash) from None
        except (ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError) as error:
            raise SimulationDiverged(math.nan, 0, what=f"the simulator raised {type(error).__name__}: "
                                     f"{str(error).rstrip('.')}") from error

    def _column(self, what: str, returned: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """One entry of what a function returned; of another form it is the function that is wrong, not the values."""
        if not isinstance(returned, Mapping):
            raise ProblemError(f"{what} returned a {type(returned).__name__}; return a dict from name to array, such as "
                               f"{{\"{self.model.outputs[0]}\": ...}}.")
        if name not in returned:
            raise ProblemError(f"{what} returned no '{name}', but {', '.join(map(str, returned)) or 'nothing'}.")
        column = np.asarray(returned[name], dtype=float)
        if column.shape != shape and column.size == math.prod(shape):
            column = column.reshape(shape)
        if column.shape != shape:
            raise ProblemError(f"{what} returned '{name}' of shape {column.shape}, but {shape} was asked for: a value per time"
                               f"{' and parameter' * (len(shape) > 1)}.")
        return column

    def __reduce__(self) -> tuple[Any, ...]:
        return CallableSimulator, (self.model,)
