"""Judged signals: what a verdict looks at, one `SignalFit` for each output of each experiment, and the worst of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.models.equations import EquationModel
from dynident.problem.problem import stated_std
from dynident.statistics.verdict import Cause, Verdict, pool_verdicts
from dynident.statistics.verdict_rule import SignalFit
from dynident.statistics.verdict_sentences import judge_signal


def simulated_outputs(estimate: Estimate) -> Sequence[Mapping[str, np.ndarray]] | None:
    """Per experiment the outputs of one simulation; those of the estimate itself where they are that; None: it diverges."""
    simulated = (estimate.converged and estimate.smoothed is None) or not isinstance(estimate.problem.model, EquationModel)
    if simulated:  # black boxes are simulated by every method, and one that crashed is not asked again
        residuals: Sequence[Mapping[str, np.ndarray]] = estimate.residuals
    else:
        return simulated_or_none(estimate)
    return [{name: np.asarray(e.outputs[name], float) - r for name, r in own.items()}
            for e, own in zip(estimate.problem.experiments, residuals, strict=True)]


def signal_fits(estimate: Estimate, outputs: Sequence[Mapping[str, np.ndarray]] | None,
                std: Sequence[Mapping[str, np.ndarray]] | None = None) -> list[SignalFit]:
    """One per output and experiment with a measured value; `std` where it is not what the record gives."""
    problem, found = estimate.problem, []
    several = len(problem.experiments) > 1
    free = fitted_unknowns(estimate) / max(problem.measured_values, 1)
    robust = estimate.method.objective_key().get("loss", "squared") != "squared"
    for e, experiment in enumerate(problem.experiments):
        inputs = [np.asarray(u, float) for u in experiment.inputs.values()]
        for name, values in experiment.outputs.items():
            y = np.asarray(values, float)
            if not np.any(np.isfinite(y)):
                continue
            level = stated_std(experiment, name) if std is None else std[e].get(name)
            model = np.full(y.size, np.nan) if outputs is None else filled_in(outputs[e][name], y, estimate, e, name)
            found.append(SignalFit(
                f"{name} of {experiment.label}" if several else name, np.asarray(experiment.time, float), y, model, inputs,
                level, free * float(np.sum(np.isfinite(y))), len(problem.model.states),
                experiment.units.get(name) or problem.model.units.get(name, ""), robust))
    return found


def fitted_unknowns(estimate: Estimate) -> float:
    """How many the data were spent on: not those on bounds, nor directions that the data do not see."""
    measured = estimate.problem.measured_values
    return measured - estimate.statistics["dof"] if "dof" in estimate.statistics else float(len(estimate.problem.names))


def filled_in(model: np.ndarray, measured: np.ndarray, estimate: Estimate, e: int, name: str) -> np.ndarray:
    """The model's output also where nothing was measured, as far as the estimate has it."""
    own = estimate.trajectories[e].outputs.get(name) if e < len(estimate.trajectories) else None
    return np.where(np.isfinite(measured) | (own is None), model, model if own is None else own)


def pool_signals(estimate: Estimate, outputs: Sequence[Mapping[str, np.ndarray]] | None,
                 std: Sequence[Mapping[str, np.ndarray]] | None = None) -> Verdict:
    """The worst of all signals; an output that is measured in short records alone is judged over all of them."""
    fits = signal_fits(estimate, outputs, std)
    parts = [judge_signal(fit) for fit in fits]
    pooled = []
    if len(estimate.problem.experiments) > 1:
        for name in estimate.problem.model.outputs:
            short = [(fit, part) for fit, part in zip(fits, parts, strict=True) if fit.subject.startswith(f"{name} of ")]
            if len(short) > 1 and all(part.cause is Cause.FEW_DATA for _, part in short):
                pooled.append(judge_signal(_joined([fit for fit, _ in short], f"{name} of all experiments")))
    return pool_verdicts(parts, pooled)


def _joined(fits: Sequence[SignalFit], subject: str) -> SignalFit:
    """Records one after the other, with a gap between any two: neighbours over the gap are none."""
    def chain(pieces: Sequence[np.ndarray], gap: float = np.nan) -> np.ndarray:
        return np.concatenate([each for piece in pieces for each in (piece, [gap])][:-1])

    starts = np.cumsum([0.0] + [float(fit.time[-1] - fit.time[0]) + 2 * _step(fit) for fit in fits])
    times = chain([fit.time - fit.time[0] + begin for fit, begin in zip(fits, starts, strict=False)])
    for k in np.flatnonzero(np.isnan(times)):
        times[k] = times[k - 1] + _step(fits[0]) / 2
    models = chain([fit.model for fit in fits], 0.0)
    std = None if any(fit.std is None for fit in fits) else chain([fit.std for fit in fits if fit.std is not None], 1.0)
    inputs = [chain(own, 0.0) for own in zip(*(fit.inputs for fit in fits), strict=True)]
    return replace(fits[0], subject=subject, time=times, measured=chain([fit.measured for fit in fits]), model=models,
                   inputs=inputs, pooled=True, std=std, unknowns=sum(fit.unknowns for fit in fits))


def _step(fit: SignalFit) -> float:
    return float(np.median(np.diff(fit.time))) if fit.time.size > 1 else 1.0


def simulated_or_none(estimate: Estimate) -> Sequence[Mapping[str, np.ndarray]] | None:
    """Outputs of one simulation of each record; None where it diverges."""
    try:
        residuals = estimate.open_loop_residuals()
    except DynidentError:
        return None
    return [{name: np.asarray(e.outputs[name], float) - r for name, r in own.items()}
            for e, own in zip(estimate.problem.experiments, residuals, strict=True)]
