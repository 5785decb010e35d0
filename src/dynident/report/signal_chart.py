"""What was measured, what did the model do there, and what is left between them, over time?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynident.estimate.estimate import Estimate, Validation
from dynident.report.charts import MAX_CURVE_POINTS, TWO_SIDED_95, Chart, Curve, Look, Panel, curve, with_unit
from dynident.report.result_table import counted
from dynident.verbs.judge import foreseen_std

POINTS_ON_PAGE = 56_000  # over all curves; some 0.5 MB of paths, beside what surrounds them
FEWEST_POINTS = 300  # per curve, however many there are
SIGNAL_HEIGHT, RESIDUAL_HEIGHT, INPUT_HEIGHT, MODE_HEIGHT = 190, 90, 70, 18  # pixels
MODE_COLORS = ("measured", "fitted", "second", "input", "residual")
EDGE = 0.01  # of the record, left free on either side so that the outermost dots are whole
WIDE, THIN = 6.0, 1.3  # pixels: the measurement is seen on both sides of the model's curve


@dataclass(frozen=True, eq=False)
class SignalRecord:
    """What was measured and what the model did there; fitted and validated records look alike."""

    name: str
    word: str  # "fitted" or "predicted"
    time: np.ndarray  # (samples,)
    measured: Mapping[str, np.ndarray]
    modelled: Mapping[str, np.ndarray]
    residuals: Mapping[str, np.ndarray]
    inputs: Mapping[str, np.ndarray]
    holds: Mapping[str, str]
    units: Mapping[str, str]
    modes: np.ndarray | None = None  # (samples,) text, where the model has modes

    @property
    def curves(self) -> int:
        return 3 * len(self.measured) + len(self.inputs)


def fitted_records(estimate: Estimate) -> list[SignalRecord]:
    """One per experiment of the problem."""
    known = estimate.problem.model.units  # where the record is silent
    word = "fitted" if estimate.filtered is None else "predicted"  # from all samples before
    return [SignalRecord(e.name, word, e.time, e.outputs, t.outputs, r, e.inputs, e.hold, {**known, **e.units}, t.modes)
            for e, t, r in zip(estimate.problem.experiments, estimate.trajectories, estimate.residuals, strict=True)]


def validated_record(estimate: Estimate, validation: Validation) -> SignalRecord:
    """A validation keeps the residuals; with the model's outputs they give the measurements again."""
    units = dict(estimate.problem.model.units)
    units |= {name: unit for e in reversed(estimate.problem.experiments) for name, unit in e.units.items()}
    modelled = {name: validation.trajectory.outputs[name] for name in validation.residuals}
    measured = {name: modelled[name] + residual for name, residual in validation.residuals.items()}
    return SignalRecord(validation.experiment, "predicted", validation.trajectory.time, measured, modelled,
                        validation.residuals, {}, {}, units, validation.trajectory.modes)


def drawn_records(estimate: Estimate) -> tuple[list[int], int]:
    """Which experiments are drawn, and with how many points a curve: all of a few, the worst fitted of very many.

    A page holds a limited number of points; below FEWEST_POINTS a curve would say nothing.
    """
    validated = sum(3 * len(validation.residuals) for validation in estimate.validations)
    each = [3 * len(e.outputs) + len(e.inputs) for e in estimate.problem.experiments]
    room = max(POINTS_ON_PAGE // FEWEST_POINTS - validated, max(each, default=1))
    worst_first = sorted(range(len(each)), key=lambda k: -max(
        (misfit(estimate, output, r) for output, r in estimate.residuals[k].items()), default=0.0))
    reached = np.cumsum([each[k] for k in worst_first])
    chosen = sorted(worst_first[k] for k in range(len(each)) if reached[k] <= room)
    curves = validated + sum(each[k] for k in chosen)
    return chosen, int(np.clip(POINTS_ON_PAGE // max(curves, 1), FEWEST_POINTS, MAX_CURVE_POINTS))


def left_out_sentence(estimate: Estimate) -> str:
    """What the reader has to know where there are too many records to draw each; nothing if all are."""
    chosen, _ = drawn_records(estimate)
    total = len(estimate.problem.experiments)
    return "" if len(chosen) == total else (
        f"Of {counted(total, 'experiment')} the {len(chosen)} with the largest residuals are drawn; all were fitted.")


def expected_std(estimate: Estimate) -> dict[str, float]:
    """By output the standard deviation that what is left over should have: of the noise; of innovations what was foreseen."""
    found = dict(estimate.noise_std)
    if estimate.filtered is None:
        return found
    squares: dict[str, list[np.ndarray]] = {}
    for residuals, record in zip(estimate.residuals, estimate.filtered.records, strict=True):
        for name, residual in residuals.items():
            if name in record.outputs and len(record.whitened) == len(residual):
                squares.setdefault(name, []).append(foreseen_std(residual, record.whitened[:, record.outputs.index(name)]) ** 2)
    return found | {name: float(np.sqrt(np.median(np.concatenate(parts)))) for name, parts in squares.items()}


def misfit(estimate: Estimate, output: str, residual: np.ndarray) -> float:
    """Rms of a residual, in standard deviations of the noise where that is known."""
    known = np.asarray(residual, float)
    known = known[np.isfinite(known)]
    return float(np.sqrt(np.mean(known**2))) / (estimate.noise_std.get(output, 0.0) or 1.0) if known.size else 0.0


def signal_chart(record: SignalRecord, noise_std: Mapping[str, float], points: int, inputs: bool = True) -> Chart:
    """Measured and modelled outputs, what is left between them, and the inputs, over one time axis."""
    panels = [panel for output in record.measured for panel in _output_panels(record, output, noise_std, points)]
    panels += [_input_panel(record, name, points) for name in record.inputs] if inputs else []
    panels += [] if record.modes is None else [_mode_panel(record, points)]
    first, last = float(record.time[0]), float(record.time[-1])
    margin = EDGE * (last - first) or 0.5  # a record may be a single sample
    return Chart(panels, with_unit("time", record.units.get("time", "")),
                 f"{record.name}: measured and {record.word} {', '.join(record.measured)} over time",
                 span=(first - margin, last + margin), zoom=True)


def thinning_sentence(record: SignalRecord, points: int) -> str:
    """What the reader has to know about a record that is not drawn sample by sample; nothing if it is."""
    if record.time.size <= points:
        return ""
    return (f"Thinned for display: of {counted(record.time.size, 'sample')} at most {points} are drawn per curve, the "
            "lowest and the highest of each stretch, so that no peak is hidden. All of them were used.")


def _output_panels(record: SignalRecord, output: str, noise_std: Mapping[str, float], points: int) -> list[Panel]:
    unit = record.units.get(output, "")
    measured = curve(record.time, record.measured[output], "measured", "measured", points, dots=True, width=WIDE)
    modelled = curve(record.time, record.modelled[output], record.word, "fitted", points, width=THIN)
    residual = curve(record.time, record.residuals[output], "residual", "residual", points, dots=True, width=1.0, legend=False)
    band = TWO_SIDED_95 * noise_std[output] if output in noise_std else None
    return [Panel(output, [measured, modelled], SIGNAL_HEIGHT, unit),
            Panel(f"{output}: measured − {record.word}", [residual], RESIDUAL_HEIGHT, unit, band)]


def _input_panel(record: SignalRecord, name: str, points: int) -> Panel:
    look: Look = "steps" if record.holds[name] == "zero" else "line"
    return Panel(f"input {name}", [curve(record.time, record.inputs[name], name, "input", points, look=look, legend=False)],
                 INPUT_HEIGHT, record.units.get(name, ""))


def mode_strips(record: SignalRecord) -> dict[str, np.ndarray]:
    """Per mode, in the order in which they first hold, where it does: 1 from a sample on, or 0."""
    modes = np.zeros(0, dtype=str) if record.modes is None else record.modes
    return {str(name): np.where(modes == name, 1.0, 0.0) for name in dict.fromkeys(modes.tolist())}


def _mode_panel(record: SignalRecord, points: int) -> Panel:
    """A strip of one colour per mode."""
    curves = []
    for (name, holds), color in zip(mode_strips(record).items(), itertools.cycle(MODE_COLORS)):
        turns = np.flatnonzero(np.diff(holds, prepend=0.0, append=0.0))  # on, off, on, off, ...
        begins, ends = record.time[turns[::2]], record.time[np.minimum(turns[1::2], record.time.size - 1)]
        curves.append(Curve(begins[:points], np.zeros(begins[:points].size), name, color, "boxes", x_end=ends[:points],
                            y_end=np.ones(begins[:points].size)))
    return Panel("mode", curves, MODE_HEIGHT, bare=True)
