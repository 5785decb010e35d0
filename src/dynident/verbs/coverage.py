"""Coverage: may I believe these intervals? A Monte Carlo study: simulate the fitted model with its noises, refit, and count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident._util.progress import reporter
from dynident.errors import DynidentError, NotConverged, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.kalman.prediction_error.noisy_simulation import simulate_disturbed
from dynident.methods.capabilities import refuse_drawn_noise
from dynident.methods.presets import method_from
from dynident.models.equations import EquationModel
from dynident.parallel.tasks import as_completed, describe_loss
from dynident.problem.experiment import Experiment
from dynident.problem.problem import given_std
from dynident.solvers.solver_result import Iteration
from dynident.statistics.coverage_result import Coverage
from dynident.statistics.quantisation import quantisation_step
from dynident.statistics.residual_tests import whiteness
from dynident.verbs.identify import identify
from dynident.verbs.multistart import with_start
from dynident.verbs.simulate import simulate

FEWEST_REFITS = 20  # repeats below which a share says nothing
MOST_FAILED_REFITS = 0.2  # share of refits that may fail before the rest is no fair sample; more than in bootstrap, since
# what is counted is the share of the intervals that were given, which few extreme records move little
UNIFORM_STEPS_PER_STD = np.sqrt(12)  # steps per standard deviation of an error that is uniform over one


@dataclass(frozen=True, eq=False)
class NoiseSource:
    """What records are drawn from: values and noises, and which of them there are, as a sentence."""

    estimate: Estimate
    drawn: str


@dataclass(frozen=True)
class Repeat:
    """What one refit said, per unknown."""

    number: int
    converged: bool
    inside: tuple[bool, ...] = ()
    errors: tuple[float, ...] = ()


@single_thread()
def coverage(estimate: Estimate, repeats: int = 200, seed: int = 0, executor: Executor | None = None,
             progress: Callable[..., object] | bool | None = None, resume: str | Path | None = None) -> Coverage:
    """How often the intervals of an estimate hold the truth, found by refits to simulated records.

    Every noise is drawn where it physically is: in the sensors (quantised ones are quantised), behind inputs, on states. An
    output-error fit whose residuals are not white is asked with the noises that prediction error finds in its record; with its
    own it would flatter itself. Inputs are those of the record: a controller does not react to what is drawn. See the manual,
    explain/coverage.

    Parameters
    ----------
    estimate : Estimate
        A converged one, by any method with intervals.
    repeats : int, default 200
        Number of simulated records; 200 tell a share of 95 % to 3 %.
    seed : int, default 0
        The same seed gives the same numbers on any executor.
    executor : concurrent.futures.Executor, optional
        Runs the refits side by side.
    progress : callable or bool, optional
        Called after each refit; False for silence.
    resume : path, optional
        A file that keeps every refit that is done; called again with it, only those that are missing are computed.

    Returns
    -------
    Coverage
        Shares and bias per unknown; print it.

    Raises
    ------
    ProblemError
        For options that make no sense, and a file of another estimate.
    NotConverged
        Where so many refits fail that the rest would be no fair sample.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> found = di.coverage(di.identify(problem, "multiple_shooting"), repeats=40)
    >>> abs(found.bias("k")) < 0.5
    True
    """
    if repeats < FEWEST_REFITS:
        raise ProblemError(f"repeats = {repeats}; a share needs at least {FEWEST_REFITS}.")
    if not estimate.converged or not np.all(np.isfinite([estimate.values[n] for n in estimate.problem.names])):
        raise ProblemError("coverage simulates the fitted model, but this estimate has no optimum to simulate at.")
    refuse_drawn_noise(estimate.problem, "coverage")
    source = noise_source(estimate)
    kept = _KeptRepeats.open(resume, estimate, seed)
    tasks = [(k,) for k in range(repeats) if k not in kept.done]
    with reporter(progress) as tell:
        for ended in as_completed(_repeat, (estimate, source, seed), tasks, executor):
            if ended.error is not None:
                raise describe_loss(ended.error, ended.attempts)
            kept.add(ended.value)
            tell(Iteration(len(kept.done), float(_share(kept.done.values())), 0.0))
    return _result(estimate, source, [kept.done[k] for k in range(repeats)])


def _share(repeats: Any) -> float:
    inside = [all(r.inside) for r in repeats if r.converged]
    return float(np.mean(inside)) if inside else np.nan


def _result(estimate: Estimate, source: NoiseSource, repeats: list[Repeat]) -> Coverage:
    good = [r for r in repeats if r.converged]
    failed = len(repeats) - len(good)
    if failed > MOST_FAILED_REFITS * len(repeats):
        raise NotConverged(f"{failed} of {len(repeats)} refits did not converge; the rest would be no fair sample.")
    names = estimate.problem.names
    truth = np.array([float(source.estimate.values[n]) for n in names])
    inside, errors = np.array([r.inside for r in good], bool), np.array([r.errors for r in good], float)
    return Coverage(names, truth, inside, errors, failed, drawn=source.drawn)


# one record


def noise_source(estimate: Estimate) -> NoiseSource:
    """The estimate itself, or prediction error on its record where its residuals show that it does not know its noises."""
    problem, known = estimate.problem, estimate
    white = all(whiteness(np.asarray(r)).passed for record in estimate.residuals for r in record.values()
                if np.any(np.isfinite(r)))
    blind = not (process_noise_of(estimate) or estimate.input_noise or white)
    told = ""
    if blind and isinstance(problem.model, EquationModel) and not problem.model.hybrid:
        try:
            found = identify(problem, method_from("prediction_error"), progress=False)
            known = found if found.process_noise else estimate
        except DynidentError:
            told = " Its residuals are not white, and prediction error found no noise that explains it: the shares flatter."
        if known is not estimate:
            told = " The residuals of the estimate are not white, so that values and noises are those of prediction error."
    parts = [f"{name} {std:.3g} (sensor)" for name, std in {**known.noise_std, **known.input_noise}.items()]
    parts += [f"{name} {std:.3g} (disturbance)" for name, std in process_noise_of(known).items()]
    return NoiseSource(known, f"Drawn with normal noise of standard deviation {', '.join(parts)}.{told}")


def process_noise_of(estimate: Estimate) -> dict[str, float]:
    """What disturbs the model, as the estimate says or as its filter assumed (per second)."""
    if estimate.process_noise or estimate.filtered is None or estimate.filtered.process_noise_unit != "second":
        return dict(estimate.process_noise)
    return {n: std for n, std in estimate.filtered.process_noise.items() if n in estimate.problem.model.states}


def _repeat(common: tuple[Estimate, NoiseSource, int], number: int) -> Repeat:
    estimate, source, seed = common
    rng = np.random.default_rng([seed, number])  # of each repeat its own, whoever computes it
    problem, names = estimate.problem, estimate.problem.names
    parameters_move = estimate.filtered is not None and estimate.filtered.parameters  # a filter begins at what was known before
    values = {} if parameters_move else {n: float(estimate.values[n]) for n in names}
    try:
        drawn = with_start(problem, values).replace(experiments=draw_experiments(source.estimate, rng))
        found = identify(drawn, estimate.method, progress=False)
    except DynidentError:
        return Repeat(number, False)
    truth = [float(source.estimate.values[n]) for n in names]
    ends = [found.uncertainty.interval(n) for n in names]
    std = [found.uncertainty.std(n) for n in names]
    with np.errstate(all="ignore"):
        errors = (np.array([found.values[n] for n in names], float) - truth) / np.array(std, float)
    return Repeat(number, True, tuple(bool(low <= t <= high) for t, (low, high) in zip(truth, ends, strict=True)),
                  tuple(float(e) if np.isfinite(e) else np.nan for e in errors))


def draw_experiments(known: Estimate, rng: np.random.Generator) -> list[Experiment]:
    """The records of an estimate, simulated anew with its values and noises."""
    problem, disturbed = known.problem, process_noise_of(known)
    unknowns = np.array([float(known.values[n]) for n in problem.names])
    substeps = int(known.counts.get("substeps", 1))
    outputs = (simulate_disturbed(problem, unknowns, disturbed, known.method.simulation_integrator, substeps, rng) if disturbed
               else [_undisturbed(known, unknowns, e) for e in range(len(problem.experiments))])
    return [_measured(known, experiment, courses, rng)
            for experiment, courses in zip(problem.experiments, outputs, strict=True)]


def _undisturbed(known: Estimate, unknowns: np.ndarray, e: int) -> np.ndarray:
    model, experiment = known.problem.model, known.problem.experiments[e]
    p, x0 = known.problem.parameters_and_initial_state(unknowns, e)
    values = dict(zip(model.parameters, p, strict=True)) | {f"{s}(0)": v for s, v in zip(model.states, x0, strict=True)}
    run = simulate(model, {name: float(v) for name, v in values.items()}, replace(experiment, initial={}),
                   known.method.simulation_integrator)
    return np.column_stack([run.outputs[name] for name in model.outputs])


def _measured(known: Estimate, experiment: Experiment, courses: np.ndarray, rng: np.random.Generator) -> Experiment:
    """What the sensors would have read; quantised where the record is, missing where it is."""
    outputs, model = {}, known.problem.model
    for name, measured in experiment.outputs.items():
        given = given_std(experiment, name)
        std = np.full(measured.size, known.noise_std.get(name, 0.0)) if given is None else given
        read = _read_by_sensor(courses[:, model.outputs.index(name)], measured, std, rng)
        outputs[name] = np.where(np.isfinite(measured), read, np.nan)
    inputs: Mapping[str, np.ndarray] = {name: u + known.input_noise.get(name, 0.0) * rng.standard_normal(u.size)
                                        if name in experiment.input_noise else u for name, u in experiment.inputs.items()}
    return replace(experiment, inputs=inputs, outputs=outputs)


def _read_by_sensor(course: np.ndarray, measured: np.ndarray, std: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With errors of its std; of a quantised signal the step makes a part of them."""
    step = quantisation_step(measured[np.isfinite(measured)])
    if step is None:
        return course + std * rng.standard_normal(course.size)
    other = np.sqrt(np.maximum(std**2 - (step / UNIFORM_STEPS_PER_STD) ** 2, 0.0))
    return step * np.round((course + other * rng.standard_normal(course.size)) / step)


# what is done already


class _KeptRepeats:
    """Refits that are done, in memory and in a file where one is named."""

    def __init__(self, path: Path | None, done: dict[int, Repeat]):
        self.path, self.done = path, done

    @classmethod
    def open(cls, path: str | Path | None, estimate: Estimate, seed: int) -> _KeptRepeats:
        if path is None:
            return cls(None, {})
        file = Path(path)
        of = hashlib.sha256(json.dumps([estimate.problem.content_hash(), sorted(estimate.values.items()),
                                        estimate.method.options(), seed], default=str).encode()).hexdigest()
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"of": of}) + "\n", encoding="utf-8")
            return cls(file, {})
        lines = file.read_text(encoding="utf-8").splitlines()
        try:
            if json.loads(lines[0])["of"] != of:
                raise ProblemError(f"{file} holds the refits of another estimate or seed. Name another file.")
            found = [json.loads(line) for line in lines[1:] if line.endswith("}")]  # a line that was cut off is done again
        except (ValueError, KeyError, IndexError) as error:
            raise ProblemError(f"{file} does not hold refits of coverage ({error}). Name another file.") from error
        return cls(file, {r["number"]: Repeat(r["number"], r["converged"], tuple(r["inside"]), tuple(r["errors"]))
                          for r in found})

    def add(self, repeat: Repeat) -> None:
        self.done[repeat.number] = repeat
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(repeat.__dict__) + "\n")
