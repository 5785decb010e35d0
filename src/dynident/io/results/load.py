"""How does a saved result become an estimate again, without a new fit?"""

from __future__ import annotations

from pathlib import Path

from dynident._util.atomic import finish_replacing, is_half_replaced
from dynident._util.lock import exclusive
from dynident.errors import ProblemError
from dynident.estimate.estimate import Estimate
from dynident.io.problem_file.read import read_problem
from dynident.io.results.estimate_json import SavedEstimate, read_method, read_saved, read_uncertainty, read_validations
from dynident.io.results.save import ESTIMATE, FILTERED, PROBLEM, SMOOTHED, TABLE, VALIDATIONS
from dynident.io.results.signal_tables import WAY_OUT, read_filtered, read_signals, read_smoothed
from dynident.problem.problem import Problem


def load(folder: str | Path) -> Estimate:
    """The estimate as it was saved; nothing is simulated. A problem that was changed since is met with a note."""
    folder = Path(folder)
    if is_half_replaced(folder):
        with exclusive(folder):
            finish_replacing(folder)
    saved = read_saved(folder / ESTIMATE)
    missing = [name for name in saved.files if not (folder / name).is_file()]
    if missing:
        raise ProblemError(f"the result in {folder} is not complete: {', '.join(missing)} "
                           f"{'is' if len(missing) == 1 else 'are'} missing. {WAY_OUT}")
    problem = read_problem(folder / PROBLEM).problem
    signals = read_signals(folder / TABLE, {e.name: tuple(e.outputs) for e in problem.experiments})
    validated = {str(k): tuple(data.get("fit") or ()) for k, data in enumerate(saved.validations)}
    validation_signals = read_signals(folder / VALIDATIONS, validated) if validated else []
    source = str(folder / ESTIMATE)
    return Estimate(
        problem=problem, method=read_method(saved), values=saved.values, uncertainty=read_uncertainty(saved, source),
        converged=saved.converged, status=saved.status, cost=saved.cost,
        trajectories=tuple(trajectory for trajectory, _ in signals),
        residuals=tuple(residuals for _, residuals in signals), noise_std=saved.noise_std,
        notes=_notes(saved, problem), history=saved.history, starts=saved.starts, counts=saved.counts,
        times=saved.times, statistics=saved.statistics,
        validations=read_validations(saved, validation_signals, source),
        filtered=read_filtered(folder / FILTERED) if FILTERED in saved.files else None,
        smoothed=read_smoothed(folder / SMOOTHED) if SMOOTHED in saved.files else None)


def _notes(saved: SavedEstimate, problem: Problem) -> tuple[str, ...]:
    if problem.content_hash() in (saved.problem_hash, saved.written_problem_hash):
        return saved.notes
    return (f"The problem beside this result ({PROBLEM} or its data) is not the one that was fitted: it was changed "
            "after the fit. Values and intervals belong to the older problem.", *saved.notes)
