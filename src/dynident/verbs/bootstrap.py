"""Bootstrap: how much would the estimate scatter in repeated experiments, and what does each record contribute?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np

from dynident._util import hooks
from dynident._util.blas_threads import single_thread
from dynident.errors import DynidentError, NotConverged, ProblemError, SimulationDiverged, did_you_mean
from dynident.estimate.estimate import Estimate, Validation
from dynident.methods.capabilities import refuse_drawn_noise
from dynident.methods.refit import Refit, refuse_other_sums
from dynident.parallel.tasks import map_ordered
from dynident.problem.problem import given_std
from dynident.statistics.bootstrap_result import Bootstrap
from dynident.tolerances import REFIT_STEP_TOLERANCE
from dynident.verbs.identify import identify
from dynident.verbs.multistart import with_start

KINDS = ("parametric", "residual_block")
CHUNKS = 8  # tasks per call of an executor; the draws do not depend on it
FEWEST_REPEATS = 20  # repeats below which no interval can be read off
MOST_FAILED_RESAMPLES = 0.1  # share of refits that may fail before the rest is no fair sample; less than in coverage, since
# these begin at the optimum, so that what fails is far out, and of what is far out the quantiles are made


@single_thread()
def bootstrap(estimate: Estimate, kind: str = "parametric", repeats: int = 200, seed: int = 0, block: int | None = None,
              executor: Executor | None = None) -> Bootstrap:
    """Refit many times to data that are resampled from the fitted model; each refit starts from the estimate.

    See the manual, explain/intervals.

    Parameters
    ----------
    estimate : Estimate
        A converged one.
    kind : str, default "parametric"
        "parametric" draws normal errors of the given or estimated standard deviation, "residual_block" blocks of residuals in a
        row, so that their correlation in time is kept.
    repeats : int, default 200
        Number of refits.
    seed : int, default 0
        The same seed gives the same numbers on any executor.
    block : int, optional
        Samples in a block of residuals; as long as they are correlated, unless given.
    executor : concurrent.futures.Executor, optional
        Runs the refits side by side.

    Returns
    -------
    Bootstrap
        All refits, with intervals, standard deviations and bias.

    Raises
    ------
    ProblemError
        For options that make no sense.
    NotConverged
        Where so many refits fail that the rest would be no fair sample.
    NotSupported
        For an estimate by a method that does not simulate whole records, such as a filter, and one by a robust loss.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> refits = di.bootstrap(estimate, repeats=50)
    >>> print(f"{refits.std('k'):.2f}")
    0.01
    """
    faults = [f"kind = '{kind}'.{did_you_mean(kind, KINDS)}"] * (kind not in KINDS)
    if repeats < FEWEST_REPEATS:
        faults.append(f"repeats = {repeats}; an interval needs at least {FEWEST_REPEATS}.")
    if faults:
        raise ProblemError(faults)
    refuse_other_sums(estimate, "bootstrap")  # said here, and not by a worker
    refuse_drawn_noise(estimate.problem, "bootstrap")
    parts = np.array_split(np.arange(repeats), CHUNKS)
    tasks = [([int(k) for k in part],) for part in parts if part.size]
    rows = [row for part in map_ordered(_part, (estimate, kind, block, seed), tasks, executor) for row in part]
    good = np.array([row for row in rows if row is not None])
    failed = repeats - len(good)
    if failed > MOST_FAILED_RESAMPLES * repeats:
        raise NotConverged(f"{failed} of {repeats} refits did not converge; the rest would be no fair sample. Profiles "
                           "tell more here: di.profile(estimate).")
    names = estimate.problem.names
    return Bootstrap(names, np.array([float(estimate.values[n]) for n in names]), good, kind, failed,
                     estimate.problem.fixed_values())


def _part(common: tuple[Estimate, str, int | None, int], numbers: Sequence[int]) -> list[np.ndarray | None]:
    estimate, kind, block, seed = common
    refit = Refit(estimate, "bootstrap", REFIT_STEP_TOLERANCE)
    fitted = refit.solve(refit.point).point
    rows: list[np.ndarray | None] = []
    for number in numbers:
        rng = np.random.default_rng([seed, number])  # of each repeat its own, whoever computes it
        try:
            outcome = refit.with_data(_resample(estimate, kind, block, rng)).solve(fitted)
        except SimulationDiverged:
            rows.append(None)
            continue
        rows.append(refit.box.values(outcome.point.unknowns) if outcome.converged else None)
    return rows


def _resample(estimate: Estimate, kind: str, block: int | None, rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    drawn = []
    records = zip(estimate.problem.experiments, estimate.trajectories, estimate.residuals, strict=True)
    for experiment, trajectory, residuals in records:
        own = {}
        for name, residual in residuals.items():
            std = given_std(experiment, name)
            size = std if std is not None else np.full(residual.size, estimate.noise_std[name])
            normal = kind == "parametric"
            errors = size * rng.standard_normal(residual.size) if normal else _blocks(residual, block, rng)
            own[name] = trajectory.outputs[name] + errors
        drawn.append(own)
    return drawn


def _blocks(residual: np.ndarray, block: int | None, rng: np.random.Generator) -> np.ndarray:
    """Stretches of the centred residuals, taken at random places and put one after the other."""
    there = residual[np.isfinite(residual)]
    centred = there - np.mean(there)
    length = int(np.clip(block or _block_length(centred), 1, centred.size))
    begins = rng.integers(0, centred.size - length + 1, -(-residual.size // length))
    return np.concatenate([centred[b:b + length] for b in begins])[:residual.size]


def _block_length(residual: np.ndarray) -> int:
    """Twice the time over which residuals stay correlated, and at least the cube root of their number."""
    n = residual.size
    power = float(residual @ residual)
    if n < 4 or power == 0:
        return 1
    spectrum = np.abs(np.fft.rfft(residual, 2 * n)) ** 2
    correlation = np.fft.irfft(spectrum)[:n] / power
    below = np.flatnonzero(correlation < 2 / np.sqrt(n))
    return int(max(round(n ** (1 / 3)), 2 * (int(below[0]) if below.size else n // 2)))


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The estimate without one record, and how well it predicts that record."""

    experiment: str
    estimate: Estimate | None
    validation: Validation | None
    reason: str = ""  # why there is none


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """One estimate per record, each made without it.

    See the manual, howto/experiments.

    Attributes
    ----------
    whole : Estimate
        Of all records.
    parts : tuple of LeftOut
        Per record: the estimate without it, the validation on it, or why there is none.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> first = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]}, name="first")
    >>> second = di.Experiment([0, 1, 2, 3], outputs={"x": [2.0, 1.20, 0.74, 0.45]}, name="second")
    >>> estimate = di.identify(di.Problem(decay, [first, second], [di.Parameter("k", start=1, lower=0)]))
    >>> print(di.leave_one_out(estimate).parts[0].experiment)
    first
    """

    whole: Estimate
    parts: tuple[LeftOut, ...]

    def shifts(self, name: str) -> dict[str, float]:
        """How far a value moves without each record, in standard deviations of the whole estimate."""
        std = self.whole.uncertainty.std(name)
        return {p.experiment: (float(p.estimate.values[name]) - float(self.whole.values[name])) / std
                for p in self.parts if p.estimate is not None and name in p.estimate.values}

    def __str__(self) -> str:
        problem = self.whole.problem
        shared = [u.name for u in problem.unknowns if len(u.experiments) == len(problem.experiments)]
        rows = []
        for part in self.parts:
            moved = [f"{self.shifts(n).get(part.experiment, np.nan):+.2f}" for n in shared]
            fits = part.validation.fit.items() if part.validation else ()
            rows.append([part.experiment, *moved, part.reason or ", ".join(f"{o} {v:.1f} %" for o, v in fits)])
        return "Change without each record, in standard deviations, and how well it is predicted:\n" + hooks.call(
            "text_table", ["without", *shared, "fit of it"], rows)


@single_thread()
def leave_one_out(estimate: Estimate, executor: Executor | None = None) -> LeaveOneOut:
    """Fit again without each record in turn, and validate on it.

    See the manual, howto/experiments.

    Parameters
    ----------
    estimate : Estimate
        A converged one, of several records.
    executor : concurrent.futures.Executor, optional
        Runs the fits side by side.

    Returns
    -------
    LeaveOneOut
        One estimate and one validation per record.

    Raises
    ------
    ProblemError
        For an estimate of a single record.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> first = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]}, name="first")
    >>> second = di.Experiment([0, 1, 2, 3], outputs={"x": [2.0, 1.20, 0.74, 0.45]}, name="second")
    >>> estimate = di.identify(di.Problem(decay, [first, second], [di.Parameter("k", start=1, lower=0)]))
    >>> list(di.leave_one_out(estimate).shifts("k"))
    ['first', 'second']
    """
    count = len(estimate.problem.experiments)
    if count < 2:
        raise ProblemError("leave_one_out needs at least two experiments, and this estimate has one.")
    return LeaveOneOut(estimate, tuple(map_ordered(_drop_experiment, estimate, [(k,) for k in range(count)], executor)))


def _drop_experiment(estimate: Estimate, k: int) -> LeftOut:
    problem = estimate.problem
    out = problem.experiments[k]
    alone = estimate.filtered is None and estimate.smoothed is None  # else a start may be what is known beforehand: a filter
    # that began at the whole estimate would know of the record that is left out
    values = {n: float(v) for n, v in estimate.values.items() if alone and n in {p.name for p in problem.unknowns}}
    try:
        fewer = with_start(problem, values).replace(experiments=[e for i, e in enumerate(problem.experiments) if i != k])
        found = identify(fewer, estimate.method, progress=False)
        return LeftOut(out.name, found, found.validate(replace(out)))
    except DynidentError as reason:
        return LeftOut(out.name, None, None, str(reason))
