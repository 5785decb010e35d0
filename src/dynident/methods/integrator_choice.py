"""Integrator choice: is a problem stiff, so that it takes an implicit integrator, and did the one of a fit find the solution?

Stiff is what an explicit scheme cannot follow, or only with steps that its stability asks for and its accuracy does not: the
spectral radius of the rates' Jacobian times the step is then beyond what an accurate step of it would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import casadi as ca
import numpy as np

from dynident.codegen.compiler import kernels_run
from dynident.errors import SimulationDiverged
from dynident.integrators.adaptive import RADAU5
from dynident.integrators.scheme import Adaptive, Explicit
from dynident.integrators.step_functions import symbols
from dynident.linalg.finite_problem import Variables
from dynident.methods.substeps import MAX_SUBSTEPS, choose_substeps, weighted_change
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.tolerances import INTEGRATION_TOLERANCE, STIFF_STEP
from dynident.transcription.shooting import Shooting

EXPLICIT = "runge_kutta"
JACOBIAN_SAMPLES = 10  # places of a record at which the Jacobian is looked at
OWN_STEPS = "use multiple_shooting(), which chooses its own steps between samples"
FEW_SUBSTEPS = 4  # up to so many, an explicit scheme is quicker whatever asks for them


@dataclass(frozen=True, eq=False)
class IntegratorChoice:
    """A method with its integrator named, the sub-steps that go with it at the start, and why, where that is worth a line."""

    method: Any
    substeps: int | None = None  # None: not looked for
    note: str = ""


def choose_integrator(method: Any, problem: Problem, noise_std: Mapping[str, float],
                      begin: Callable[[Shooting], Variables] = Shooting.start) -> IntegratorChoice:
    """Where a fit will `begin`. Sub-steps that were given are those of an explicit scheme."""
    if not method.chooses_integrator:
        return IntegratorChoice(method)
    usual = replace(method, integrator=method.usual_integrator)
    model = problem.model
    if not isinstance(model, EquationModel):  # it says itself how it is integrated
        return IntegratorChoice(usual)
    if not model.states or model.sample_time is not None or method.substeps != "auto":
        return IntegratorChoice(usual)
    make = cache(partial(usual.transcribe_by_shooting, problem, noise_std=noise_std))
    try:
        point = begin(make(1))
        substeps, error = choose_substeps(make, point)
    except SimulationDiverged:  # lost, which no integrator will mend
        return IntegratorChoice(usual)
    why = stiffness(make, substeps, error, point)
    implicit = replace(method, integrator=method.stiff_integrator)
    if not why or not _follows(implicit.transcribe_by_shooting(problem, 1, noise_std), begin):
        return IntegratorChoice(usual, substeps)
    note = f"{why.format(place='start')}: integrated by {implicit.integrator}."
    return IntegratorChoice(implicit, None, " ".join([note, *_too_steep(implicit, problem, noise_std, begin)]))


def choose_again(chosen: IntegratorChoice, problem: Problem, noise_std: Mapping[str, float], substeps: int, error: float,
                 point: Variables) -> IntegratorChoice | None:
    """At the solution that the usual scheme found; None where that was right."""
    make = partial(chosen.method.transcribe_by_shooting, problem, noise_std=noise_std)
    why = stiffness(make, substeps, error, point)
    if not why:
        return None
    implicit = replace(chosen.method, integrator=chosen.method.stiff_integrator)
    note = f"{why.format(place='solution')}: fitted again by {implicit.integrator}."
    return IntegratorChoice(implicit, None, note)


def stiff_advice(method: Any, problem: Problem) -> list[str]:
    """What to try where a fit by this method does not get on."""
    nothing = not problem.model.states or problem.model.sample_time  # to integrate
    if nothing or isinstance(method.make_integrator(), Adaptive):
        return []
    return ['try integrator="radau5" if the model is stiff']


def measured_start_advice(problem: Problem) -> list[str]:
    """The same from a start whose simulation leaves the record: a way that does not simulate it as a whole."""
    return ["use multiple_shooting(), which starts from the measurements"] if problem.model.states else []


def stiffness(make: Callable[[int], Shooting], substeps: int, error: float, point: Variables) -> str:
    """Why the usual scheme is left, at a {place}, given the sub-steps that it needs; empty: it is good enough.

    Steps far within its stability that are not accurate all the same are no matter of stiffness: what they err by grows along
    the record, or the model jumps.
    """
    if error <= 1 and substeps <= FEW_SUBSTEPS:
        return ""
    name, inaccurate = (finite := make(substeps)).integrator.name, not error <= 1
    try:
        product = stiff_product(finite, point)
    except SimulationDiverged:
        product = np.inf
    if inaccurate:
        if product > STIFF_STEP or not np.isfinite(error):
            return f"The model is stiff at the {{place}} ({name} is not accurate with {substeps} steps per sample)"
        return f"{substeps} steps of {name} between two samples are not accurate at the {{place}}"
    return f"The model is stiff at the {{place}} (spectral radius times step of {name} {product:.2g})" if (
        product > STIFF_STEP) else ""


def stiff_product(finite: Shooting, point: Variables) -> float:
    """Median over the records of the spectral radius of d rate/d state times the length of a step."""
    model = finite.problem.model.undelayed
    s = symbols(model)
    place = [s["t"], s["x"], s["u0"], s["p"]]
    rates = [model.mode(name).rate for name in model.modes] if model.hybrid else [model.rate]
    jacobians = [ca.Function("jacobian", place, [ca.densify(ca.jacobian(rate(*place), s["x"]))]) for rate in rates]
    values, products = finite.objective.values(point), []
    for e, (record, out) in enumerate(zip(finite.records, finite.run(point, False), strict=True)):
        p, grid = finite.problem.parameters_at(values, e), record.grid
        for k in np.unique(np.linspace(0, grid.nodes - 2, JACOBIAN_SAMPLES).astype(int)) if grid.nodes > 1 else ():
            jacobian = jacobians[0 if out.modes is None else int(out.modes[k])]
            J = np.asarray(jacobian(grid.time[k], out.states[k], grid.u_begin[k], p))
            step = (grid.time[k + 1] - grid.time[k]) / grid.substeps[k]
            products.append(step * float(np.max(np.abs(np.linalg.eigvals(J)))) if np.all(np.isfinite(J)) else np.inf)
    return float(np.median(products)) if products else 0.0


def _too_steep(method: Any, problem: Problem, noise_std: Mapping[str, float], begin: Callable[[Shooting], Variables]
               ) -> list[str]:
    """A sentence where the most steps between samples that a scheme with fixed ones may have do not follow the model."""
    finite = method.transcribe_by_shooting(problem, MAX_SUBSTEPS, noise_std)
    if isinstance(finite.integrator, Adaptive):
        return []
    check = check_integrator_at(finite, begin(finite), 1.0)
    if check.error <= 1 and not check.note:
        return []
    return [f"It moves faster than {MAX_SUBSTEPS} steps between samples follow: "
            "if this does not converge, use multiple_shooting(), "
            f"whose {RADAU5.name} chooses its own."]


def _follows(finite: Shooting, begin: Callable[[Shooting], Variables]) -> bool:
    try:
        finite.evaluate(begin(finite))
    except SimulationDiverged:
        return False
    return True


@dataclass(frozen=True)
class IntegratorCheck:
    """What an independent integrator says at a solution: the difference relative to what is harmless, or why it is silent."""

    error: float = 0.0
    relative: float = 0.0  # the same difference relative to the outputs; of schemes whose equations have several roots
    note: str = ""


def check_integrator_at(finite: Any, point: Variables, level: float) -> IntegratorCheck:
    """The trajectory of a fit against that of an integrator with error control, from the same states at the same values.

    A test by halved steps can be fooled, and an implicit step can land on another root of its equations: both go the same
    wrong way again with half the step. Without a compiler explicit schemes, which have no roots to miss, are not checked.
    """
    if not isinstance(finite, Shooting) or finite.simulated:  # a black box, whose steps are its own
        return IntegratorCheck()
    model, explicit = finite.problem.model, isinstance(finite.integrator, Explicit)
    unchecked = isinstance(finite.integrator, Adaptive) or not model.states or model.sample_time is not None
    if unchecked or (explicit and not kernels_run()):
        return IntegratorCheck()
    try:
        other = finite.simulated_by(RADAU5)
        other.run(point, False)
        change, size = weighted_change(finite, other, point, linked=True)
    except SimulationDiverged as bad:
        return IntegratorCheck(note=f"The integrator could not be checked by another one: {bad}." * (not explicit))
    if change == 0:
        return IntegratorCheck()  # of outputs that are exactly zero, too
    seen = max(INTEGRATION_TOLERANCE * level, 10 * RADAU5.relative_tolerance * size)  # its own error is no difference
    return IntegratorCheck(change / seen, change / size if size > 0 and not explicit else 0.0)
