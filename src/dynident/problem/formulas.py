"""Formulas: what of an experiment is said as text, and how does the model come to know it?

Standard deviations as formulas become outputs of the model (`std_y`), and names that only formulas use become parameters of
it: whoever simulates and differentiates the model does so with them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynident.errors import ProblemError, did_you_mean
from dynident.problem.experiment import Experiment
from dynident.problem.model import FormulaModel, Model
from dynident.problem.noise import formula_of

NoiseOutputs = Mapping[str, str]  # output -> the output of the model that is its standard deviation


@dataclass(frozen=True)
class Formula:
    """One text, where it stands, and whether it may use what moves (states, inputs, outputs and time)."""

    text: str
    where: str
    experiment: Experiment
    moving: bool


def formulas_of(experiments: Sequence[Experiment]) -> Iterator[Formula]:
    for e in experiments:
        for state, value in e.initial.items():
            if isinstance(value, str):
                yield Formula(value, f"{e.label}: initial state of '{state}'", e, False)
        for state, value in (e.steady.initial if e.steady is not None else {}).items():
            if isinstance(value, str):
                yield Formula(value, f"{e.label}: initial state of '{state}' on the way to rest", e, False)
        for output, noise in e.noise.items():
            if (text := formula_of(noise)) is not None:
                yield Formula(text, f"{e.label}: standard deviation of '{output}'", e, True)


def with_formulas(model: Model, experiments: Sequence[Experiment], declared: Sequence[str], faults: list[str]
                  ) -> tuple[Any, tuple[NoiseOutputs, ...]]:
    """The model that knows the formulas of the experiments, and per experiment where its standard deviations stand.

    `declared` are the names of the problem's parameters. What is wrong goes to the faults.
    """
    nothing: tuple[NoiseOutputs, ...] = tuple({} for _ in experiments)
    formulas = list(formulas_of(experiments))
    if not formulas:
        return model, nothing
    if not isinstance(model, FormulaModel):
        faults.append(f"{formulas[0].where} is a formula ('{formulas[0].text}'), which takes a model with equations, not a "
                      f"{type(model).__name__}. Give numbers.")
        return model, nothing
    new: list[str] = []
    for formula in formulas:
        new += [name for name in _names(model, formula, declared, faults) if name not in new]
    if faults:
        return model, nothing
    outputs, noise_outputs = _noise_outputs(model, experiments)
    try:
        return model.with_formulas(outputs, new), noise_outputs
    except ProblemError as error:
        faults += error.faults
        return model, nothing


def _names(model: FormulaModel, formula: Formula, declared: Sequence[str], faults: list[str]) -> list[str]:
    """Names in a formula that the model does not know yet; those that mean nothing go to the faults."""
    fixed = {*model.parameters, *model.constants}
    moving = {"t", *model.words} - fixed
    given = [*declared, *formula.experiment.constants]
    try:
        names = model.names_in(formula.text, formula.where)
    except ProblemError as error:
        faults += error.faults
        return []
    for name in names:
        if name in moving and not formula.moving:
            faults.append(f"{formula.where} is '{formula.text}', but '{name}' is not known before the record begins; it is "
                          "made of parameters and constants.")
        elif name not in moving and name not in fixed and name not in given:
            known = list(dict.fromkeys([*given, *sorted(fixed), *(sorted(moving) if formula.moving else ())]))
            faults.append(f"{formula.where} is '{formula.text}', but '{name}' is neither a parameter nor a constant."
                          f"{did_you_mean(name, known)} Declare it with Parameter('{name}', ...).")
    return [name for name in names if name not in moving and name not in fixed and name in given]


def _noise_outputs(model: FormulaModel, experiments: Sequence[Experiment]) -> tuple[dict[str, str], tuple[NoiseOutputs, ...]]:
    """Outputs that are standard deviations, with their text: one for each formula of an output."""
    texts = dict(model.output_texts)
    added: dict[str, str] = {}
    found: list[NoiseOutputs] = []
    for e in experiments:
        own = {}
        for output, noise in e.noise.items():
            text = formula_of(noise)
            if text is None or output not in texts:
                continue
            spelt = _with_output_texts(text, model)
            number = 1
            while (name := f"std_{output}" + (f"_{number}" if number > 1 else "")) and (
                    {**texts, **added}.get(name, spelt) != spelt or (name in model.words and name not in texts)):
                number += 1
            if name not in texts:
                added[name] = spelt
            own[output] = name
        found.append(own)
    return added, tuple(found)


def _with_output_texts(text: str, model: FormulaModel) -> str:
    """A formula in which outputs that are no names of the equations are written out."""
    inside = {*model.parameters, *model.constants, *model.words} - {
        name for name, written in model.output_texts.items() if written != name}
    hidden = {name: written for name, written in model.output_texts.items() if name not in inside}
    if not hidden:
        return text
    words = "|".join(re.escape(name) for name in sorted(hidden, key=len, reverse=True))
    return re.sub(rf"(?<![\w.])(?:{words})(?!\w)", lambda found: f"({hidden[found.group()]})", text)
