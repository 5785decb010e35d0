"""Compare: one problem, several methods, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from dynident.errors import NotConverged, NotSupported, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.methods.identify import identify
from dynident.methods.method import Method
from dynident.methods.presets import method_from
from dynident.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Comparison(Mapping[str, Estimate]):
    """Estimates by label; a method that could not run at all stands in `failed` with the reason."""

    estimates: Mapping[str, Estimate]
    failed: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, label: str) -> Estimate:
        return self.estimates[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __str__(self) -> str:
        from dynident.report.terminal import comparison_text

        lines = [comparison_text(self.estimates)] if self.estimates else []
        return "\n".join([*lines, *(f"{label}: {reason}" for label, reason in self.failed.items())])


def compare(problem: Problem, methods: Iterable[Method | str | Mapping[str, Any]], executor: Executor | None = None,
            progress: Callable[..., object] | bool | None = None) -> Comparison:
    """Fit a problem by each method; one that does not converge keeps its best point, marked."""
    estimates: dict[str, Estimate] = {}
    failed: dict[str, str] = {}
    for wanted in methods:
        method = method_from(wanted)
        label = _label(method, [*estimates, *failed])
        try:
            estimates[label] = identify(problem, method, executor, progress)
        except NotConverged as stopped:
            if stopped.estimate is None:
                raise
            estimates[label] = stopped.estimate
            if stopped.estimate.counts.get("interrupted"):
                break
        except (NotSupported, ProblemError) as reason:
            failed[label] = str(reason)
    return Comparison(estimates, failed)


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
