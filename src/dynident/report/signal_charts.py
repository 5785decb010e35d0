"""Which curves show how well a model follows one record?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.estimate.validation import Validation
from dynident.report.charts import Panel, curve, stacked, with_unit
from dynident.report.downsampling import POINTS
from dynident.report.result_table import counted

POINTS_ON_PAGE = 150_000  # over all curves; some 3 MB of numbers
FEWEST_POINTS = 800  # per curve, however many there are
SIGNAL_HEIGHT, RESIDUAL_HEIGHT, INPUT_HEIGHT, MODE_HEIGHT = 190, 80, 70, 22  # pixels
MODE_COLORS = ("var(--measured)", "var(--fitted)", "var(--second)", "var(--input)", "var(--residual)")
EDGE = 0.01  # of the record, left free on either side so that the outermost dots are whole
TWO_SIDED_95 = 1.96  # standard deviations of a normal distribution


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


def fitted_records(estimate: Estimate) -> list[SignalRecord]:
    """One per experiment of the problem."""
    return [SignalRecord(e.name, "fitted", e.time, e.outputs, t.outputs, r, e.inputs, e.hold, e.units, t.modes)
            for e, t, r in zip(estimate.problem.experiments, estimate.trajectories, estimate.residuals, strict=True)]


def validated_record(estimate: Estimate, validation: Validation) -> SignalRecord:
    """A validation keeps the residuals; with the model's outputs they give the measurements again."""
    units = {name: unit for e in reversed(estimate.problem.experiments) for name, unit in e.units.items()}
    modelled = {name: validation.trajectory.outputs[name] for name in validation.residuals}
    measured = {name: modelled[name] + residual for name, residual in validation.residuals.items()}
    return SignalRecord(validation.experiment, "predicted", validation.trajectory.time, measured, modelled,
                  validation.residuals, {}, {}, units, validation.trajectory.modes)


def points_per_curve(estimate: Estimate) -> int:
    """A share of what one page can bear: long records are thinned further where there are many."""
    curves = sum(3 * len(e.outputs) + len(e.inputs) for e in estimate.problem.experiments)
    curves += sum(3 * len(validation.residuals) for validation in estimate.validations)
    return int(np.clip(POINTS_ON_PAGE // max(curves, 1), FEWEST_POINTS, POINTS))


def signal_chart(record: SignalRecord, noise_std: Mapping[str, float], points: int) -> dict[str, Any]:
    """Measured and modelled outputs, what is left between them, and the inputs, over one time axis."""
    panels = [panel for output in record.measured for panel in _output_panels(record, output, noise_std, points)]
    for trace in (trace for panel in panels[2:] for trace in panel.traces):
        trace["showlegend"] = False  # the first output explains the colours of all
    panels += [_input_panel(record, name, points) for name in record.inputs]
    panels += [] if record.modes is None else [_mode_panel(record, points)]
    chart = stacked(panels, with_unit("time", record.units.get("time", "")))
    first, last = float(record.time[0]), float(record.time[-1])
    margin = EDGE * (last - first) or 0.5  # a record may be a single sample
    chart["layout"]["xaxis"]["range"] = [first - margin, last + margin]
    return chart


def thinning_sentence(record: SignalRecord, points: int) -> str:
    """What the reader has to know about a record that is not drawn sample by sample; nothing if it is."""
    if record.time.size <= points:
        return ""
    return (f"Thinned for display: of {counted(record.time.size, 'sample')} at most {points} are drawn per curve, the "
            "lowest and the highest of each stretch, so that no peak is hidden. All of them were used.")


def _output_panels(record: SignalRecord, output: str, noise_std: Mapping[str, float], points: int) -> list[Panel]:
    measured = curve(record.time, record.measured[output], "measured", "var(--measured)", points, dots=True)
    modelled = curve(record.time, record.modelled[output], record.word, "var(--fitted)", points)
    residual = curve(record.time, record.residuals[output], "residual", "var(--residual)", points, dots=True)
    band = TWO_SIDED_95 * noise_std[output] if output in noise_std else None
    return [Panel(with_unit(output, record.units.get(output, "")),
                  [measured | {"legendgroup": "measured"}, modelled | {"legendgroup": "model"}], SIGNAL_HEIGHT),
            Panel(f"{output}: measured − {record.word}", [residual | {"showlegend": False}], RESIDUAL_HEIGHT, band)]


def _input_panel(record: SignalRecord, name: str, points: int) -> Panel:
    drawn = curve(record.time, record.inputs[name], name, "var(--input)", points, showlegend=False)
    drawn["line"] |= {"shape": "hv" if record.holds[name] == "zero" else "linear", "width": 1.4}
    return Panel(f"input {with_unit(name, record.units.get(name, ''))}", [drawn], INPUT_HEIGHT)


def mode_strips(record: SignalRecord) -> dict[str, np.ndarray]:
    """Per mode, in the order in which they first hold, where it does: 1 from a sample on, or 0."""
    modes = np.zeros(0, dtype=str) if record.modes is None else record.modes
    return {str(name): np.where(modes == name, 1.0, 0.0) for name in dict.fromkeys(modes.tolist())}


def _mode_panel(record: SignalRecord, points: int) -> Panel:
    """A strip of one colour per mode."""
    traces = []
    for (name, holds), color in zip(mode_strips(record).items(), itertools.cycle(MODE_COLORS)):
        shown = np.union1d(np.flatnonzero(np.diff(holds, prepend=np.nan)), [holds.size - 1])
        strip = curve(record.time[shown], holds[shown], name, color, points, legendgroup=f"mode {name}")
        strip["line"] |= {"shape": "hv", "width": 0}
        traces.append(strip | {"fill": "tozeroy", "fillcolor": color, "hoverinfo": "name"})
    return Panel("mode", traces, MODE_HEIGHT, bare=True)






