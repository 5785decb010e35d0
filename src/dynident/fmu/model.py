"""FmuModel: how does a model that another tool exported become a model of a problem, and can it do what is asked of it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

from dynident.errors import NotSupported, ProblemError
from dynident.fmu.archive import digest_of, existing_fmu, extract, restore, snapshot
from dynident.fmu.description import INTERFACES, NUMBER_TYPES, FmuDescription, FmuVariable, read_description, summarize
from dynident.fmu.model_checks import (
    USUAL_SCHEME,
    as_names,
    as_path,
    choice_faults,
    complaint_notes,
    idle_option_faults,
    option_faults,
    range_notes,
    values_by_name,
)
from dynident.fmu.simulation_spec import SimulationSpec
from dynident.fmu.simulator import FmuRecordSimulator, FmuSimulator
from dynident.fmu.source_code import compile_sources
from dynident.problem.model import NominalValue
from dynident.tolerances import CVODE_TOLERANCE, FMU_TOLERANCE

KIND = "fmu"


@final
class FmuModel:
    """A model from an FMU file (FMI 2.0 or 3.0, Co-Simulation or Model Exchange).

    Parameters and initial states that a problem does not declare keep the values of the FMU. See the manual, methods/fmu.

    Parameters
    ----------
    path : str or Path
        The file.
    inputs : sequence of str, optional
        Variables that records drive; all declared inputs if left out.
    outputs : sequence of str, optional
        Variables that are measured; any variable may be one, all declared outputs if left out.
    values : mapping of str to float or str, optional
        Other variables that are set for good, in the units of the FMU, of any type and causality that may be set; inputs that
        no record holds, too.
    kind : str, default "auto"
        "model_exchange", "co_simulation", or "auto": Model Exchange where offered.
    integrator : str, default "runge_kutta"
        For Model Exchange: "runge_kutta", "radau" for stiff models, or "cvodes", slow and adaptive, to check these.
    alignment : str, default "sampled"
        For Co-Simulation: "feedthrough" saves steps where outputs follow inputs without dynamics.
    tolerance : float, optional
        Relative error that is asked of the solver inside of a Co-Simulation FMU, and of "cvodes". If left out, 1e-6 or what the
        description asks for if that is less, and a fit tightens it until a tenth of it moves no estimate by more than 0.1
        standard errors; 1e-10 for "cvodes".
    trusted : bool, default False
        Whether the FMU runs in this process; otherwise it has a process of its own.
    time_limit : float, default 60.0
        Seconds after which a simulation that hangs is ended.

    Raises
    ------
    ProblemError
        For a file that is no FMU, and for options and names that do not suit it.
    NotSupported
        For an FMU of another version of FMI, without the interface asked for, or without code for this machine.

    Examples
    --------
    >>> import dynident as di
    >>> try:
    ...     di.FmuModel("robot.fmu")
    ... except di.ProblemError as error:
    ...     print(error)
    robot.fmu does not exist.
    """

    def __init__(self, path: str | Path, *, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None,
                 values: Mapping[str, float | str] | None = None, kind: str = "auto", integrator: str = "runge_kutta",
                 alignment: str = "sampled", tolerance: float | None = None, trusted: bool = False,
                 time_limit: float = 60.0):
        self.path = existing_fmu(as_path(path))
        self.digest = digest_of(self.path)
        self.description: FmuDescription = read_description(self.path)
        d, variables = self.description, self.description.variables
        faults = option_faults(kind, integrator, alignment, time_limit, tolerance)
        self.values = MappingProxyType(values_by_name(values, faults))
        chosen_inputs, chosen_outputs = as_names("inputs", inputs, faults), as_names("outputs", outputs, faults)
        faults += choice_faults(d, chosen_inputs or (), chosen_outputs or (), self.values)
        if faults:
            raise ProblemError(list(dict.fromkeys(faults)))
        self.options: dict[str, Any] = {"kind": kind, "integrator": integrator, "alignment": alignment,
                                        "tolerance": None if tolerance is None else float(tolerance), "trusted": bool(trusted),
                                        "time_limit": float(time_limit)}
        self._fixed = {variables[n].place: n for n in self.values}
        self.inputs = tuple(self._declared_inputs() if chosen_inputs is None else chosen_inputs)
        self.outputs = tuple([n for n, v in variables.items() if v.causality == "output" and v.type in NUMBER_TYPES]
                             if chosen_outputs is None else chosen_outputs)
        if not self.outputs:
            raise ProblemError(f"{self.path.name} declares no output; name what is measured with outputs=[...].")
        free = {n: v for n, v in variables.items() if v.place not in self._fixed}
        self.parameters = tuple(n for n, v in free.items() if v.can_be_estimated)
        self.states = tuple(n for n in d.states if n in free and free[n].start is not None
                            and free[n].settable_before_start)
        self.kind, self.notes = self._choose_kind(kind)
        if faults := idle_option_faults(self.path.name, self.kind, integrator, alignment):
            raise ProblemError(faults)
        self.notes += complaint_notes(d) + range_notes(d, self.values)
        used = [*self.inputs, *self.outputs, *self.parameters, *self.states]
        time = next((v.unit for v in variables.values() if v.causality == "independent" and v.unit), "s")
        self.units = MappingProxyType({"time": time, **{n: variables[n].unit for n in used if variables[n].unit}})
        self.name = self.description.name

    def __repr__(self) -> str:
        return (f"FmuModel({self.path.name}, {self.kind}, {len(self.parameters)} parameters, {len(self.inputs)} inputs, "
                f"{len(self.outputs)} outputs)")

    # what is asked of any model

    modes = ("",)
    hybrid = False
    sample_time: float | None = None
    delays = ()

    @property
    def nominal_values(self) -> Mapping[str, NominalValue]:
        """Start values, bounds and units that the FMU brings along, for parameters and initial states."""
        return {n: _given(self.description.variables[n]) for n in (*self.parameters, *self.states)}

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the model lives in, as they were when it was made; a saved problem takes them along."""
        return (snapshot(self.path, self.digest),)

    @property
    def static(self) -> bool:
        """Outputs follow inputs at once; only Model Exchange tells of the states inside."""
        d = self.description
        sampled = any(v.variability == "discrete" and v.causality != "input" for v in d.variables.values())
        return "model_exchange" in d.interfaces and not (d.states or d.indicators or sampled)

    @property
    def stepwise(self) -> tuple[str, ...]:
        """Inputs that jump and never move (whole numbers, switches, and what the FMU calls discrete)."""
        own = {n: self.description.variables[n] for n in self.inputs}
        return tuple(n for n, v in own.items() if v.event_only)

    @property
    def tolerance(self) -> float:
        """What the FMU is asked for: what the user says, else what its description says, where that is tight."""
        given, own = self.options["tolerance"], self.description.tolerance
        return given if given is not None else min(FMU_TOLERANCE, own) if own and own > 0 else FMU_TOLERANCE

    def definition(self) -> dict[str, Any]:
        """What the answer depends on, as plain data; the file by its name and content."""
        options = {key: self.options[key] for key in ("integrator", "alignment", "tolerance") if self.options[key] is not None}
        return {"kind": KIND, "fmu": self.path.name, "sha256": self.digest, "inputs": list(self.inputs),
                "outputs": list(self.outputs), "values": dict(self.values), "interface": self.kind, **options}

    def __reduce__(self) -> tuple:
        return same_model, self.identity()

    def identity(self) -> tuple[str, str, str, dict[str, Any]]:
        """What makes the same model in another process: file, copy of it, digest, and options."""
        return str(self.path), str(*self.files), self.digest, {
            "inputs": list(self.inputs), "outputs": list(self.outputs), "values": dict(self.values), **self.options}

    def with_options(self, **options: Any) -> FmuModel:
        """The same model with other options."""
        path, copy, digest, said = self.identity()
        return same_model(path, copy, digest, {**said, **options})

    def content_hash(self) -> str:
        """A fingerprint of the file."""
        return self.digest

    def __str__(self) -> str:
        return summarize(self.description, self.kind)

    def why_not_estimable(self, name: str) -> str:
        """A sentence about a variable that is not among the parameters; empty where there is nothing to say."""
        v = self.description.variables.get(name)
        if v is None:
            return ""
        if fixed := self._fixed.get(v.place):
            also = f", which is another name of '{fixed}'," if fixed != name else ""
            return f"'{name}'{also} has a value of its own in FmuModel(values=...); take it out there."
        article = "an" if v.causality[0] in "aeiou" else "a"
        what = f"'{name}' of {self.path.name} is {article} {v.causality}" if v.causality != "parameter" else (
            f"'{name}' of {self.path.name} is a parameter of type {v.type}" if not v.real else
            f"'{name}' of {self.path.name} is a parameter without a start value, or one that is {v.variability}")
        way_out = f"; fix it with FmuModel(..., values={{'{name}': ...}})" if v.settable_before_start and (
            v.type in NUMBER_TYPES) else ""
        return f"{what} and cannot be estimated{way_out}."

    # simulation

    def simulator(self, written: Iterable[str], restarts: bool = False) -> FmuSimulator:
        """Simulates for values of these parameters and initial states; the others keep the FMU's own values. `restarts`: by
        Model Exchange with exactly these states, whatever initialisation makes of them."""
        names = tuple(written)
        by_place: dict[tuple[str, int, int], str] = {}
        for name in names:
            v = self.description.variables[name]
            other = by_place.setdefault(v.place, name)
            if other != name:
                raise ProblemError(f"'{other}' and '{name}' are two names of one variable of {self.path.name}; "
                                   "declare one of them.")
        return FmuSimulator(self, names, restarts)

    def record_simulator(self, declared: Iterable[str], integrator: str) -> FmuRecordSimulator:
        """Simulates records of a problem that declares these parameters and states; `integrator` may only say what the
        model says."""
        if integrator not in (USUAL_SCHEME, self.options["integrator"]):
            raise ProblemError(f"integrator = {integrator!r} is for models with equations; {self.path.name} is integrated as "
                               "FmuModel(..., integrator=...) says.")
        return FmuRecordSimulator(self, declared)

    @property
    def restart_obstacle(self) -> str:
        """Why a simulation cannot begin with any state at any time; empty where it can."""
        d, file = self.description, self.path.name
        if not d.states:
            return f"{file} names no states" + ("" if "model_exchange" in d.interfaces else "; only Model Exchange has to")
        exact = {n for n in self.states if self.kind == "model_exchange" or d.variables[n].initial == "exact"}
        if bad := [n for n in d.states if n not in exact]:
            return f"state '{bad[0]}' of {file} cannot be set ({len(bad)} of {len(d.states)} states)"
        memory = [n for n, v in d.variables.items() if v.variability == "discrete" and v.causality in ("local", "output")]
        return f"{file} remembers more than its states: '{memory[0]}' is discrete" if memory else ""

    @property
    def shown_states(self) -> Mapping[str, str]:
        """States that an output is another name of, and that output."""
        variables = self.description.variables
        outputs = {variables[n].place: n for n in reversed(self.outputs)}
        return {n: outputs[variables[n].place] for n in self.states if variables[n].place in outputs}

    def segment_simulator(self, declared: Iterable[str], integrator: str) -> FmuRecordSimulator:
        """As `record_simulator`, for pieces of records that begin with any state."""
        if obstacle := self.restart_obstacle:
            raise NotSupported(f"{obstacle[0].upper()}{obstacle[1:]}.")
        same = self.record_simulator(declared, integrator)
        return FmuRecordSimulator(self, same.declared, restarts=True)

    def simulation_spec(self, written: tuple[str, ...], restarts: bool = False) -> SimulationSpec:
        """What a simulation needs to know when these parameters and initial states are written."""
        d = self.description
        interface = d.interfaces[self.kind]
        used = {*self.inputs, *self.outputs, *self.states, *written, *self.values}
        references = {d.variables[n].reference for n in used if d.variables[n].size > 1}
        variables = {n: v for n, v in d.variables.items() if n in used or v.reference in references}
        folder = extract(*self.files)
        if interface.build is not None:
            compile_sources(folder, interface.build, self.path.name)
        return SimulationSpec(
            file=self.path.name, folder=str(folder), library=interface.library, identifier=interface.identifier,
            version=d.version, token=d.token, tolerance=self.tolerance, exchange=self.kind == "model_exchange",
            states=len(d.states), indicators=d.indicators, needs_completed=interface.needs_completed_step,
            variable_steps=interface.variable_steps, feedthrough=self._feedthrough,
            alignment="feedthrough" if self.static else self.options["alignment"],
            scheme=self.options["integrator"], inputs=self.inputs, outputs=self.outputs, observed=self.states,
            written=written, variables=variables,
            constants={n: v for n, v in self.values.items() if not isinstance(v, str)},
            texts={n: v for n, v in self.values.items() if isinstance(v, str)},
            state_places=tuple(written.index(n) for n in d.states) if restarts and self.kind == "model_exchange" else (),
            state_references=tuple(d.variables[n].reference for n in d.states if n in d.variables),
            rate_references=tuple(d.variables[n].reference for n in d.rates if n in d.variables),
            scheme_tolerance=self.options["tolerance"] or CVODE_TOLERANCE, differentiable=self._differentiable(written))

    @property
    def _feedthrough(self) -> bool:
        """Whether what is measured may follow an input at once; only of outputs the description says so."""
        said = (*self.description.states, *(n for n in self.outputs if self.description.variables[n].causality == "output"))
        return bool(self.inputs) and (self.description.feedthrough or not set(self.outputs) <= set(said))

    def _differentiable(self, written: tuple[str, ...]) -> bool:
        """Whether directional derivatives, if they are right, give those of a simulation: fixed steps without events,
        and plain numbers throughout."""
        d, interface = self.description, self.description.interfaces[self.kind]
        names = (*d.states, *d.rates, *self.outputs, *written)
        plain = all(n in d.variables and d.variables[n].size == 1 and d.variables[n].type in ("Real", "Float64")
                    and d.variables[n].variability != "discrete" for n in names)
        calm = not d.indicators and not interface.needs_completed_step and not any(
            d.variables[n].variability == "discrete" for n in self.inputs)
        return (self.kind == "model_exchange" and interface.directional and plain and calm
                and self.options["integrator"] == "runge_kutta")

    def _choose_kind(self, asked: str) -> tuple[str, tuple[str, ...]]:
        offered, missing = self.description.interfaces, self.description.missing
        if asked != "auto" and asked not in offered:
            raise NotSupported(f"{self.path.name} offers no {asked.replace('_', ' ')}, only "
                               f"{' and '.join(k.replace('_', ' ') for k in offered)}.")
        chosen = asked if asked != "auto" else next((k for k in INTERFACES if k in offered and k not in missing), None)
        if chosen is None or chosen in missing:
            raise NotSupported(next(iter(missing.values())))
        note = (f"{self.path.name} needs the tool that made it to be installed.",) if offered[chosen].needs_tool else ()
        if asked == "auto" and len(offered) > 1 and chosen == "model_exchange":
            return chosen, (*note, f"{self.path.name} offers both interfaces; Model Exchange is used, since there the "
                                   "integrator's error is ours to check.")
        if chosen == "co_simulation":
            both = "model_exchange" in {*offered} - {*missing}
            way = 'Use kind="model_exchange"' if both else "Export it for Model Exchange"
            return chosen, (*note, f"{self.path.name} runs by Co-Simulation: the solver inside of it is hidden, and an "
                                   f"error of that solver moves the estimate unseen. {way} to check.")
        return chosen, note

    def _declared_inputs(self) -> list[str]:
        """All that no value holds; of several names of one input the first."""
        first: dict[tuple[str, int, int], str] = {}
        for name, v in self.description.variables.items():
            if v.causality == "input" and v.type in NUMBER_TYPES and v.place not in self._fixed:
                first.setdefault(v.place, name)
        return list(first.values())


def same_model(path: str, copy: str, digest: str, options: Mapping[str, Any]) -> FmuModel:
    """The model of this `identity`; refuses where its file is no longer to be had."""
    return FmuModel(restore(Path(path), Path(copy), digest), **options)


def _given(v: FmuVariable) -> NominalValue:
    return NominalValue(float(v.start or 0.0), v.lower, v.upper, v.unit)
