"""Are the speed figures of README and manual those of benchmarks/RESULTS.md?

A figure is a ratio ("140 times less CPU", a number in a table of README's section on speed) or a time of computing ("58 ms").
It must be a number of RESULTS.md, rounded as the page rounds it. Times of machines and records, and what was measured once to
decide something and has no benchmark, are listed below by their words.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md"))
                               if page.name not in ("glossary.md", "changes.md") and "_build" not in page.parts)]
NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
RATIO = re.compile(rf"{NUMBER}(?:(?:, {NUMBER})* (?:and|to|or) {NUMBER})? times "
                   "(?:less|faster|slower|ours?|more CPU|as (?:long|fast|quick)|the (?:CPU|time|cost)|quicker|a bare)")
TIME = re.compile(rf"{NUMBER}(?: (?:and|to) {NUMBER})? (ms|us|ns)\b")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
NO_SPEED = {  # page -> words that hold a time or a ratio of something else
    "docs/howto/stiff.md": ("0.1 ms beside a mechanical one", "a time constant of 0.2 ms", "sampled every 10 ms"),
    "docs/methods/boundary_value.md": ("differences over 10 ms",),
    "docs/design/filters.md": ("whose sensor is 5,000 times faster than",),
    "docs/design/fmu.md": ("at steps of 10 ms only",),
    "docs/design/verdict.md": ("100 samples of 10 ms ahead", "told them apart at 10 ms, but at 20 ms"),
}
DECIDED_ONCE = {  # page -> words of a measurement that decided a design, in a note about it
    "docs/design/kernels.md": ("2.5 and 8.8 ms, 9.9 and 34 ms", "2.5 to 0.5 ms", "took 312 ns", "20 ns each time here",
                               "0.40 ms, 5e-11, 6e-10 | 42 ms", "0.30 ms, 2e-10, 2e-9 | 39 ms", "0.56 ms, 5e-9, 1e-8 | 62 ms",
                               "0.71 ms, 3e-9, 4e-7 | 72 ms", "0.1 to 0.5 ms for 301",
                               "1.5 us per Runge-Kutta step plain and 10.6 us with sensitivities, 30 ms for a pass",
                               "18 and 16 ms; with the derivatives of CVODES",
                               "is 30 passes of 20 us", "takes about 1 ms more", "3.7 instead of 9.2 ms for a pass",
                               "names shooting, which takes 20 ms", "of a protocol took 20 us each time"),
    "docs/design/robots.md": ("takes 33 ms", "cosines (Garcia 2010) it takes 10 ms"),
    "docs/design/automatic.md": ("60 times the CPU on EMPS",),
    "docs/design/experiment-design.md": ("1.4 to 4.4 times less time on six designs",),
    "docs/design/verified.md": ("about 2 ns per operation",),
    "docs/design/smoothing.md": ("0.73 to 0.48 us", "some 1.5 ms of CPU", "20.7 to 22.4 times less CPU than Ipopt",
                                 "23 to 28 times less than `solve_bvp`"),
}


def number(text: str) -> float:
    return float(text.replace(",", ""))


def figures(text: str) -> list[tuple[str, float, str]]:
    """(\"ratio\" or \"time\", the number as it is said, its digits)."""
    ratios = [("ratio", number(each), each) for found in RATIO.finditer(text) for each in re.findall(NUMBER, found[0])]
    times = [("time", number(each) * UNITS[found[3]], each) for found in TIME.finditer(text)
             for each in (found[1], found[2]) if each]
    return ratios + times


def tables(text: str) -> list[tuple[str, float, str]]:
    """Ratios in the tables of README's section on speed."""
    section = text.split("\n## Speed\n")[1].split("\n## ")[0] if "\n## Speed\n" in text else ""
    cells = [cell for line in section.splitlines() if line.startswith("| ") for cell in line.split("|")[2:]]
    return [("ratio", number(each), each) for cell in cells if re.fullmatch(rf" *{NUMBER}(?: to {NUMBER})? *", cell)
            for each in re.findall(NUMBER, cell)]


def measured() -> dict[str, list[float]]:
    """All ratios and times of RESULTS.md."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    text = "\n".join("|".join(line.split("|")[:3]) + "|" if line.startswith("|") else line for line in lines)  # no targets
    alone = re.findall(rf"\| {NUMBER} +\|", text)
    return {"ratio": [number(each) for each in [*re.findall(rf"{NUMBER} times", text), *alone]] + [1.0],
            "time": [number(each) * UNITS[unit] for each, unit in re.findall(rf"{NUMBER} (s|ms|us|ns)\b", text)]}


def step_of(digits: str) -> float:
    """What the last digit that a page gives is worth: 1,000 is given to a thousand, 0.85 to a hundredth."""
    whole, _, part = digits.replace(",", "").partition(".")
    return 10.0 ** -len(part) if part else 10.0 ** (len(whole) - len(whole.rstrip("0") or whole))


def is_measured(kind: str, value: float, digits: str, found: list[float]) -> bool:
    unit = value / number(digits) if number(digits) else 1.0
    room = min(0.5 * step_of(digits), max(0.5, 0.1 * number(digits))) if "." not in digits else 0.5 * step_of(digits)
    return any(abs(each - value) <= room * unit * (1 + 1e-9) for each in found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_speed_figures_are_measured(page):
    name, text = str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    flat = " ".join(text.split())
    for words in (*NO_SPEED.get(name, ()), *DECIDED_ONCE.get(name, ())):
        assert words in flat, f"{name} no longer says '{words}'"
        flat = flat.replace(words, "")
    found = measured()
    strays = [f"{digits} ({kind})" for kind, value, digits in [*figures(flat), *(tables(text) if name == "README.md" else [])]
              if not is_measured(kind, value, digits, found[kind])]
    assert strays == [], "not in benchmarks/RESULTS.md"


@pytest.mark.parametrize(("said", "value", "good"), [
    ("140", 143.2, True), ("140", 147.0, False), ("1,000", 1049.0, True), ("10", 14.0, False), ("0.85", 0.847, True),
    ("6", 6.4, True), ("21", 22.4, False)])
def test_a_figure_may_be_rounded_and_not_more(said, value, good):
    assert is_measured("ratio", number(said), said, [value]) is good
    assert math.isclose(step_of("58"), 1.0)
