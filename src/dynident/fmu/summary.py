"""Summary: what is in an FMU, for a reader who wants to know what can be estimated with it."""

from __future__ import annotations

import math

from dynident.fmu.description import INTERFACES, NUMBER_TYPES, FmuDescription, FmuVariable

HEAD = ("name", "type", "causality", "variability", "start", "unit", "between", "can be")


def summarize(description: FmuDescription, chosen: str | None = None) -> str:
    """A few lines: from where, which interfaces, which platforms."""
    d = description
    lines = [f"{d.path.name}: FMI {d.version}.0, model '{d.name}'{f', made by {d.tool}' if d.tool else ''}"]
    for kind in INTERFACES:
        if kind in d.interfaces:
            it = d.interfaces[kind]
            can = [words for words, yes in (
                ("any step", kind == "co_simulation" and it.variable_steps),
                ("equal steps only", kind == "co_simulation" and not it.variable_steps),
                ("directional derivatives", it.directional), ("one instance per process", it.once_per_process),
                ("needs its tool", it.needs_tool)) if yes]
            use = " (used)" if kind == chosen else ""
            lines.append(f"  {kind.replace('_', ' ')}{use}{': ' if can else ''}{', '.join(can)}")
            if kind in d.missing:
                lines.append(f"    {d.missing[kind]}")
    lines.append(f"  code for: {', '.join(d.platforms) or 'no platform'}")
    lines.append(f"  {len(d.states)} continuous states, {d.indicators} event indicators, {len(d.variables)} variables")
    if d.stop_time is not None:
        lines.append(f"  default experiment: {d.start_time:g} to {d.stop_time:g} s"
                     f"{f', step {d.step_size:g} s' if d.step_size else ''}")
    lines += [f"  its description is not valid: {complaint}" for complaint in d.complaints]
    return "\n".join(lines)


def possible_use(d: FmuDescription, v: FmuVariable) -> str:
    """What a problem can do with a variable."""
    if v.can_be_estimated:
        return "estimated"
    if v.name in d.states and v.settable_before_start and v.start is not None:
        return "estimated as initial state"
    if v.causality == "input":
        return "input of a record"
    if v.type not in NUMBER_TYPES:
        return ""
    if v.settable_before_start:
        return "set"
    return "measured" if v.causality != "independent" else ""


def variable_rows(description: FmuDescription, every: bool) -> list[tuple[str, ...]]:
    """One row per variable: parameters, inputs, outputs and states, or all."""
    d = description
    shown = []
    for v in d.variables.values():
        if every or v.causality in ("parameter", "input", "output", "structuralParameter") or v.name in d.states:
            between = "" if math.isinf(v.lower) and math.isinf(v.upper) else f"{v.lower:g} .. {v.upper:g}"
            start = "" if v.start is None else f"{v.start:g}"
            shown.append((v.name, v.type, v.causality, v.variability, start, v.unit, between, possible_use(d, v)))
    return shown  # type: ignore[return-value]


def variable_table(description: FmuDescription, every: bool) -> str:
    body = variable_rows(description, every)
    widths = [max(len(row[k]) for row in [HEAD, *body]) for k in range(len(HEAD))]
    lines = ["  ".join(word.ljust(w) for word, w in zip(row, widths, strict=True)).rstrip() for row in [HEAD, *body]]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
