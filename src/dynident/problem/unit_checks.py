"""Unit consistency: do the records, the unknowns and the model count in the same units?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.parameter import InitialState, Parameter
from dynident.units import conversion


def unit_faults(experiments: Sequence[Experiment], model: Model) -> list[str]:
    """Signals that a record counts in another unit than the model, or than the first record that says one."""
    faults = []
    for name in dict.fromkeys(name for e in experiments for name in e.units):
        saying = [e for e in experiments if e.units.get(name)]
        if wanted := model.units.get(name):
            faults += _against_model(name, wanted, saying)
            continue
        for other in saying[1:]:
            first, here, there = saying[0], saying[0].units[name], other.units[name]
            if conversion(there, here) != 1:
                faults.append(f"'{name}' is in {here} in {first.label}, but in {there} in {other.label}; read both in one "
                              f"unit, as with units={{'{name}': '{here}'}}.")
                break
    return faults


def _against_model(name: str, wanted: str, saying: Iterable[Experiment]) -> list[str]:
    faults = []
    for experiment in saying:
        given = experiment.units[name]
        factor = conversion(given, wanted)
        if factor is None:
            faults.append(f"'{name}' is in {given} in {experiment.label}, but in {wanted} in the model, and there is no "
                          "factor from one to the other; correct one of the two, or convert the record beforehand.")
        elif factor != 1:
            faults.append(f"'{name}' is in {given} in {experiment.label}, but in {wanted} in the model; read the record in "
                          f"{wanted}, as with units={{'{name}': '{wanted}'}}.")
    return faults


def unknown_unit_faults(parameters: Iterable[Parameter | InitialState], model: Model) -> list[str]:
    """Unknowns that are declared in another unit than that of the model, in which their numbers go into it."""
    faults = []
    for it in parameters:
        what, name = ("parameter", it.name) if isinstance(it, Parameter) else ("initial state", it.state)
        wanted = model.units.get(name)
        if it.unit and wanted and conversion(it.unit, wanted) != 1:
            faults.append(f"{what} '{name}' is declared in {it.unit}, but the model counts it in {wanted}; give its numbers "
                          f"in {wanted}, with unit='{wanted}' or without a unit.")
    return faults
