"""Capabilities: what of a problem does each method take, and what does it say about the rest?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from dynident._util.contracts import meets
from dynident.errors import NotSupported, ProblemError
from dynident.models.equations import EquationModel
from dynident.problem.model import Model
from dynident.problem.noise import Bounded, LogNormal, formula_of
from dynident.problem.problem import Problem
from dynident.transcription.simulators import SimulatedModel

BOUNDED = ("{method} needs a standard deviation, but the errors of {outputs} are Bounded. A bound says nothing about how "
           "likely an error inside it is: say Gaussian(std, bound=radius) if you can state both, or use set_membership() for "
           "what a bound can prove.")
EQUATIONS = "{method} needs a model with equations, not {model}."
RESTARTS = "{method} needs a model with equations, or an FMU whose state can be set, not {model}{obstacle}."
MODES = ("{method} needs a model with one mode, but this one has {modes}. Methods that follow the modes: single_shooting(), "
         "multiple_shooting() and least_squares().")
STATELESS = ("{method} needs a model with states, but this one has none: there is nothing to discretize or to filter. Use "
             "single_shooting() or least_squares().")
DEAD_TIME = ("{method} needs a rate that depends on the inputs of now, but this model has a dead time ({delays}). Methods "
             "that take it: single_shooting(), multiple_shooting() and least_squares(). Where the dead time is known, "
             "full_discretization() takes it too.")
DISCRETE_TIME = ("{method} needs a model in continuous time, but this one steps by {sample_time:g} (next=...). Methods that "
                 "take it: single_shooting(), multiple_shooting() and least_squares().")
CONSTRAINTS = ("{method} takes bounds on parameters, but no other constraints, and the problem has '{constraint}'. Leave it "
               "out, or use {instead}.")
PROCESS_NOISE = ("{method} takes the model as undisturbed, but the problem states process noise of {names}. Use "
                 "prediction_error(), which takes it, or leave it out (problem.with_output_noise_only()) for output error.")
INPUT_NOISE = ("{method} takes its inputs as exact, but the problem states noise of {names}. Use prediction_error(), which "
               "takes it, or leave it out (problem.with_output_noise_only()) for output error.")
FILTERED = ("{method} compares sample by sample, but {names} went through a filter, and the model's output must go through it "
            "too. Use least_squares(), which simulates whole records, or leave the filter out.")
ALGEBRAIC = ("{method} takes rates that are formulas, but the model has the algebraic variables {names}. Solve 0 = g for them "
             "by hand, or use {instead}.")
NONLINEAR_ALGEBRAIC = ("{method} takes algebraic variables that enter linearly, which can be eliminated; {names} do not. Use "
                       "{instead}.")
UNCERTAIN_TIMES = ("{method} takes the times of samples as exact, but {label} states time_radius. Use set_membership(), which "
                   "takes it for smooth models, or leave it out.")
STATE_BOUNDS = "{method} takes constraints between parameters, but no bounds on states ('{constraint}'); use {instead}."


EXPERIMENT_CONSTANTS = ("{method} takes constants that are the same in all experiments, but {names} differ. Methods that take "
                        "them: single_shooting(), multiple_shooting(), full_discretization() and least_squares().")
INITIAL_FORMULAS = ("{method} takes initial states that are numbers or unknowns, but those of '{experiment}' follow from the "
                    "parameters. Methods that take them: single_shooting(), multiple_shooting() and least_squares().")
NOISE_FORMULAS = ("{method} takes standard deviations that are numbers, or unknown and one per output, but that of '{output}' "
                  "is the formula '{formula}'. Use single_shooting(), or automatic(), which restarts it.")
LOG_NORMAL = ("{method} takes errors that add, but those of {outputs} are LogNormal. Methods that take them: "
              "single_shooting(), multiple_shooting() and least_squares().")
PRIORS_ON_LOGARITHMS = ("{method} takes priors on values, but that of {name} is one on its {on}. Methods that take it: "
                        "single_shooting(), multiple_shooting(), full_discretization() and least_squares().")
REPEATED_TIMES = ("{method} takes one sample at a time, but '{experiment}' has several at t = {time:g}. Methods that take "
                  "them: single_shooting(), multiple_shooting() and least_squares().")


class Support(StrEnum):
    """What a method does with a feature of a problem."""

    YES = "yes"
    NO = "no"  # refused before anything is computed
    IGNORED = "ignored"  # what comes out holds with it and without it


@dataclass(frozen=True)
class Capabilities:
    """One row of the table: which features of a problem a method takes.

    `instead` names a way out for constraints and state bounds; `because` goes on after "not FmuModel".
    """

    bounds: Support = Support.YES  # on parameters
    priors: Support = Support.YES
    missing_values: Support = Support.YES  # NaN among the measured values
    several_experiments: Support = Support.YES
    gaussian_noise: Support = Support.YES
    estimated_noise: Support = Support.YES  # Gaussian() without a std
    bounded_noise: Support = Support.NO
    black_boxes: Support = Support.NO  # models that show no equations: FMUs, functions that simulate
    settable_states: Support = Support.NO  # such models where a simulation can begin with any state: FMUs by Model Exchange
    hybrid_models: Support = Support.NO  # modes and transitions
    models_without_states: Support = Support.NO
    algebraic_variables: Support = Support.YES  # that enter linearly: eliminated before a method sees them
    nonlinear_algebraic_variables: Support = Support.YES  # found by Newton's method
    dead_times: Support = Support.NO  # delay(u, theta)
    discrete_time: Support = Support.NO  # next=...
    constraints: Support = Support.NO  # between parameters
    state_bounds: Support = Support.NO
    robust_losses: Support = Support.NO  # as an option of the method
    process_noise: Support = Support.NO  # a model that may err
    uncertain_times: Support = Support.NO  # samples whose times are known within a radius
    experiment_constants: Support = Support.NO  # that differ between experiments
    initial_formulas: Support = Support.NO  # initial states that follow from parameters, states of rest included
    noise_formulas: Support = Support.NO  # Gaussian("a + b*abs(y)")
    log_normal_noise: Support = Support.NO
    priors_on_logarithms: Support = Support.NO
    repeated_times: Support = Support.NO  # several samples at one time
    input_noise: Support = Support.NO  # inputs whose sensor errs, or behind which something disturbs
    filtered_outputs: Support = Support.NO  # prepared by lowpass, detrend or differentiate
    refusals: Mapping[str, str] = field(default_factory=dict)  # by feature: a sentence of the method's own
    instead: Mapping[str, str] = field(default_factory=dict)  # by feature: the way out


def check_supports(problem: Problem, name: str, takes: Capabilities, fits: bool = True) -> None:
    """Raise NotSupported for the first feature of a problem that a method does not take; ProblemError for too few data."""
    for feature, sentence in REFUSALS.items():
        if getattr(takes, feature) is Support.NO and (facts := FEATURES[feature](problem)) is not None:
            sentence = RESTARTS if feature == "black_boxes" and takes.settable_states is Support.YES else sentence
            said = takes.refusals.get(feature, sentence)
            raise NotSupported(said.format(method=name, instead=takes.instead.get(feature, INSTEAD), **facts))
    if fits and takes.gaussian_noise is not Support.NO and problem.too_few_values:  # only a set may be larger than a point
        raise ProblemError(problem.too_few_values)


CONDITIONS: Mapping[str, Any] = dict.fromkeys(  # what whoever simulates from an initial state takes
    ("experiment_constants", "initial_formulas", "log_normal_noise", "priors_on_logarithms", "repeated_times"), Support.YES)


def refuse_drawn_noise(problem: Problem, name: str) -> None:
    """For what draws errors that add."""
    if problem.weighs_by_model:
        raise NotSupported(f"{name} draws errors of a given size, but here they follow from the model (a formula, or "
                           "LogNormal). Use di.profile(estimate).")


def refuse_robust_loss(problem: Problem, loss: str) -> None:
    """Weights that follow from the model leave nothing to weigh by the size of a residual."""
    if problem.weighs_by_model and loss != "squared":
        raise NotSupported(f"loss=\"{loss}\" takes standard deviations that are given, or one per output; with formulas of "
                           "them, and with log-normal errors, use loss=\"squared\".")


INSTEAD = "a method that takes them: single_shooting(), multiple_shooting(), full_discretization() or least_squares()"
REFUSALS = {  # in the order in which they are looked for; what is missing here is refused by the methods themselves
    "black_boxes": EQUATIONS, "settable_states": EQUATIONS, "hybrid_models": MODES, "bounded_noise": BOUNDED,
    "dead_times": DEAD_TIME, "discrete_time": DISCRETE_TIME,
    "models_without_states": STATELESS, "algebraic_variables": ALGEBRAIC,
    "nonlinear_algebraic_variables": NONLINEAR_ALGEBRAIC, "constraints": CONSTRAINTS, "state_bounds": STATE_BOUNDS,
    "process_noise": PROCESS_NOISE, "input_noise": INPUT_NOISE, "experiment_constants": EXPERIMENT_CONSTANTS,
    "initial_formulas": INITIAL_FORMULAS, "noise_formulas": NOISE_FORMULAS, "log_normal_noise": LOG_NORMAL,
    "priors_on_logarithms": PRIORS_ON_LOGARITHMS, "repeated_times": REPEATED_TIMES, "filtered_outputs": FILTERED,
    "uncertain_times": UNCERTAIN_TIMES}


# which problems have a feature, and the facts of its sentence

Facts = dict[str, Any] | None


def _listed(key: str, names: Iterable[str], mark: str = "") -> Facts:
    """The names in one text; None where there are none."""
    text = ", ".join(f"{mark}{name}{mark}" for name in names)
    return {key: text} if text else None


def _first(facts: Iterable[dict[str, Any]]) -> Facts:
    return next(iter(facts), None)


def _of_equations(model: Model) -> EquationModel | None:
    return model if isinstance(model, EquationModel) else None


def _black_box(problem: Problem) -> Facts:
    """That can only be simulated from its start, or not at all."""
    model = problem.model
    simulated = meets(model, SimulatedModel)
    if isinstance(model, EquationModel) or (simulated and not model.restart_obstacle):
        return None
    why = f": {model.restart_obstacle}. Use least_squares(), which simulates records as a whole" if simulated else ""
    return {"model": type(model).__name__, "obstacle": why}


def _settable_states(problem: Problem) -> Facts:
    model = problem.model
    return {"model": type(model).__name__} if meets(model, SimulatedModel) and not model.restart_obstacle else None


def _hybrid(problem: Problem) -> Facts:
    model = _of_equations(problem.model)
    return _listed("modes", model.modes if model and model.hybrid else (), "'")


def _with_noise(problem: Problem, kind: type) -> Facts:
    return _listed("outputs", sorted({name for e in problem.experiments for name, n in e.noise.items() if isinstance(n, kind)}))


def _algebraic(problem: Problem) -> Facts:
    model = _of_equations(problem.model)
    return _listed("names", model.algebraic if model else (), "'")


def _nonlinear_algebraic(problem: Problem) -> Facts:
    found = _algebraic(problem)
    return None if found is None or problem.model.algebraic_system.affine else found


def _discrete_time(problem: Problem) -> Facts:
    sample_time = problem.model.sample_time
    return None if sample_time is None else {"sample_time": sample_time}


def _input_noise(problem: Problem) -> Facts:
    behind = [name for name in problem.process_noise if name in problem.model.inputs]
    return _listed("names", [f"the input {name}" for name in (*problem.noisy_inputs, *behind)])


def _experiment_constants(problem: Problem) -> Facts:
    names = dict.fromkeys(name for e in problem.experiments for name in e.constants if name in problem.model.parameters)
    return _listed("names", [name for name in names if len({e.constants.get(name) for e in problem.experiments}) > 1])


def _repeated_times(problem: Problem) -> Facts:
    return _first({"experiment": e.name, "time": float(e.time[int(np.argmax(repeated))])} for e in problem.experiments
                  if np.any(repeated := np.diff(e.time) == 0))


FEATURES: Mapping[str, Callable[[Problem], Facts]] = {
    "black_boxes": _black_box, "settable_states": _settable_states, "hybrid_models": _hybrid,
    "bounded_noise": lambda problem: _with_noise(problem, Bounded),
    "dead_times": lambda problem: _listed("delays", [each.text for each in problem.model.delays]),
    "discrete_time": _discrete_time,
    "models_without_states": lambda problem: None if problem.model.states else {},
    "algebraic_variables": _algebraic, "nonlinear_algebraic_variables": _nonlinear_algebraic,
    "constraints": lambda problem: _first({"constraint": c.text} for c in problem.constraints),
    "state_bounds": lambda problem: _first({"constraint": c.text} for c in problem.constraints
                                           if c.of_states(problem.model.states)),
    "process_noise": lambda problem: _listed("names", [name for name in problem.process_noise
                                                       if name in problem.model.states]),
    "input_noise": _input_noise, "experiment_constants": _experiment_constants,
    "initial_formulas": lambda problem: _first(
        {"experiment": e.name} for e, b in zip(problem.experiments, problem.bindings, strict=True)
        if b.first_state is not None),
    "noise_formulas": lambda problem: _first({"output": name, "formula": text} for e in problem.experiments
                                             for name, n in e.noise.items() if (text := formula_of(n)) is not None),
    "log_normal_noise": lambda problem: _with_noise(problem, LogNormal),
    "priors_on_logarithms": lambda problem: _first({"name": u.name, "on": u.prior.on} for u in problem.unknowns
                                                   if u.prior is not None and u.prior.on != "lin"),
    "repeated_times": _repeated_times,
    "filtered_outputs": lambda problem: _listed("names", problem.filtered_outputs),
    "uncertain_times": lambda problem: _first({"label": e.label} for e in problem.experiments if np.any(e.time_radius))}
