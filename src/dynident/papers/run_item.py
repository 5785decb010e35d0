"""The papers: compute items, write table, figure and line of each, and go on where a run was stopped."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from dynident._util.atomic import atomic_write
from dynident._util.blas_threads import single_thread
from dynident._util.progress import Tell
from dynident.errors import DynidentError, ProblemError, did_you_mean
from dynident.papers.outcome import Agreement, Outcome, verdict_text
from dynident.papers.registry import ITEMS, Item

FORMS = ("quick", "full")
FIELDS = ("id", "form", "theirs", "ours", "agreement", "because", "cpu_seconds")


@dataclass(frozen=True)
class ItemResult:
    """The line of an item as it is kept, with what it cost."""

    id: str
    form: str  # "quick" or "full"
    theirs: str
    ours: str
    agreement: Agreement
    because: str
    cpu_seconds: float

    @property
    def line(self) -> str:
        return " | ".join((self.theirs, self.ours, self.verdict))

    @property
    def verdict(self) -> str:
        """The third cell of the line."""
        return verdict_text(self.agreement, self.because)

    def cells(self) -> dict[str, Any]:
        """By field, as text and numbers."""
        return {**{field: getattr(self, field) for field in FIELDS}, "agreement": self.agreement.value,
                "cpu_seconds": round(self.cpu_seconds, 1)}

    @classmethod
    def from_cells(cls, cells: dict[str, Any]) -> ItemResult:
        words = {field: str(cells[field]) for field in ("id", "form", "theirs", "ours", "because")}
        return cls(agreement=Agreement(cells["agreement"]), cpu_seconds=float(cells["cpu_seconds"]), **words)


def file_of(item: Item, folder: Path, kind: str) -> Path:
    """Where an item's table, figure or line is below the folder."""
    return folder / f"{item.id}.{kind}"  # with_suffix would take the end of table-7.3 for one


def item_named(name: str) -> Item:
    """The item with this id; else an error that names the nearest."""
    known = {item.id: item for item in ITEMS}
    if name not in known:
        raise ProblemError(f"There is no item '{name}' of a paper.{did_you_mean(name, known)} "
                           "`dynident papers` lists them all.")
    return known[name]


def compute(item: Item, quick: bool, tell: Tell = lambda line: None) -> tuple[Outcome, float]:
    """The outcome of an item, and the CPU seconds that it took."""
    study, begin = resolve_name(item.place), time.process_time()
    with single_thread():  # here, as NumPy may have come with the study only
        outcome = study(quick, tell)
    return outcome, time.process_time() - begin


def run_item(item: Item, folder: Path, quick: bool, tell: Tell = lambda line: None) -> ItemResult:
    """Compute an item and write its table (CSV), its figure (PNG, SVG) and its line (JSON) below the folder."""
    outcome, seconds = compute(item, quick, tell)
    result = ItemResult(item.id, _form(quick), outcome.theirs, outcome.ours, outcome.agreement, outcome.because, seconds)
    with atomic_write(file_of(item, folder, "csv")) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([outcome.columns, *outcome.rows])
    if outcome.draw is not None:
        _draw(outcome, item, folder)
    with atomic_write(file_of(item, folder, "json")) as aside:  # the last: it says that the item is whole
        aside.write_text(json.dumps(result.cells(), indent=1, ensure_ascii=False), encoding="utf-8")
    return result


def run_items(items: Sequence[Item], folder: Path, quick: bool, tell: Tell = lambda line: None, again: bool = False
              ) -> Iterator[tuple[Item, ItemResult | DynidentError, bool]]:
    """Each item with its result or what went wrong, and whether it was computed now or lay in the folder already."""
    for number, item in enumerate(items, 1):
        kept = None if again else read_result(item, folder)
        if kept is not None and kept.form == _form(quick):
            yield item, kept, False
            continue
        where = f"{number} of {len(items)}, {item.id}"
        tell(where)
        try:
            yield item, run_item(item, folder, quick, partial(_tell_where, tell, where)), True
        except DynidentError as error:
            yield item, error, True


def _tell_where(tell: Tell, where: str, line: str) -> None:
    tell(f"{where}: {line}")


def read_result(item: Item, folder: Path) -> ItemResult | None:
    """What an earlier run left in the folder; None where there is nothing, or nothing that can be read."""
    try:
        return ItemResult.from_cells(json.loads(file_of(item, folder, "json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError):
        return None


def read_results(folder: Path) -> dict[str, ItemResult]:
    """By id, all items that lie in the folder."""
    return {item.id: kept for item in ITEMS if (kept := read_result(item, folder)) is not None}


def recorded(form: str = "quick") -> dict[str, ItemResult]:
    """The lines that came with this version, by id; made by `make papers`, and checked by the tests."""
    text = resources.files("dynident.papers").joinpath("recorded.csv").read_text(encoding="utf-8")
    return {own.id: own for row in csv.DictReader(text.splitlines()) if (own := ItemResult.from_cells(row)).form == form}


def write_record(results: Sequence[ItemResult], path: Path) -> None:
    """Keep the lines as one CSV file."""
    with atomic_write(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(result.cells() for result in results)


def _form(quick: bool) -> str:
    return FORMS[0] if quick else FORMS[1]


def _draw(outcome: Outcome, item: Item, folder: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    assert outcome.draw is not None
    outcome.draw(figure)
    figure.suptitle(f"{item.paper_name}: {item.item}", fontsize="medium")
    for kind in ("png", "svg"):
        with atomic_write(file_of(item, folder, kind)) as aside:
            figure.savefig(aside, format=kind, dpi=120)
