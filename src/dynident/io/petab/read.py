"""Read PEtab: a problem of systems biology (PEtab version 1, SBML) as a problem of dynident."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.io.petab.sbml import WORD, SbmlModel, read_sbml, safe_name
from dynident.io.petab.tables import Row, formula, load_yaml, number_or_none, read_rows
from dynident.io.readers.columns import existing_file
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian, LogNormal, Noise
from dynident.problem.parameter import Parameter, Prior
from dynident.problem.problem import Problem
from dynident.problem.steady_state import SteadyState

SCALES = {"lin": "lin", "log": "ln", "log10": "log10"}
TEN = math.log(10.0)


def read_petab(path: str | Path) -> Problem:
    """Read a PEtab problem (version 1, model in SBML) from its YAML file and the files that this names.

    Conditions become experiments with constants, row parameters outputs of their own, transformations log-normal errors,
    preequilibration a state of rest. Unknowns begin at the nominal values of the parameter table. See the manual, howto/petab.

    Parameters
    ----------
    path : str or Path
        The YAML file.

    Returns
    -------
    Problem
        With the unknowns that the parameter table estimates.

    Raises
    ------
    ProblemError
        For files that cannot be read, with place.
    NotSupported
        For what is not read, by name: events, algebraic rules, Laplace errors, measurements at rest (time = inf), version 2.

    Examples
    --------
    >>> import dynident as di
    >>> di.read_petab("no/problem.yaml")
    Traceback (most recent call last):
    ...
    dynident.errors.ProblemError: ...
    """
    file = existing_file(path)
    content = load_yaml(file)
    tables = _Tables.of(file, content)
    return _Assembly(tables, read_sbml(existing_file(tables.model))).problem()


@dataclass(frozen=True)
class _Tables:
    """The rows of all tables, and where the model stands."""

    model: Path
    parameters: list[tuple[int, Row]]
    conditions: dict[str, Row]
    observables: dict[str, Row]
    measurements: list[tuple[str, Row]]  # with file and line

    @staticmethod
    def of(file: Path, content: Mapping[str, Any]) -> _Tables:
        problems = content["problems"]
        if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
            count = len(problems) if isinstance(problems, list) else "no"
            raise NotSupported(f"{file.name} holds {count} problems; one is read.")
        said = problems[0]
        if len(said.get("sbml_files") or ()) != 1:
            raise NotSupported(f"{file.name} names {len(said.get('sbml_files') or ())} SBML files; one is read.")

        def rows(key: str, *needed: str) -> list[tuple[str, Row]]:
            return [(f"{name}, line {line}", row) for name in said.get(key) or ()
                    for line, row in read_rows(file.parent / str(name), needed)]

        parameter_files = content.get("parameter_file")
        named = parameter_files if isinstance(parameter_files, list) else [parameter_files]
        return _Tables(
            file.parent / said["sbml_files"][0],
            [row for name in named for row in read_rows(file.parent / str(name), ("parameterId", "estimate"))],
            {row["conditionId"]: row for _, row in rows("condition_files", "conditionId")},
            {row["observableId"]: row for _, row in rows("observable_files", "observableId", "observableFormula",
                                                         "noiseFormula")},
            rows("measurement_files", "observableId", "simulationConditionId", "measurement", "time"))


@dataclass(frozen=True)
class _Output:
    """One observable with the row parameters of some measurements."""

    name: str
    text: str
    transformation: str


class _Assembly:
    """From tables and model to the nouns of a problem."""

    def __init__(self, tables: _Tables, model: SbmlModel):
        self.tables, self.model = tables, model
        self.table = {row["parameterId"]: row for _, row in tables.parameters}
        self.outputs: dict[tuple[str, str, str], _Output] = {}
        self.definitions = dict(model.definitions)
        self.columns = [name for name in next(iter(tables.conditions.values()), {})
                        if name not in ("conditionId", "conditionName")]

    def problem(self) -> Problem:
        runs = self._runs()
        selected = self._selected()
        self._set_at_begin(selected)
        experiments = [self._experiment(pair, rows, selected) for pair, rows in runs.items()]
        names = [safe_name(name) for name in self.table]
        rates, used = self.model.rates, self._used()
        numbers = {name: value for name, value in self.model.values.items()
                   if name not in names and name not in self.definitions and name not in selected}
        if missing := [name for name, value in numbers.items() if math.isnan(value) and name in used]:
            raise ProblemError(f"{self.tables.model.name}: {', '.join(missing)} has no value in the model, and none in the "
                               "tables.")
        numbers = {name: value for name, value in numbers.items() if not math.isnan(value) and name in used}
        definitions = {name: text for name, text in self.definitions.items() if name not in rates and name in used}
        idle = [name for name in names if name in used]  # a rule may multiply it by zero
        equations = EquationModel(states=rates, outputs={each.name: each.text for each in self.outputs.values()},
                                  definitions=definitions, constants=numbers, name=self.tables.model.stem, unused=idle)
        mentioned = self._mentioned(experiments, equations)
        parameters = [self._parameter(line, row) for line, row in self.tables.parameters
                      if safe_name(row["parameterId"]) in mentioned]
        values = sum(int(np.sum(np.isfinite(y))) for e in experiments for y in e.outputs.values())
        return Problem(equations, experiments, parameters, underdetermined=values < sum(p.free for p in parameters))

    # conditions

    def _runs(self) -> dict[tuple[str, str], list[tuple[str, Row]]]:
        runs: dict[tuple[str, str], list[tuple[str, Row]]] = {}
        for where, row in self.tables.measurements:
            pair = row.get("preequilibrationConditionId", ""), row["simulationConditionId"]
            for name in pair:
                if name and name not in self.tables.conditions:
                    raise ProblemError(f"{where}: there is no condition '{name}'.")
            runs.setdefault(pair, []).append((where, row))
        return runs

    def _selected(self) -> dict[str, list[str]]:
        """Parameters that conditions set: the ids that they may be set to; each becomes a sum in which one part counts."""
        found: dict[str, list[str]] = {}
        for column in self.columns:
            name = safe_name(column)
            if name in self.model.rates:
                continue
            texts = [row[column] for row in self.tables.conditions.values()]
            ids = list(dict.fromkeys(text for text in texts if text and number_or_none(text) is None))
            found[name] = [safe_name(each) for each in ids]
            if ids:
                parts = [f"{name}_number", *(f"{name}_is_{each}*{each}" for each in found[name])]
                self.definitions[name] = " + ".join(parts)
        return found

    def _set_at_begin(self, selected: Mapping[str, list[str]]) -> None:
        """Parameters that initial assignments set, where equations use them: formulas of parameters from then on."""
        moved = {safe_name(column) for column in self.columns} & set(self.model.rates)
        names = {safe_name(name) for name in self.table}
        for name, text in self.model.assigned.items():
            if name in selected or name in names:
                continue
            begin = self.model.at_begin(text, {**self.definitions, **self.model.assigned, **{state: state for state in moved}})
            if differing := sorted(moved & set(WORD.findall(begin))):
                raise NotSupported(f"{self.tables.model.name}: '{name}' is set to the first value of '{differing[0]}', which "
                                   "differs between conditions; that is not read.")
            self.definitions.setdefault(name, begin)

    def _constants(self, condition: str, selected: Mapping[str, list[str]]) -> dict[str, float]:
        row, found = self.tables.conditions[condition], {}
        for column in self.columns:
            name = safe_name(column)
            if name not in selected:
                continue
            value = number_or_none(row[column])
            if value is not None and math.isnan(value):
                value = self.model.values.get(name, math.nan)
                if math.isnan(value):
                    raise ProblemError(f"condition '{condition}' leaves '{column}' open, and the model has no value of it.")
            if not selected[name]:
                assert value is not None  # else there would be an id
                found[name] = value
                continue
            found[f"{name}_number"] = value or 0.0
            found |= {f"{name}_is_{each}": float(value is None and safe_name(row[column]) == each) for each in selected[name]}
        return found

    def _initial(self, condition: str, only_said: bool) -> dict[str, float | str]:
        """First states under a condition, as numbers or formulas of parameters; those that it says itself, or all."""
        row, more = self.tables.conditions[condition], {}
        for column in self.columns:
            if safe_name(column) in self.model.rates and not math.isnan(number_or_none(row[column]) or 0.0):
                more[safe_name(column)] = row[column] if number_or_none(row[column]) is not None else safe_name(row[column])
        wanted = [state for state in self.model.rates if state in more or not only_said]
        own = {**self.definitions, **self.model.assigned}
        found: dict[str, float | str] = {}
        for state in wanted:
            text = self.model.at_begin(more.get(state, self.model.initial.get(state, "nan_")), {**own, **more})
            if "nan_" in text:
                raise ProblemError(f"condition '{condition}': the model says no initial value of '{state}'.")
            text = self._with_numbers(text)
            try:
                found[state] = float(text.strip("() "))
            except ValueError:
                found[state] = text
        return found

    def _with_numbers(self, text: str) -> str:
        """Names that are numbers of the model alone, written out: they need not occur in its equations."""
        def spelt(found: re.Match[str]) -> str:
            name = found.group()
            known = {safe_name(each) for each in [*self.table, *self.columns]}
            return repr(self.model.values[name]) if name in self.model.values and name not in known else name

        return WORD.sub(spelt, text)

    # measurements

    def _experiment(self, pair: tuple[str, str], rows: list[tuple[str, Row]], selected: Mapping[str, list[str]]) -> Experiment:
        before, condition = pair
        columns: dict[str, list[tuple[float, float, float | str]]] = {}
        for where, row in rows:
            output, std = self._output(where, row)
            at, measured = (number_or_none(row[key]) for key in ("time", "measurement"))
            if at is None or measured is None or math.isnan(at):
                raise ProblemError(f"{where}: time and measurement must be numbers, not '{row['time']}' and "
                                   f"'{row['measurement']}'.")
            if math.isinf(at):
                raise NotSupported(f"{where}: a measurement at rest (time = inf) is not read; give it a late time.")
            columns.setdefault(output.name, []).append((at, measured, std))
        time, signals, noise = _merged(columns, {each.name: each.transformation for each in self.outputs.values()})
        constants = self._constants(condition, selected)
        rest = None if not before else SteadyState(self._initial(before, False), self._constants(before, selected))
        return Experiment(time, outputs=signals, noise=noise, initial=self._initial(condition, bool(before)), start=0.0,
                          constants=constants, steady=rest, name=f"{before} then {condition}" if before else condition)

    def _output(self, where: str, row: Row) -> tuple[_Output, float | str]:
        """The output that a row measures, and the standard deviation of its error: a number or a formula."""
        name = row["observableId"]
        if name not in self.tables.observables:
            raise ProblemError(f"{where}: there is no observable '{name}'.")
        said = self.tables.observables[name]
        distribution, transformation = said.get("noiseDistribution") or "normal", said.get("observableTransformation") or "lin"
        if distribution != "normal" or transformation not in SCALES:
            raise NotSupported(f"observable '{name}': {distribution} errors on the scale {transformation} are not read; normal "
                               "ones on lin, log and log10 are.")
        filled = {**_placeholders("observable", name, row), **_placeholders("noise", name, row)}
        text = formula(said["observableFormula"], f"observable '{name}'", filled, self.table)
        std = formula(said["noiseFormula"], f"noise of '{name}'", filled, self.table)
        number = number_or_none(std)
        size: float | str = std if number is None else number
        if transformation == "log10":
            size = f"({std})*log(10)" if number is None else number * TEN
        key = name, text, size if isinstance(size, str) else ""
        if key not in self.outputs:
            count = sum(each[0] == name for each in self.outputs)
            base = safe_name(name)
            taken = {*self.model.rates, *self.definitions, *self.model.values, *map(safe_name, self.table)}
            base = f"y_{base}" if base in taken else base
            self.outputs[key] = _Output(base if not count else f"{base}_{count + 1}", text, transformation)
        return self.outputs[key], size

    # names

    def _used(self) -> set[str]:
        """Names that the rates and outputs mention, themselves or through definitions."""
        texts, found = [*self.model.rates.values(), *(each.text for each in self.outputs.values())], set[str]()
        while texts:
            new = set(WORD.findall(texts.pop())) - found
            found |= new
            texts += [self.definitions[name] for name in new if name in self.definitions]
        return found

    def _mentioned(self, experiments: Sequence[Experiment], model: EquationModel) -> set[str]:
        texts = [str(value) for e in experiments for value in
                 [*e.initial.values(), *(e.steady.initial.values() if e.steady else ()), *(n.std for n in e.noise.values())]  # type: ignore[union-attr]
                 if isinstance(value, str)]
        return {*model.parameters, *(name for text in texts for name in WORD.findall(text))}

    def _parameter(self, line: int, row: Row) -> Parameter:
        name, scale = row["parameterId"], row.get("parameterScale") or "lin"
        where = f"parameters, line {line}: '{name}'"
        if scale not in SCALES:
            raise ProblemError(f"{where} has the scale '{scale}'; there are lin, log and log10.")
        lower, upper, nominal = (number_or_none(row.get(key, "")) for key in ("lowerBound", "upperBound", "nominalValue"))
        if nominal is None or lower is None or upper is None:
            raise ProblemError(f"{where}: bounds and nominal value must be numbers.")
        if number_or_none(row["estimate"]) == 0:
            return Parameter(safe_name(name), start=nominal, free=False)
        lower, upper = (-math.inf if math.isnan(lower) else lower), (math.inf if math.isnan(upper) else upper)
        log = scale != "lin"
        middle = math.sqrt(lower * upper) if log and lower > 0 else (lower + upper) / 2
        start = middle if math.isnan(nominal) else nominal
        return Parameter(safe_name(name), start=start, lower=max(lower, 0.0) if log else lower, upper=upper, log=log,
                         prior=_prior(where, row, scale))


def _placeholders(kind: str, observable: str, row: Row) -> dict[str, str]:
    given = [each.strip() for each in row.get(f"{kind}Parameters", "").split(";") if each.strip()]
    return {f"{kind}Parameter{k}_{observable}": each if number_or_none(each) is not None else safe_name(each)
            for k, each in enumerate(given, 1)}


def _prior(where: str, row: Row, scale: str) -> Prior | None:
    kind = row.get("objectivePriorType", "")
    if not kind or kind in ("uniform", "parameterScaleUniform"):
        return None  # the bounds
    given = [number_or_none(each.strip()) for each in row.get("objectivePriorParameters", "").split(";")]
    if kind not in ("normal", "parameterScaleNormal", "logNormal") or len(given) != 2 or None in given:
        raise NotSupported(f"{where} has the prior {kind}({row.get('objectivePriorParameters', '')}), which is not read; "
                           "normal, parameterScaleNormal and logNormal are.")
    on = {"normal": "lin", "parameterScaleNormal": SCALES[scale], "logNormal": "ln"}[kind]
    return Prior(float(given[0]), float(given[1]), on=on)  # type: ignore[arg-type]


def _merged(columns: Mapping[str, list[tuple[float, float, float | str]]], transformations: Mapping[str, str]
            ) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, Noise]]:
    """One record of all outputs: each time as often as the output that was measured most often then."""
    counts: dict[float, int] = {}
    for rows in columns.values():
        for time in {row[0] for row in rows}:
            counts[time] = max(counts.get(time, 0), sum(row[0] == time for row in rows))
    times = np.array([time for time in sorted(counts) for _ in range(counts[time])])
    first = {time: int(np.searchsorted(times, time)) for time in counts}
    signals: dict[str, np.ndarray] = {}
    noise: dict[str, Noise] = {}
    for name, rows in columns.items():
        values, sizes, met = np.full(times.size, np.nan), np.ones(times.size), dict.fromkeys(counts, 0)
        for time, measured, std in rows:
            place = first[time] + met[time]
            met[time] += 1
            values[place] = measured
            sizes[place] = 1.0 if isinstance(std, str) else std
        signals[name] = values
        formulas = [std for _, _, std in rows if isinstance(std, str)]
        kind = Gaussian if transformations[name] == "lin" else LogNormal
        noise[name] = kind(formulas[0] if formulas else sizes)
    return times, signals, noise
