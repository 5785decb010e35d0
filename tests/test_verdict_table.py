"""Claim: the manual's table of verdicts holds what the rule says today of ends that no threshold was tuned on."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
EVERY = 160  # so many ends of the table are skipped between two that are fitted anew
NEAR = 2  # of those that may lie so near a threshold that another processor grades them otherwise


@pytest.fixture
def verdicts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("benchmark_verdict", BENCHMARKS / "verdict.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark_verdict", module)  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def recorded() -> list[dict[str, str]]:
    with (BENCHMARKS / "verdict_ends.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.filterwarnings("ignore")
def test_ends_of_the_table_are_graded_as_it_says(verdicts):
    other = []
    for row in [each for each in recorded() if int(each["samples"]) <= 1000][::EVERY]:
        end = verdicts.make(int(row["number"]))
        about, arrays = verdicts.pack(end)
        it = verdicts.case(int(row["number"]))
        judged = verdicts.Judged(it, end.label, end.error, verdicts.judge_estimate(verdicts.unpack(it, about, arrays)))
        beyond = "yes" if judged.wrong else "no"
        if (judged.grade, judged.label, beyond) != (row["grade"], row["label"], row["beyond the noise"]):
            other.append(f"{row['number']}: {judged.grade}, recorded {row['grade']}")
    assert len(other) <= NEAR, f"python benchmarks/verdict.py record; {other}"


def test_the_manual_names_the_counts_of_its_table(verdicts):
    rows = recorded()
    assert len(rows) >= 3000 and min(int(row["number"]) for row in rows) >= verdicts.TUNED
    wrong = [row["grade"] in verdicts.TO_THE_NOISE for row in rows if row["beyond the noise"] == "yes"]
    right = {noise: [row["grade"] in "CD" for row in rows if row["label"] == "right" and row["noise"] == noise]
             for noise in ("white", "slow")}
    page = " ".join((BENCHMARKS.parent / "docs" / "explain" / "verdict.md").read_text(encoding="utf-8").split())
    for found, share in ((wrong, 0.01), (right["white"], 0.005), (right["slow"], 0.02)):
        assert sum(found) <= share * len(found) and f"{sum(found)} of {len(found)} (" in page
