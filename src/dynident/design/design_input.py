"""Optimal experiment design: which input tells most about the parameters, within given constraints?"""

from __future__ import annotations

import inspect
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident._util.progress import Tell, reporter
from dynident.design.argument_checks import DesignOptions, ParsedDesign, option_faults, parse_arguments
from dynident.design.constraints import constraint_uses
from dynident.design.criteria import Criterion, OptimalityCriterion
from dynident.design.design_problem import DesignProblem, build_design_problem, planned_sampling, refuse_unidentifiable
from dynident.design.nlp import embed_sensitivities
from dynident.design.optimize import Candidate, DesignState, Report, optimize_design, progress_line
from dynident.design.plan import Plan, PlannedRecord
from dynident.design.prior_information import PriorInformation, problem_of
from dynident.design.rival import Discrimination, as_plan_of_first, with_rival
from dynident.design.sampling import plan_samples
from dynident.design.set_widths import predicted_set_widths
from dynident.design.signals import SIGNALS, Signal, default_shapes, shape_label
from dynident.errors import NotConverged, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.problem.noise import Bounded, Noise
from dynident.problem.problem import Problem
from dynident.tolerances import SAME_OPTIMUM

EXAMPLE = 'Add for instance: [design] signal = "piecewise_linear", constraints = ["abs(u) <= 1"].'


@single_thread()
def design_input(known: Problem | Estimate, signal: Signal | Mapping[str, Signal] | Sequence[Signal] | None = None,
                 criterion: Criterion | str | None = None, constraints: Sequence[str] = (), *,
                 terminal_constraints: Sequence[str] = (),
                 duration: float | tuple[float, float] | None = None, sample_time: float | None = None,
                 initial: Mapping[str, float] | None = None, parameters: Sequence[str] = (), records: int = 1,
                 robust: str = "", box: Mapping[str, tuple[float, float]] | None = None, samples: int = 8,
                 use_records: bool = True, amplitude: Mapping[str, float] | float | None = None, mode: str = "",
                 starts: int = 4, seed: int = 0, max_iterations: int = 200, sample_budget: int | None = None,
                 rival: Problem | Estimate | None = None, progress: Tell | bool | None = None) -> Plan:
    """An input that is most informative about the parameters, within constraints (optimal experiment design).

    See the manual, methods/design.

    Parameters
    ----------
    known : Problem or Estimate
        What is known now; an estimate is better, since the design is made at its values.
    signal : signal, mapping of str to signal, or sequence of signals, optional
        Shape of the input, or of each input by name; from `di.signals`. Of several, each is tried for all inputs, and the plan
        says which won and by how much; unless given, piecewise constant and linear inputs, a Bernstein polynomial, a sum
        of sines and a binary signal with free switching times.
    criterion : criterion or str, optional
        What counts: "D" unless given, "A", "E", "modified_E", "std:NAME", or an object from `di.criteria`.
    constraints : sequence of str, default ()
        Hold all along: "abs(u) <= 2", "abs(der_v) <= 10".
    terminal_constraints : sequence of str, default ()
        Hold at the end: "v == 0".
    duration : float or (float, float), optional
        Length of the planned record in the unit of time, or shortest and longest; that of the last record unless given.
    sample_time : float, optional
        In the unit of time; that of the last record unless given.
    initial : mapping of str to float, optional
        Known initial state of the planned record, in the units of the model; that of the last record unless given.
    parameters : sequence of str, default ()
        Those of interest; all unless named.
    records : int, default 1
        How many to plan at once.
    robust : str, default ""
        "average" or "worst" over draws from the present uncertainty or from `box`; "" plans at the nominal values.
    box : mapping of str to (float, float), optional
        Ranges of parameters for `robust`, in their units.
    samples : int, default 8
        Number of draws for `robust`.
    use_records : bool, default True
        Whether the information of the records at hand is added.
    amplitude : mapping of str to float, or float, optional
        A first magnitude of inputs without a constraint, in their units.
    mode : str, default ""
        Of a hybrid model, the one to stay in.
    starts : int, default 4
        Start points of the search.
    seed : int, default 0
        Of the starts and draws.
    max_iterations : int, default 200
        Of each start at the most.
    sample_budget : int, optional
        How many samples of each planned record may be measured, all unless given; which ones is planned with the input.
    rival : Problem or Estimate, optional
        Another model of the same records: the input is then the one after which both can be told apart best (T-optimal), the
        first being right at its nominal values and the rival adapting to all records.
    progress : callable or bool, optional
        Called with the `DesignProgress` of each evaluation; False for silence.

    Returns
    -------
    Plan
        Inputs, expected outputs and predicted standard deviations. After Ctrl-C the best input that was verified until then.

    Raises
    ------
    NotConverged
        Where no input meets all constraints.
    ProblemError
        For arguments that make no sense.

    Examples
    --------
    >>> import dynident as di
    >>> lag = di.EquationModel(states={"x": "(K*u - x)/T"}, inputs=["u"])
    >>> record = di.Experiment([0, 1, 2, 3], inputs={"u": [1, 1, 1, 1]}, outputs={"x": [0.0, 0.6, 0.9, 0.95]},
    ...                        noise={"x": di.Gaussian(0.1)}, initial={"x": 0})
    >>> problem = di.Problem(lag, [record], [di.Parameter("K", start=1), di.Parameter("T", start=1)])
    >>> plan = di.design_input(problem, di.signals.PiecewiseConstant(2), constraints=["abs(u) <= 2"], starts=1)
    >>> plan.std_after["T"] < plan.std_before["T"]
    True
    """
    began = clock.perf_counter()
    options = DesignOptions(duration, sample_time, initial, parameters, records, robust, box, samples, use_records, amplitude,
                            mode, starts, seed, max_iterations, sample_budget)
    if rival is not None:
        if criterion is not None:
            raise ProblemError("a rival has a criterion of its own, the distance between both models; leave criterion out.")
        plan = design_input(with_rival(known, rival), signal, Discrimination(), constraints, **vars(options),
                            terminal_constraints=terminal_constraints, progress=progress)
        return as_plan_of_first(plan)
    shapes = _shapes(known, signal, options)
    parsed = [parse_arguments(known, shape, criterion, constraints, terminal_constraints, options) for shape in shapes]
    with reporter(progress, progress_line) as report:
        if len(parsed) == 1:
            return _plan_of(parsed[0], report, began)
        return best_of_shapes(parsed, report, began)


def _shapes(known: Problem | Estimate, signal: Signal | Mapping[str, Signal] | Sequence[Signal] | None, options: DesignOptions
            ) -> Sequence[Signal | Mapping[str, Signal]]:
    if signal is None:
        option_errors = option_faults(options)
        if option_errors:
            raise ProblemError(option_errors)
        return default_shapes(planned_sampling(problem_of(known), options)[2])
    if isinstance(signal, Sequence) and not isinstance(signal, str):
        if not signal:
            raise ProblemError("signal = []; give at least one shape of di.signals, or none at all to try the usual ones.")
        return signal
    return [signal]  # type: ignore[list-item]


def _plan_of(parsed: ParsedDesign, report: Report, began: float) -> Plan:
    problem = build_design_problem(parsed)
    refuse_unidentifiable(problem)
    state = optimize_design(problem, report)
    if problem.options.sample_budget is not None and problem.options.sample_budget < problem.inputs.samples:
        problem, state = plan_samples(problem, state, report)
    return build_plan(problem, state, clock.perf_counter() - began)


def best_of_shapes(parsed: Sequence[ParsedDesign], report: Report, began: float) -> Plan:
    """The plan of lowest cost among shapes of the input; says by how much it is better than the next one."""
    plans: dict[str, Plan] = {}
    refusals: dict[str, NotConverged] = {}
    for own in parsed:
        label = shape_label(own.signals)
        try:
            plans[label] = _plan_of(own, lambda at, label=label: report(replace(at, shape=label)), began)  # type: ignore[misc]
        except NotConverged as error:
            refusals[label] = error
        except KeyboardInterrupt:
            if not plans:
                raise
            break
        if plans and plans[next(reversed(plans))].interrupted:
            break
    if not plans:
        raise next(iter(refusals.values()))
    costs = {**{label: plan.cost for label, plan in plans.items()}, **dict.fromkeys(refusals, float("inf"))}
    best, stopped = min(plans.values(), key=lambda plan: plan.cost), len(costs) < len(parsed)
    note = _shape_note(parsed[0].criterion, best.shape, costs)
    return replace(best, shapes=costs, notes=(note, *best.notes), interrupted=best.interrupted or stopped,
                   converged=best.converged and not stopped, times={"search": clock.perf_counter() - began},
                   counts={**best.counts, "shapes": len(costs)})


def _shape_note(criterion: Criterion, best: str, costs: Mapping[str, float]) -> str:
    """Which shape won, and by how much."""
    others = {label: cost for label, cost in costs.items() if label != best}
    said = [f"{label} {_worse(criterion, cost, costs[best])}" for label, cost in sorted(others.items(), key=lambda own: own[1])]
    return f"Of {len(costs)} shapes of the input {best} is best" + (f"; {', '.join(said)}." if said else ".")


def _worse(criterion: Criterion, cost: float, best: float) -> str:
    if not np.isfinite(cost):
        return "met not all constraints"
    if isinstance(criterion, (OptimalityCriterion, Discrimination)):  # the logarithm of a standard deviation or distance
        return f"is {100 * np.expm1(cost - best):.3g} % worse"
    return f"costs {cost:.4g} instead of {best:.4g}"


# the [design] table of a problem file


def plan_from_table(known: Problem | Estimate, table: Mapping[str, Any], progress: Tell | bool | None = None) -> Plan:
    """The plan that a [design] table asks for; `progress` as in `design_input`."""
    return design_input(known, **_arguments(known, table), progress=progress)


def check_table(known: Problem | Estimate, table: Mapping[str, Any]) -> None:
    """Raise what is wrong with a [design] table, as far as that can be seen without any fit."""
    given = _arguments(known, table)
    signal, main = given.pop("signal"), (given.pop("criterion", None), given.pop("constraints", ()),
                                         given.pop("terminal_constraints", ()))
    options = DesignOptions(**given)
    for shape in _shapes(known, signal, options):
        parse_arguments(known, shape, *main, options)


def _arguments(known: Problem | Estimate, table: Mapping[str, Any]) -> dict[str, Any]:
    """The table as arguments of `design_input`."""
    if not table:
        raise ProblemError(f"The problem file has no [design] table that says what may be planned. {EXAMPLE}")
    options = {key: value for key, value in table.items() if value is not None}
    if isinstance(options.get("duration"), (list, tuple)):
        options["duration"] = tuple(options["duration"])
    return options | {"signal": _signals(options.get("signal"), problem_of(known).model.inputs)}


def _signals(given: Any, inputs: tuple[str, ...]) -> Signal | dict[str, Signal] | list[Signal] | None:
    if given is None or given == "auto":
        return None
    if isinstance(given, list):
        return [signal_from(own) for own in given]
    if isinstance(given, Mapping) and "kind" not in given:
        return {str(name): signal_from(own) for name, own in given.items()}
    return dict.fromkeys(inputs, signal_from(given))


def signal_from(given: Any) -> Signal:
    """A shape by its name, or by a table with its `kind` and options."""
    options = {"kind": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    kind = options.pop("kind", None)
    if kind not in SIGNALS:
        raise ProblemError(f"design.signal: there is no signal '{kind}'.{did_you_mean(str(kind), SIGNALS)}")
    allowed = inspect.signature(SIGNALS[kind]).parameters
    faults = [f"design.signal: '{kind}' has no option '{key}'.{did_you_mean(key, allowed)}" for key in options
              if key not in allowed]
    faults += [f"design.signal: '{kind}' needs '{name}'." for name, p in allowed.items()
               if p.default is inspect.Parameter.empty and name not in options]
    if faults:
        raise ProblemError(faults)
    return SIGNALS[kind](**options)


def build_plan(problem: DesignProblem, state: DesignState, seconds: float) -> Plan:
    """Of the best candidate; raises where it does not stay in the mode that it was made for."""
    assert state.best is not None  # optimize_design gives no other
    best = state.best
    problem, c = _on_the_true_grid(problem, best)
    rows = np.vstack([_planned_rows(problem, c, r) for r in range(problem.records)])  # of the samples that are measured
    records = tuple(_record(problem, c, r) for r in range(problem.records))
    prior, of_interest = problem.prior, problem.of_interest
    std_after = predicted_std(prior, of_interest, rows)
    width_before, width_after = _set_widths(problem, rows)
    uses = constraint_uses(state.constraints, problem.fine_simulations(c))
    return Plan(
        records=records, criterion=problem.criterion.name, cost=best.result.value / best.nlp.cost_scale,
        values={prior.names[i]: float(prior.values[i]) for i in of_interest}, constraints=uses,
        std_before=predicted_std(prior, of_interest), std_after=std_after,
        noise_std={n: float(s) for n, s in zip(problem.model.outputs, prior.std, strict=True) if np.isfinite(s)},
        converged=best.result.converged and not state.interrupted, status=_status(best, state), interrupted=state.interrupted,
        notes=(*prior.notes, *_notes(problem, std_after), *problem.mode.notes_on_guards(uses)),
        width_before=width_before, width_after=width_after,
        counts={"starts": len(state.optima), "evaluations": sum(own.evaluations for own in state.optima),
                "coefficients": c.size, "scenarios": len(problem.scenarios)},
        times={"search": seconds}, units={u.name: u.unit for u in prior.problem.unknowns},
        shape=shape_label(problem.inputs.signals))


def _on_the_true_grid(problem: DesignProblem, best: Candidate) -> tuple[DesignProblem, np.ndarray]:
    """The problem with the steps of the optimisation and a chosen duration, and coefficients (records, coefficients)."""
    problem, c = replace(problem, simulation=best.nlp.simulation), problem.coefficients(best.result.point)
    if not problem.inputs.free_duration:
        return problem, c
    return problem.with_fixed_duration(problem.inputs.duration(c[0])), c[:, :-1]


def _planned_rows(problem: DesignProblem, c: np.ndarray, record: int) -> np.ndarray:
    """Weighted sensitivities (rows, unknowns) of a planned record at the nominal values."""
    prior, simulation = problem.prior, problem.simulation
    result = simulation.run(c[record], *prior.nominal(record), derivatives=False)
    columns = prior.unknown_columns(record, simulation.model.initial, simulation.model.free)
    S = embed_sensitivities(result, columns, len(prior.names))
    S = S if problem.taken is None else S[problem.taken[record]]
    return (S / prior.std[:, None]).reshape(-1, len(prior.names))


def predicted_std(prior: PriorInformation, of_interest: np.ndarray, planned: np.ndarray | None = None) -> dict[str, float]:
    """Of the parameters of interest, before or (with their rows) after the planned records; infinite where nothing is told."""
    std = prior.identifiability(planned).std
    return {prior.names[i]: float(std[i]) for i in of_interest}


def _status(best: Candidate, state: DesignState) -> str:
    if state.interrupted:
        return "Stopped by the user; this is the best input that was verified so far."
    if not best.result.converged:
        return f"The search was stopped before it converged ({best.result.status}); this is the best input so far."
    if len(state.optima) == 1:
        return "From one start."
    near = best.optimum.value + SAME_OPTIMUM * max(1.0, abs(best.optimum.value))
    agree = sum(own.feasible and own.value <= near for own in state.optima)
    return f"Best of {len(state.optima)} starts, found by {agree} of them."


def _notes(problem: DesignProblem, std_after: Mapping[str, float]) -> list[str]:
    notes, robust = [], problem.options.robust
    lost = [name for name, std in std_after.items() if not np.isfinite(std)]
    if lost:
        notes.append(f"Even with this input {', '.join(lost)} cannot be determined; a signal with more "
                     "coefficients or wider constraints may help.")
    if problem.taken is not None:
        notes.append(f"Of {problem.inputs.samples} samples of a record {int(problem.taken[0].sum())} are measured: those that "
                     "tell most with this input.")
    if robust:
        notes.append(f"Planned for the {robust} of {len(problem.scenarios)} sets of values; the standard deviations are those "
                     "at the nominal values.")
    return notes


def _record(problem: DesignProblem, c: np.ndarray, record: int) -> PlannedRecord:
    """What to run, and what the machine is expected to do."""
    prior, layout = problem.prior, problem.layout
    fine = problem.simulate_finely(c[record], prior.values, record)
    problem.mode.check_stays(fine)
    time, states, outputs = fine.at_samples()
    sampled = problem.inputs.sample(c[record]).values
    return PlannedRecord(
        prior.problem.experiments[prior.at_hand + record].name, time,
        {n: sampled[:, i] for i, n in enumerate(problem.inputs.signals)}, states, outputs, dict(layout.holds),
        dict(layout.initial), _noise(problem),
        dict(zip(problem.inputs.names, (float(v) for v in c[record]), strict=True)), problem.mode.mode,
        None if problem.taken is None else problem.taken[record])


def _noise(problem: DesignProblem) -> dict[str, Noise]:
    """As in the last record: bounded where that is."""
    asked, planned = problem_of(problem.mode.known), problem.prior.problem.experiments[-1]
    noise: dict[str, Noise] = {}
    for name, level in planned.noise.items():
        last = asked.noise_of(name)[-1]
        noise[name] = Bounded(float(np.mean(np.asarray(last.radius, float)))) if isinstance(last, Bounded) else level
    return noise


# bounded errors: how wide would the set of parameters be that they allow?


def _set_widths(problem: DesignProblem, planned: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    asked = problem_of(problem.mode.known)
    if not any(isinstance(n, Bounded) for name in asked.model.outputs for n in asked.noise_of(name)):
        return {}, {}
    return predicted_set_widths(problem.prior, planned, problem.of_interest)
