"""Compare: one problem, several methods, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

from dynident._util import hooks
from dynident._util.data_classes import data_frame, short_text
from dynident.errors import NotConverged, NotSupported, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.methods.method import Method
from dynident.methods.presets import method_from
from dynident.methods.ranking import best_per_objective, same_optimum
from dynident.parallel.tasks import map_ordered
from dynident.problem.problem import Problem
from dynident.transcription.nlp_structure import nlp_structure
from dynident.verbs.identify import identify
from dynident.verbs.multistart import MultiStart, check_starts

NOT_REACHED = "the comparison was stopped by the user before it had an answer."
Wanted = Method | str | Mapping[str, Any]  # a method, its name, or a [method] table
LARGEST_LOOKED_AT = 200_000  # variables; beyond it counting nonzeros takes longer than most fits


@dataclass(frozen=True, eq=False)
class Comparison(Mapping[str, Estimate]):
    """Estimates by label, one per method; prints as a table that says whether they agree.

    See the manual, choose.

    Attributes
    ----------
    estimates : mapping of str to Estimate
        By label; `comparison["kalman"]` reads one. A method that did not converge keeps its best point.
    failed : mapping of str to str
        Methods that could not run, or were never reached, with the reason.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> comparison = di.compare(problem, ["single_shooting", "set_membership"])
    >>> list(comparison), list(comparison.failed)
    (['single_shooting'], ['set_membership'])
    """

    estimates: Mapping[str, Estimate]
    failed: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, label: str) -> Estimate:
        return self.estimates[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __repr__(self) -> str:
        return short_text(self)

    def to_dict(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By label what `estimate.to_dict()` gives."""
        return {label: estimate.to_dict() for label, estimate in self.estimates.items()}

    def to_pandas(self) -> Any:
        """A DataFrame with one row per label and name; needs pandas."""
        return data_frame({f"{label}: {name}": {"method": label, "name": name, **row}
                           for label, rows in self.to_dict().items() for name, row in rows.items()})

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it before all methods had ended."""
        return NOT_REACHED in self.failed.values() or any(e.counts.get("interrupted") for e in self.estimates.values())

    def __str__(self) -> str:
        if not self.estimates:
            return "\n".join(f"{label}: {reason}" for label, reason in self.failed.items())
        return str(hooks.call("comparison_text", self))


def compare(problem: Problem, methods: Wanted | Iterable[Wanted], executor: Executor | None = None,
            progress: Callable[..., object] | bool | None = None, starts: int = 1) -> Comparison:
    """Fit a problem by each of several methods.

    See the manual, choose.

    Parameters
    ----------
    problem : Problem
        Model, records and unknowns.
    methods : method, str or mapping, or iterable of these
        As in `identify`.
    executor : concurrent.futures.Executor, optional
        Runs the methods side by side; with several starts, the starts of each.
    progress : callable or bool, optional
        Called with each iteration; False for silence.
    starts : int, default 1
        Start points of each method, the same for all. Beyond 1 it is counted how often each method reaches the best optimum
        that any method found which minimises the same sum (same loss, same weights).

    Returns
    -------
    Comparison
        Estimates by label, converged or not, and why a method could not run.

    Raises
    ------
    ProblemError
        For a method that there is not, or options that make no sense.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> comparison = di.compare(problem, [di.single_shooting(), di.multiple_shooting(segments=2)])
    >>> [f"{estimate.values['k']:.2f}" for estimate in comparison.values()]
    ['0.50', '0.50']
    """
    check_starts(starts)
    estimates: dict[str, Estimate] = {}
    failed: dict[str, str] = {}
    chosen: dict[str, Method] = {}
    for wanted in _as_list(methods):
        method = method_from(wanted)
        chosen[_label(method, list(chosen))] = MultiStart(method, starts=starts) if starts > 1 else method
    if starts > 1:  # starts are more than methods, and run side by side within each
        found: Iterator[Estimate | str] = (_run_method((problem, progress), method, executor) for method in chosen.values())
    else:
        found = map_ordered(_run_method, (problem, progress if executor is None else False),
                         [(method,) for method in chosen.values()], executor)
    try:
        for label, answer in zip(chosen, found, strict=False):  # Ctrl-C ends it early
            if isinstance(answer, str):
                failed[label] = answer
                continue
            estimates[label] = answer
            if answer.counts.get("interrupted"):
                break
    except KeyboardInterrupt:  # before the next method had anything to show
        if not estimates:
            raise
    failed |= {label: NOT_REACHED for label in chosen if label not in estimates and label not in failed}
    return Comparison(_recount_best({label: _with_nlp_densities(e) for label, e in estimates.items()}), failed)


def _as_list(methods: Any) -> Iterable[Wanted]:
    """One method needs no list."""
    if isinstance(methods, (str, Mapping, Method)):
        return [methods]
    if not isinstance(methods, Iterable):
        raise ProblemError(f"methods = {methods!r}; give a list of methods or of their names, such as "
                           '["single_shooting", "multiple_shooting"].')
    return methods


def _run_method(common: tuple[Problem, Any], method: Method, executor: Executor | None = None) -> Estimate | str:
    """The estimate, good or not, or why the method cannot."""
    problem, progress = common
    try:
        return identify(problem, method, executor, progress)
    except NotConverged as stopped:
        if stopped.estimate is None:
            raise
        return stopped.estimate
    except (NotSupported, ProblemError) as reason:
        return str(reason)


def _recount_best(estimates: dict[str, Estimate]) -> dict[str, Estimate]:
    """Starts that reached the best of all methods that minimise the same, not only the best of their own."""
    best = best_per_objective(estimates)
    return {label: replace(e, counts={**e.counts, "reached the best": sum(
        end.converged and same_optimum(end, best[label]) for end in e.starts)}) if e.starts else e
        for label, e in estimates.items()}


def _with_nlp_densities(estimate: Estimate) -> Estimate:
    """Densities of the nonlinear program, where the method makes one that is not too large to look at."""
    if estimate.counts.get("variables", LARGEST_LOOKED_AT + 1) > LARGEST_LOOKED_AT:
        return estimate
    finite = estimate.method.inner_method.transcribe(estimate.problem, estimate.counts.get("substeps", 1), estimate.noise_std)
    if finite is None:
        return estimate
    sizes = nlp_structure(finite)
    found = {"density_gradient": sizes.density_gradient, "density_jacobian": sizes.density_jacobian,
             "density_hessian": sizes.density_hessian}
    return replace(estimate, statistics={**estimate.statistics, **found})


def _label(method: Method, taken: list[str]) -> str:
    """The kind, with the options where one kind occurs twice."""
    options = method.options()
    label = str(options.pop("kind"))
    if label in taken:
        label = f"{label}({', '.join(f'{k}={v}' for k, v in options.items())})"
    base, count = label, 2
    while label in taken:
        label, count = f"{base} #{count}", count + 1
    return label
