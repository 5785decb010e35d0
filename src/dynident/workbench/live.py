"""Live: what the page asks while somebody looks at it: records thinned to pixels, curves that follow a slider, faults."""

from __future__ import annotations

import re
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import DynidentError, ProblemError, SimulationDiverged, sentences_of
from dynident.estimate.estimate import fit_percent
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.grid import Grid, grid_of
from dynident.models.equations import EquationModel
from dynident.models.library import machines
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem, given_std
from dynident.robots.model import RobotModel
from dynident.tolerances import LIVE_CURVE_CHANGE
from dynident.transcription.initial_guess import start_values
from dynident.transcription.simulators import Simulator, declared_names, simulator_for
from dynident.workbench import mathml
from dynident.workbench.records import ProblemText, ReadableProblem, RecordCache, described, preview
from dynident.workbench.spectrum import amplitude_spectra
from dynident.workbench.wire import Message, Notify, pack_columns

MAX_LIVE_SUBSTEPS = 64  # steps between two samples beyond which a live curve is not refined
PIXELS_PER_FREQUENCY = 4  # of a spectrum that is drawn
LIVE_CURVE_TIMEOUT = 0.1  # s; a live curve is not refined beyond this
LABEL = re.compile(r"(rate|definition|output|input|parameter|constant|algebraic equation|next value)(?: of)? '([^']+)'")
TEMPLATES = {"servo_axis": "Servo axis with friction", "mass_spring_damper": "Mass, spring, damper",
             "two_mass": "Two masses, coupled", "pendulum": "Pendulum", "belt_drive": "Belt drive",
             "two_link_robot": "Robot with two links"}


class Live:
    """The problem that is on the page now, and what was computed for it."""

    def __init__(self) -> None:
        self.cache = RecordCache()
        self.opened = ReadableProblem(None, (), (), (), {})
        self.text: ProblemText | None = None
        self.curves: dict[int, LiveRecord] = {}
        self.compiled = ""  # which model by which integrator
        self.stiff = False  # even steps did not do, and those of radau5 did
        self.simulator: Simulator | None = None

    def load(self, text: str, file: str, allow_outside: bool, allow_code: bool | Sequence[str], tell: Notify) -> Message:
        """Read a problem, however faulty, and say what is in it."""
        self.text = ProblemText(text, Path(file), allow_outside, allow_code, self.cache.read)
        self.opened, self.curves, self.stiff = self.text.opened(), {}, False
        records = [described(self.opened, number) for number in range(len(self.opened.records))]
        said = {"faults": list(self.opened.faults), "content": self.opened.content, "records": records}
        return {"description": said | (_described(self.opened.said.problem) if self.opened.said else {})}, b""

    def record(self, record: int, width: int, begin: float | None, end: float | None, whole: bool, tell: Notify) -> Message:
        """What was measured, thinned to pixels: time, outputs, inputs; `whole`: also what lies outside of its window."""
        experiment = self._experiment(record)
        experiment = self._without_window(record) if whole else experiment
        thin = Thinning.of(experiment.time, width, begin, end)
        signals = [*experiment.outputs.values(), *experiment.inputs.values()]
        head = {"outputs": list(experiment.outputs), "inputs": list(experiment.inputs), "thinned": thin.edges is not None,
                "samples": thin.last - thin.first}
        return {}, pack_columns(head, [thin.times(experiment.time), *(thin.values(signal) for signal in signals)])

    def simulate(self, record: int, values: Mapping[str, float], width: int, begin: float | None, end: float | None,
                 spectrum: bool, tell: Notify) -> Message:
        """What the model does at these values, thinned by the same pixels as the record; or the spectra of both."""
        experiment = self._experiment(record)
        if self.opened.said is None:
            raise ProblemError("There is no model to simulate yet: " + self.opened.faults[0])
        began = clock.process_time()
        try:
            outputs, change = self._curve(record, experiment, values)
        except SimulationDiverged as bad:
            said = str(bad).rstrip(".")
            return {"diverged": f"{said[:1].upper()}{said[1:]}. The last good curve is shown; change the values back."}, b""
        thin = Thinning.of(experiment.time, width, begin, end)
        names = list(self.opened.said.problem.model.outputs)
        found = dict(zip(names, outputs.T, strict=True))
        if spectrum:
            part = slice(thin.first, thin.last)
            both = [np.asarray(each)[part] for name, y in experiment.outputs.items() for each in (y, found[name])]
            frequency, spectra = amplitude_spectra(np.asarray(experiment.time)[part], both, width // PIXELS_PER_FREQUENCY)
            return {}, pack_columns({"outputs": list(experiment.outputs)}, [frequency, *spectra])
        residuals = {name: np.asarray(measured) - found[name] for name, measured in experiment.outputs.items()}
        head = {"outputs": names, "residuals": list(residuals), "coarse": change > LIVE_CURVE_CHANGE, "change": change,
                "cpu_ms": 1e3 * (clock.process_time() - began), **_scores(experiment, found, residuals)}
        return {}, pack_columns(head, [thin.times(experiment.time), *map(thin.values, found.values()),
                                       *map(thin.values, residuals.values())])

    def _curve(self, record: int, experiment: Experiment, values: Mapping[str, float]) -> tuple[np.ndarray, float]:
        """By steps of even length; where shorter ones do not help and the choice is ours, by an integrator for stiff models."""
        reason: SimulationDiverged | None = None
        try:
            found = self._live(record, experiment).run(values)
            if found[1] <= LIVE_CURVE_CHANGE or not self._may_choose():
                return found
        except SimulationDiverged as bad:
            reason = bad
            if not self._may_choose():
                raise
        self.stiff, self.curves = True, {}
        try:
            return self._live(record, experiment).run(values)
        except SimulationDiverged as bad:  # the values are to blame, not the steps
            self.stiff, self.curves = False, {}
            raise (reason or bad) from None

    def _live(self, record: int, experiment: Experiment) -> LiveRecord:
        assert self.opened.said is not None
        if record not in self.curves:
            self.curves[record] = LiveRecord(_posed(self.opened.said.problem, experiment), self._simulator())
        return self.curves[record]

    def _may_choose(self) -> bool:
        """No integrator is said, and the model has equations to which another one can be applied."""
        assert self.opened.said is not None
        model = _forward(self.opened.said.problem)
        said = (self.opened.content.get("method") or {}).get("integrator", "auto")
        return said == "auto" and not self.stiff and isinstance(model, EquationModel) and not model.hybrid

    def _experiment(self, record: int) -> Experiment:
        experiment = self.opened.records[record] if 0 <= record < len(self.opened.records) else None
        if experiment is None:
            raise ProblemError("This record cannot be shown: " + " ".join(self.opened.faults or ("there is no such record.",)))
        return experiment

    def _without_window(self, record: int) -> Experiment:
        """The record as its file holds it."""
        assert self.text is not None
        source, shown = self.opened.sources[record], self._experiment(record)
        runs = self.text.runs({key: value for key, value in self.opened.table(record).items() if key != "window"})
        place = sum(each == source for each in self.opened.sources[:record])
        return runs[place] if place < len(runs) else shown

    def _simulator(self) -> Simulator:
        """Compiled once for a model, however often its problem is edited."""
        assert self.opened.said is not None
        problem, model = self.opened.said.problem, _forward(self.opened.said.problem)
        integrator = RADAU5.name if self.stiff else _integrator(self.opened)
        key = f"{model.content_hash()} {integrator}" if isinstance(model, EquationModel) else ""
        if self.simulator is None or not key or key != self.compiled:
            self.simulator, self.compiled = simulator_for(model, integrator, declared_names(problem)), key
        return self.simulator

    def preview(self, path: str, tell: Notify) -> Message:
        return {"preview": preview(Path(path))}, b""

    def petab(self, path: str, target: str, tell: Notify) -> Message:
        """A problem of PEtab, written as a problem file into a folder that is not there yet."""
        from dynident.io.petab.read import read_petab
        from dynident.io.problem_file.read import write_problem

        problem, file = read_petab(path), Path(target)
        file.parent.mkdir()
        write_problem(problem, None, file)
        return {}, b""

    def equations(self, model: dict[str, Any], tell: Notify) -> Message:
        """Faults by line, formulas, and which names are parameters, of equations that somebody is typing."""
        lines = [("states", mathml.rate_of), ("definitions", mathml.symbol), ("outputs", mathml.symbol)]
        formulas = {part: {name: mathml.equation(left(name), str(text)) for name, text in (model.get(part) or {}).items()}
                    for part, left in lines}
        faults, parameters = [], []
        try:
            parameters = list(EquationModel.from_definition({"kind": "equations", **model}).parameters)
        except DynidentError as error:
            faults = [_at_line(fault) for fault in sentences_of(error)]
        return {"formulas": formulas, "line_faults": faults, "parameters": parameters}, b""

    def templates(self, tell: Notify) -> Message:
        """Models of the library as tables of a problem file, with plausible values."""
        return {"templates": [_template(name, title) for name, title in TEMPLATES.items()]}, b""


class LiveRecord:
    """One record with a simulator; remembers how fine its steps must be."""

    def __init__(self, problem: Problem, simulator: Simulator):
        self.problem, self.simulator, self.substeps = problem, simulator, 1
        self.start = start_values(problem)
        self.grid: Grid = grid_of(problem.model, problem.experiments[0], everywhere=True)

    def run(self, values: Mapping[str, float]) -> tuple[np.ndarray, float]:
        """Outputs (samples, outputs), and how much halving the steps still changes, relative to the largest value."""
        p, x0 = self._point(values)
        began, count = clock.perf_counter(), self.substeps
        coarse = self._outputs(p, x0, count, last=self.simulator.adaptive or self.simulator.static)
        if self.simulator.adaptive or self.simulator.static:
            assert coarse is not None  # the last one raises
            return coarse, 0.0
        while True:
            late = 2 * count >= MAX_LIVE_SUBSTEPS or clock.perf_counter() - began > LIVE_CURVE_TIMEOUT
            fine = self._outputs(p, x0, 2 * count, last=late)
            change = _change(coarse, fine)
            if fine is not None and (change <= LIVE_CURVE_CHANGE or late):
                self.substeps = count
                return fine, change
            coarse, count = fine, 2 * count

    def _outputs(self, p: np.ndarray, x0: np.ndarray, substeps: int, last: bool) -> np.ndarray | None:
        """Outputs at the samples; None where shorter steps may do better."""
        try:
            outputs = self.simulator.run(p, x0, self.grid.with_substeps(substeps))[0].copy()
            return self.grid.through_filters(outputs)[self.grid.offset:]  # as those of the record
        except SimulationDiverged as bad:
            if last or bad.lost:
                raise
            return None

    def _point(self, values: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and initial state: those of the problem, and what the page says in their place."""
        p, x0 = self.problem.parameters_and_initial_state(self.start, 0)
        name = self.problem.experiments[0].name
        for names, vector in ((self.problem.model.parameters, p), ([f"{s}(0)" for s in self.problem.model.states], x0)):
            for i, quantity in enumerate(names):
                said = values.get(f"{quantity}[{name}]", values.get(quantity))
                vector[i] = vector[i] if said is None else float(said)
        return p, x0


def _posed(problem: Problem, experiment: Experiment) -> Problem:
    """The question for one record: what is declared of initial states that it knows does not concern it."""
    kept = [p for p in problem.parameters if not (isinstance(p, InitialState) and p.state in experiment.initial)]
    driven = problem.model.without_commands(experiment) if isinstance(problem.model, RobotModel) else experiment
    return Problem(_forward(problem), [driven], kept)


def _forward(problem: Problem) -> Model:
    """The model; of an arm its forward dynamics, in which what is not declared has the values of its description."""
    arm = problem.model
    return arm.forward([p.name for p in problem.parameters if isinstance(p, Parameter)]) if isinstance(arm, RobotModel) else arm


def _integrator(opened: ReadableProblem) -> str:
    """That of the method, where it names one."""
    method = opened.content.get("method") or {}
    return str(method.get("integrator", "runge_kutta")) if method.get("integrator") != "auto" else "runge_kutta"


def _change(coarse: np.ndarray | None, fine: np.ndarray | None) -> float:
    if coarse is None or fine is None:
        return 1.0
    largest = np.max(np.abs(fine), axis=0, initial=0.0)
    return float(np.max(np.max(np.abs(fine - coarse), axis=0, initial=0.0) / np.where(largest > 0, largest, 1.0), initial=0.0))


def _scores(experiment: Experiment, found: Mapping[str, np.ndarray], residuals: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Fit in percent and rms per output; the cost where all noise is given."""
    cost: float | None = 0.0
    for name, residual in residuals.items():
        std = given_std(experiment, name)
        cost = None if std is None or cost is None else cost + float(np.nansum((residual / std) ** 2))
    return {"fit": {name: fit_percent(np.asarray(experiment.outputs[name]), found[name]) for name in residuals},
            "rms": {name: float(np.sqrt(np.nanmean(r**2))) if np.any(np.isfinite(r)) else None
                    for name, r in residuals.items()},
            "cost": cost}


def _described(problem: Problem) -> dict[str, Any]:
    """Sliders: what is unknown or held, with its value at the start."""
    start = dict(zip(problem.names, start_values(problem).tolist(), strict=True))
    unknowns = [{"name": u.name, "quantity": u.quantity, "initial": u.initial, "start": start[u.name], "lower": u.lower,
                 "upper": u.upper, "log": u.log, "unit": u.unit, "free": True} for u in problem.unknowns]
    held = [{"name": p.name, "quantity": p.name, "initial": False, "start": p.start, "lower": p.lower, "upper": p.upper,
             "log": p.log, "unit": p.unit, "free": False} for p in problem.parameters
            if not isinstance(p, InitialState) and not p.free]
    order = {p.name: k for k, p in enumerate(problem.parameters) if not isinstance(p, InitialState)}
    quantities = sorted([*unknowns, *held], key=lambda q: (q["initial"], order.get(q["quantity"], 0)))
    model = problem.model
    return {"quantities": quantities, "outputs": list(model.outputs), "inputs": list(model.inputs),
            "states": list(model.states),
            "units": dict(model.units), "model": type(model).__name__, "equations": _formulas(model)}


def _formulas(model: Any) -> list[Any]:
    if not isinstance(model, EquationModel) or model.hybrid:
        return []
    told = model.definition()
    parts = [(mathml.rate_of(n), text) for n, text in dict(told.get("states") or {}).items()]
    named = {**(told.get("definitions") or {}), **(told.get("outputs") or {})}
    parts += [(mathml.symbol(n), text) for n, text in named.items()]
    return [set_ for left, text in parts if (set_ := mathml.equation(left, str(text))) is not None]


def _at_line(fault: str) -> dict[str, str]:
    """A fault of a model with the part and the name of the line that it is about."""
    found = LABEL.match(fault)
    parts = {"rate": "states", "next value": "states", "definition": "definitions", "output": "outputs"}
    return {"part": parts.get(found.group(1), found.group(1)) if found else "", "name": found.group(2) if found else "",
            "says": fault}


def _template(name: str, title: str) -> dict[str, Any]:
    model: EquationModel = getattr(machines, name)()
    told = model.definition()
    units = told.get("units") or {}
    values = machines.TYPICAL[name]
    parameters = {p: {"start": values.get(p, 1.0)} | ({"lower": 0.0} if _is_positive(p, values) else {})
                  | ({"unit": units[p]} if p in units else {}) for p in model.parameters}
    kept = {key: value for key, value in told.items() if key not in ("kind", "parameters") and value not in ("", {}, [])}
    first = (getattr(machines, name).__doc__ or "").split("\n")[0]
    return {"name": name, "title": title, "says": first, "model": kept, "parameters": parameters}


def _is_positive(name: str, values: Mapping[str, float]) -> bool:
    """A mass, a stiffness or a friction is; an offset or a centre of mass need not be."""
    return values.get(name, 0.0) > 0 and name != "offset" and not name.startswith("s")


@dataclass(frozen=True, eq=False)
class Thinning:
    """Where the pixels begin in a part of a record: all signals that are thinned by it keep their samples side by side."""

    first: int  # sample of the record
    last: int  # one beyond
    edges: np.ndarray | None  # (pixels,) samples, counted from `first`; None: as few samples as points, and all are kept

    @classmethod
    def of(cls, time: np.ndarray, width: int, begin: float | None = None, end: float | None = None) -> Thinning:
        """For times between begin and end, with a neighbour on either side, on so many pixels."""
        first = 0 if begin is None else max(0, int(np.searchsorted(time, begin, "left")) - 1)
        last = len(time) if end is None else min(len(time), int(np.searchsorted(time, end, "right")) + 1)
        last = max(last, min(first + 1, len(time)))
        if last - first <= 2 * width:
            return cls(first, last, None)
        return cls(first, last, np.linspace(0, last - first, width, endpoint=False).astype(np.int64))

    def times(self, time: np.ndarray) -> np.ndarray:
        """Two per pixel: where it begins, and its middle."""
        part = np.asarray(time[self.first:self.last], float)
        if self.edges is None:
            return part
        ends = np.append(self.edges[1:], len(part))
        return np.column_stack([part[self.edges], part[(self.edges + ends) // 2]]).ravel()

    def values(self, signal: np.ndarray) -> np.ndarray:
        """The smallest and the largest value per pixel, in the order in which the signal goes; NaN where all are missing."""
        part = np.asarray(signal[self.first:self.last], float)
        if self.edges is None:
            return part
        low, high = np.fmin.reduceat(part, self.edges), np.fmax.reduceat(part, self.edges)
        falls = part[np.append(self.edges[1:], len(part)) - 1] < part[self.edges]
        return np.column_stack([np.where(falls, high, low), np.where(falls, low, high)]).ravel()
