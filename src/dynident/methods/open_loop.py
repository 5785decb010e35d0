"""Open loop: what does a model leave over when it is simulated from its first state with nothing but the inputs?

Residuals of a filter are those of predictions, of a smoother those of a model that may err, of a fit that did not converge
those of segments that do not meet. Belief needs those of one simulation per record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.integrators.grid import grid_of
from dynident.methods.exact_shooting import likely_shooting
from dynident.methods.noise_estimation import signal_std
from dynident.methods.ranking import SMALLEST_NOISE_FRACTION
from dynident.problem.noise import loss_and_weights
from dynident.problem.problem import Problem, given_std
from dynident.tolerances import LINEAR_ROUNDING
from dynident.transcription.initial_guess import start_values
from dynident.transcription.simulators import Simulator, declared_names, simulator_for

ROUNDINGS = 16  # of a measured value, in what is computed as measured minus (measured minus simulated) at three points
SEED, PLACES = 0, 12  # of the lines along which a model is asked whether it is linear, and how many beside the start

Residuals = Sequence[Mapping[str, np.ndarray]]  # per experiment: measured - model by output


@dataclass(frozen=True)
class Misfit:
    """Minus twice the log-likelihood of residuals, up to what all ends of a problem share; with the size that it counts in."""

    value: float
    size: float  # what a relative change is relative to

    def same(self, other: Misfit, tolerance: float) -> bool:
        return abs(self.value - other.value) <= tolerance * max(self.size, other.size)

    def better_than(self, other: Misfit, tolerance: float) -> bool:
        """Lower by more than a relative tolerance."""
        return self.value < other.value - tolerance * max(min(self.size, other.size), 1.0)


def open_loop_residuals(problem: Problem, values: Mapping[str, float], integrator: str = "runge_kutta", substeps: int = 1
                        ) -> Residuals | None:
    """Measured minus simulated at values by printed name, others from the start; None where the simulation diverges."""
    if all(name in values for name in problem.names):  # the start of a state is read off the record, which takes a while
        unknowns = np.array([values[name] for name in problem.names], float)
    else:
        unknowns = np.array([values.get(n, own) for n, own in zip(problem.names, start_values(problem), strict=True)], float)
    simulator: Simulator = simulator_for(problem.model, integrator, declared_names(problem))
    found = []
    for e, experiment in enumerate(problem.experiments):
        p, x0 = problem.parameters_and_initial_state(unknowns, e)
        grid = grid_of(problem.model, experiment, substeps)
        try:
            outputs = grid.through_filters(simulator.run(p, x0, grid)[0])[grid.offset:]
        except SimulationDiverged:
            return None
        own = {name: np.asarray(y, float) - outputs[:, problem.model.outputs.index(name)]
               for name, y in experiment.outputs.items()}
        if not all(np.all(np.isfinite(r[np.isfinite(experiment.outputs[name])])) for name, r in own.items()):
            return None
        found.append(own)
    return found


def estimate_residuals(estimate: Estimate) -> Residuals:
    """Open-loop residuals at an estimate, whatever method made it."""
    found = open_loop_residuals(estimate.problem, estimate.values, estimate.method.simulation_integrator,
                                max(1, int(estimate.counts.get("substeps", 1))))
    if found is None:
        raise ProblemError("At these values a simulation from the first state leaves the finite numbers, so that there are no "
                           "open-loop residuals; estimate.residuals are those of the method itself.")
    return tuple(found)


def linear_in_unknowns(problem: Problem) -> bool:
    """Whether the simulation is, to rounding, linear in all unknowns together: then least squares has one minimum."""
    return linear_in(problem, problem.names)


def linear_in(problem: Problem, names: Sequence[str]) -> bool:
    """Whether outputs are straight along lines that are random in these unknowns: so they are in no other case.

    Lines begin at the start and at places around it in all unknowns, since at one place, a peak beside the record, say, a
    curve may not move at all. False where no line can be simulated.
    """
    rng = np.random.default_rng(SEED)
    moves = np.array([name in names for name in problem.names])
    straight = [_straight(problem, _along(problem, place, moves * rng.uniform(0.5, 1.0, moves.size)))
                for place in _places(problem, rng)]
    asked = [each for each in straight if each is not None]
    return bool(asked) and all(asked) and all(_acts(problem, k) for k in np.flatnonzero(moves).tolist())


def _acts(problem: Problem, k: int) -> bool:
    """Whether an unknown alone moves an output at the start or at a place around it: else nobody knows whether it is linear."""
    rng = np.random.default_rng(SEED)
    return any(_moved(problem, _along(problem, place, np.arange(place.size) == k)[:2]) for place in _places(problem, rng))


def _moved(problem: Problem, ends: Sequence[np.ndarray]) -> bool:
    one, other = (open_loop_residuals(problem, dict(zip(problem.names, (float(v) for v in x), strict=True))) for x in ends)
    if one is None or other is None:
        return False
    return any(np.nanmax(np.abs(one[e][name] - other[e][name]), initial=0.0) > _rounding(np.asarray(y))
               for e, experiment in enumerate(problem.experiments) for name, y in experiment.outputs.items())


def _rounding(y: np.ndarray) -> float:
    return float(ROUNDINGS * np.finfo(float).eps * np.nanmax(np.abs(np.asarray(y, float)), initial=0.0))


def _straight(problem: Problem, line: Sequence[np.ndarray]) -> bool | None:
    """Whether the second difference of all outputs vanishes; None where a point cannot be simulated, or nothing can be seen."""
    runs = [open_loop_residuals(problem, dict(zip(problem.names, (float(v) for v in x), strict=True))) for x in line]
    if any(run is None for run in runs):
        return None
    seen = None
    for e, experiment in enumerate(problem.experiments):
        for name, y in experiment.outputs.items():
            simulated = np.array([np.asarray(y, float) - run[e][name] for run in runs if run is not None])
            size = np.nanmax(np.abs(simulated), initial=0.0)
            rounding = _rounding(np.asarray(y))
            bent = np.nanmax(np.abs(simulated[0] - 2 * simulated[1] + simulated[2]), initial=0.0)
            if bent > max(LINEAR_ROUNDING * size, rounding):
                return False
            seen = True if size > rounding else seen
    return seen


def _places(problem: Problem, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The start, and places up to two decades around it in each unknown, within the bounds."""
    at = start_values(problem)
    yield at
    size = np.array([abs(x) or u.scale or 1.0 for x, u in zip(at, problem.unknowns, strict=True)])
    lower, upper = np.array([u.lower for u in problem.unknowns], float), np.array([u.upper for u in problem.unknowns], float)
    for _ in range(PLACES):
        yield np.clip(np.where(at < 0, -1.0, 1.0) * size * 10 ** rng.uniform(-2, 2, at.size), lower, upper)


def _along(problem: Problem, at: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Three points on a line from a place, evenly spaced, within the bounds; by shares of each unknown's size."""
    scale = np.array([abs(x) or u.scale or 1.0 for x, u in zip(at, problem.unknowns, strict=True)])
    lower, upper = np.array([u.lower for u in problem.unknowns], float), np.array([u.upper for u in problem.unknowns], float)
    above, below = np.minimum(scale, (upper - at) / 2), np.minimum(scale, (at - lower) / 2)
    step = shares * np.where(above >= below, above, -below)
    return [at, at + step, at + 2 * step]


def _model_misfit(problem: Problem, values: Mapping[str, float]) -> Misfit:
    """The same where standard deviations follow from the model: they are simulated with it."""
    unknowns = np.array([values[name] for name in problem.names], float)
    try:
        finite, point, left_open = likely_shooting(problem, unknowns)
        evaluation = finite.evaluate(point)
    except (SimulationDiverged, ProblemError):
        return Misfit(np.inf, 1.0)
    counts = {name: sum(int(np.sum(np.isfinite(e.outputs[name]))) for e in problem.experiments if name in e.outputs)
              for name in left_open}
    logarithms = sum(2 * counts[name] * float(np.log(std)) for name, std in left_open.items())
    return Misfit(evaluation.cost + logarithms, max(evaluation.squares, 1.0))


def misfit(problem: Problem, residuals: Residuals, values: Mapping[str, float], loss: str = "squared") -> Misfit:
    """Squares over given variances, the logarithm of the mean square where none is given, and priors."""
    if problem.weighs_by_model:
        return _model_misfit(problem, values)
    given, estimated, counted = 0.0, 0.0, 0
    open_squares: dict[str, list[np.ndarray]] = {}
    for experiment, own in zip(problem.experiments, residuals, strict=True):
        for name, r in own.items():
            std = given_std(experiment, name)
            present = np.isfinite(np.asarray(experiment.outputs[name], float))
            if std is None:
                open_squares.setdefault(name, []).append(np.asarray(r, float)[present])
            else:
                given += loss_and_weights((np.asarray(r, float) / std)[present], loss)[0]
    for name, parts in open_squares.items():
        r = np.concatenate(parts)
        finest = SMALLEST_NOISE_FRACTION * signal_std(problem, name)
        scale = np.median(np.abs(r)) / 0.6745 if loss != "squared" and r.size else np.sqrt(np.mean(r**2)) if r.size else finest
        estimated += 2 * r.size * float(np.log(max(float(scale), finest)))
        counted += r.size
    prior = sum(u.prior.residual(values[u.name]) ** 2 for u in problem.unknowns if u.prior is not None)
    total = given + estimated + prior
    return Misfit(total if np.isfinite(total) else np.inf, max(given + prior, float(counted), 1.0))
