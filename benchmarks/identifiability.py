"""Identifiability: does `check` name the symmetries that were planted in random models, and say nothing false?

    python benchmarks/identifiability.py

Random models of known identifiability (drives, kinetics, circuits, populations, regressions) get symmetries with known
invariants: a coefficient becomes a product, ratio, power, sum or mixed form of new parameters; all rates of a model share a
time unit; a gain is scaled on both sides; hidden states are scaled, shifted or mixed. Half of the values are small whole
numbers, at which sums and products look alike. A sentence is judged against the planted invariants alone: names, number and
functions must be right (gradients span the same space at random points); values that are said to give the same outputs must
leave every invariant as it was. Models without a symmetry must get no sentence; records that hide something of an
identifiable model must be blamed, not the model.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from timing import Line, Result, main, size

import dynident as di
from dynident.methods.open_loop import open_loop_residuals
from dynident.statistics.diagnostic import Diagnostic, DiagnosticCode

WITH, WITHOUT, UNEXCITED = size(200, 4), size(100, 2), size(40, 2)
SEED = 21  # 20 was looked at while the search was written
LARGEST = 1e4  # outputs beyond it are those of a model that runs away
SAME = 1e-4  # relative; of printed numbers, and of spans
JUDGED = {DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE, DiagnosticCode.NOT_EXCITED, DiagnosticCode.NOT_EXCITED_BY_START,
          DiagnosticCode.UNIDENTIFIABLE, DiagnosticCode.NO_EFFECT, DiagnosticCode.ZERO_SENSITIVITY,
          DiagnosticCode.UNIDENTIFIABLE_AT_START}


@dataclass(frozen=True)
class Plant:
    """Equations over coefficients that the outputs determine, each written {name}."""

    name: str
    states: Mapping[str, str]
    outputs: Mapping[str, str]
    coefficients: tuple[str, ...]
    initial: Mapping[str, float]
    driven: bool = True


@dataclass(frozen=True)
class Symmetry:
    """Parameters of which only these functions show; none: they act on nothing."""

    kind: str
    names: tuple[str, ...]
    invariants: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A model with its values and what is planted in it."""

    plant: Plant
    values: Mapping[str, float]
    symmetries: tuple[Symmetry, ...]
    input_kind: str = "rich"


PLANTS = (
    Plant("lag", {"x": "-{k}*x + {b}*u"}, {"y": "x"}, ("k", "b"), {"x": 0.0}),
    Plant("oscillator", {"x": "v", "v": "{b}*u - {d}*v - {k}*x"}, {"y": "x"}, ("b", "d", "k"), {"x": 0.0, "v": 0.0}),
    Plant("pendulum", {"q": "w", "w": "{b}*u - {d}*w - {g}*sin(q)"}, {"angle": "q"}, ("b", "d", "g"), {"q": 0.3, "w": 0.0}),
    Plant("Duffing", {"x": "v", "v": "u - {d}*v - {k}*x - {c}*x**3"}, {"y": "x"}, ("d", "k", "c"), {"x": 0.2, "v": 0.0}),
    Plant("axis", {"q": "v", "v": "{b}*u - {d}*v - {f}*tanh(v/0.1) - {o}"}, {"q": "q"}, ("b", "d", "f", "o"),
          {"q": 0.0, "v": 0.0}),
    Plant("van der Pol", {"x": "v", "v": "{m}*(1 - x**2)*v - {k}*x + u"}, {"y": "x"}, ("m", "k"), {"x": 1.0, "v": 0.0}),
    Plant("logistic", {"x": "{r}*x - {c}*x**2"}, {"y": "x"}, ("r", "c"), {"x": 0.2}, False),
    Plant("enzyme", {"s": "-{V}*s/({K} + s) + {b}*u**2"}, {"y": "s"}, ("V", "K", "b"), {"s": 2.0}),
    Plant("prey and predator", {"x": "{a}*x - {b}*x*y", "y": "{c}*x*y - {d}*y"}, {"prey": "x", "predator": "y"},
          ("a", "b", "c", "d"), {"x": 1.0, "y": 0.6}, False),
    Plant("motor", {"i": "u - {R}*i - {K}*w", "w": "{G}*i - {B}*w"}, {"i": "i", "w": "w"}, ("R", "K", "G", "B"),
          {"i": 0.0, "w": 0.0}),
    Plant("chain", {"a": "-{p}*a", "b": "{p}*a - {q}*b"}, {"a": "a", "b": "b"}, ("p", "q"), {"a": 1.5, "b": 0.0}, False),
    Plant("decay", {}, {"y": "{a}*exp(-{b}*t) + {c}"}, ("a", "b", "c"), {}, False),
    Plant("peak", {}, {"y": "{a}*exp(-((t - 2)/{b})**2) + {c}*t"}, ("a", "b", "c"), {}, False),
)
FORMS = (("product", "{0}*{1}"), ("ratio", "{0}/{1}"), ("sum", "({0} + {1})"), ("sum", "({0} + {1} + {2})"),
         ("sum", "(2*{0} + {1})"), ("product", "{0}*{1}*{2}"), ("power", "{0}*{1}**2"), ("difference", "({0} + 5 - {1})"),
         ("mixed", "({0} + {1}*{2})"), ("mixed", "({0} + {1})*{2}"), ("mixed", "({0} + {1}*{2}**2)"), ("ratio", "{0}*{1}/{2}"))


def draw(rng: np.random.Generator) -> float:
    return float(rng.integers(1, 4)) if rng.random() < 0.5 else float(np.round(rng.uniform(0.4, 2.5), 3))


def plain(rng: np.random.Generator) -> Case:
    plant = PLANTS[rng.integers(len(PLANTS))]
    return Case(_named(plant, {c: c for c in plant.coefficients}), {c: draw(rng) for c in plant.coefficients}, ())


def _named(plant: Plant, words: Mapping[str, str]) -> Plant:
    def fill(equations: Mapping[str, str]) -> dict[str, str]:
        return {name: text.format(**words) for name, text in equations.items()}

    return replace(plant, states=fill(plant.states), outputs=fill(plant.outputs))


def with_form(rng: np.random.Generator) -> Case:
    """One or two coefficients become functions of new parameters."""
    plant = PLANTS[rng.integers(len(PLANTS))]
    words, values, planted = {c: c for c in plant.coefficients}, {}, []
    chosen = rng.choice(len(plant.coefficients), size=min(1 + int(rng.random() < 0.3), len(plant.coefficients)), replace=False)
    for i in chosen:
        kind, form = FORMS[rng.integers(len(FORMS))]
        count = len(set(re.findall(r"\{(\d)\}", form)))
        names = tuple(f"{plant.coefficients[i]}{letter}" for letter in "xyz"[:count])
        words[plant.coefficients[i]] = f"({form.format(*names)})"
        planted.append(Symmetry(kind, names, (form.format(*names),)))
        values |= {name: draw(rng) for name in names}
    values |= {c: draw(rng) for i, c in enumerate(plant.coefficients) if i not in chosen}
    return Case(_named(plant, words), values, tuple(planted))


def with_scaling(rng: np.random.Generator) -> Case:
    """A whole equation is divided by one more parameter: m*x'' = g*u - d*x' - k*x."""
    n = int(rng.integers(1, 4))
    terms = ["gain*u", "d*v", "k*x", "c*x**3"][:n + 1]
    plant = Plant("scaled", {"x": "v", "v": f"({' - '.join(terms)})/m"}, {"y": "x"}, (), {"x": 0.1, "v": 0.0})
    names = ("gain", "d", "k", "c")[:n + 1]
    return Case(plant, {name: draw(rng) for name in (*names, "m")},
                (Symmetry("scaling", (*names, "m"), tuple(f"{name}/m" for name in names)),))


def with_time_unit(rng: np.random.Generator) -> Case:
    """All rates share a time constant."""
    if rng.random() < 0.5:
        plant = Plant("time", {"x": "(a*x - b*x*y)/tau", "y": "(c*x*y - d*y)/tau"}, {"x": "x", "y": "y"}, (),
                      {"x": 1.0, "y": 0.6}, False)
        rates = ("a", "b", "c", "d")
    else:
        plant = Plant("time", {"x": "tau*(g*u - k*x - c*x**3)"}, {"y": "x"}, (), {"x": 0.2})
        return Case(plant, {name: draw(rng) for name in ("g", "k", "c", "tau")},
                    (Symmetry("time", ("g", "k", "c", "tau"), ("tau*g", "tau*k", "tau*c")),))
    return Case(plant, {name: draw(rng) for name in (*rates, "tau")},
                (Symmetry("time", (*rates, "tau"), tuple(f"{name}/tau" for name in rates)),))


def with_gauge(rng: np.random.Generator) -> Case:
    """A hidden state is scaled, shifted or mixed with a measured one."""
    kind = rng.integers(5)
    if kind == 0:
        plant = Plant("gauge", {"z": "-p*z + b*u", "x": "c*z - q*x"}, {"y": "x"}, (), {"z": 0.0, "x": 0.0})
        return _distinct(plant, ("p", "b", "c", "q"), rng, Symmetry("gauge", ("b", "c"), ("b*c",)))
    if kind == 1:
        plant = Plant("gauge", {"x": "-p*x + b*u"}, {"y": "s*x"}, (), {"x": 0.0})
        return Case(plant, {n: draw(rng) for n in ("p", "b", "s")}, (Symmetry("gauge", ("b", "s"), ("b*s",)),))
    if kind == 2:
        plant = Plant("gauge", {"x": "-p*x - c*x**2 + b*u"}, {"y": "s*x"}, (), {"x": 0.0})
        return Case(plant, {n: draw(rng) for n in ("p", "c", "b", "s")}, (Symmetry("gauge", ("c", "b", "s"), ("c/s", "b*s")),))
    if kind == 3:
        plant = Plant("gauge", {"x1": "-(k01 + k21)*x1 + k12*x2 + u", "x2": "k21*x1 - (k02 + k12)*x2"}, {"y": "x1"}, (),
                      {"x1": 0.0, "x2": 0.0})
        names = ("k01", "k21", "k12", "k02")
        return _distinct(plant, names, rng, Symmetry("gauge", names, ("k01 + k21", "k02 + k12", "k12*k21")))
    plant = Plant("gauge", {"x": "-p*(x - a) + b*u"}, {"y": "x - o"}, (), {})
    return Case(plant, {n: draw(rng) for n in ("p", "a", "b", "o")},
                (Symmetry("gauge", ("a", "o", "x(0)"), ("a - o", "x0 - o")),))


def _distinct(plant: Plant, names: Sequence[str], rng: np.random.Generator, symmetry: Symmetry) -> Case:
    """At values that are all different: at equal ones a start is special, which is another finding."""
    values = rng.choice(np.arange(0.4, 2.4, 0.137), len(names), replace=False)
    return Case(plant, {name: float(value) for name, value in zip(names, values, strict=True)}, (symmetry,))


def unexcited(rng: np.random.Generator) -> Case:
    """Identifiable, but the input rests, so that its gain does not show."""
    while True:
        plant = PLANTS[rng.integers(len(PLANTS))]
        if "b" in plant.coefficients and plant.driven and plant.name in ("lag", "oscillator", "pendulum", "axis", "enzyme"):
            break
    moving = {state: value or 0.7 for state, value in plant.initial.items()}
    named = replace(_named(plant, {c: c for c in plant.coefficients}), initial=moving)
    return Case(named, {c: draw(rng) for c in plant.coefficients}, (Symmetry("record", ("b",), ()),), "rest")


PLANTED = (with_form, with_form, with_form, with_scaling, with_time_unit, with_gauge, with_gauge)


def problem_of(case: Case, rng: np.random.Generator) -> di.Problem:
    plant, n = case.plant, int(rng.integers(60, 200))
    t = np.linspace(0, rng.uniform(3, 8), n)
    model = di.EquationModel(states=plant.states, outputs=plant.outputs, inputs=["u"] if plant.driven else [])
    levels = rng.uniform(-1, 1, 16)[np.minimum((t / t[-1] * 15).astype(int), 15)]
    u = levels + 0.5 * np.sin(2 * t + rng.uniform(0, 6))
    inputs = {"u": u if case.input_kind == "rich" else np.zeros(n)} if plant.driven else {}
    record = di.Experiment(t, inputs, {name: 1 + np.sin(t) for name in plant.outputs},
                           {name: di.Gaussian(0.01) for name in plant.outputs}, plant.initial)
    free = [di.InitialState(state, start=draw(rng)) for state in plant.states if state not in plant.initial]
    return di.Problem(model, [record], [*(di.Parameter(name, value) for name, value in case.values.items()), *free])


def drawn(make: Callable[[np.random.Generator], Case], rng: np.random.Generator) -> tuple[Case, di.Problem]:
    """A case that can be simulated: kinetics with negative coefficients leave the finite numbers."""
    while True:
        case = make(rng)
        problem = problem_of(case, rng)
        residuals = open_loop_residuals(problem, {}, substeps=4)
        if residuals is not None and all(np.max(np.abs(r)) < LARGEST for own in residuals for r in own.values()):
            return case, problem


# -- judging a sentence by what was planted, and by nothing of dynident

def said_functions(sentence: str) -> list[str] | None:
    """The functions of 'only f and g are determined', else None."""
    match = re.fullmatch(r"only (.*) (?:is|are) determined", sentence)
    return None if match is None else match.group(1).split(" and ")


def evaluated(text: str, at: Mapping[str, float]) -> float:
    """A function as it is printed: ^ is a power, and a number stands before its factor."""
    text = text.replace("(0)", "0").replace("^", "**")
    text = re.sub(r"(?<![\w.*])(\d+(?:\.\d+)?) (?=[A-Za-z(])", r"\1*", text)
    return float(eval(text, {"__builtins__": {}, "exp": np.exp, "sin": np.sin}, dict(at)))


def gradients(functions: Sequence[str], at: Mapping[str, float]) -> np.ndarray:
    rows = []
    for text in functions:
        row = []
        for name, value in at.items():
            step = 1e-5 * value
            row.append((evaluated(text, {**at, name: value + step}) - evaluated(text, {**at, name: value - step})) / (2 * step))
        rows.append(row)
    return np.array(rows)


def same_span(said: Sequence[str], planted: Sequence[str], names: Sequence[str], rng: np.random.Generator) -> bool:
    for _ in range(3):
        at = {name.replace("(0)", "0"): rng.uniform(0.5, 2.0) for name in names}
        a, b = gradients(said, at), gradients(planted, at)
        ranks = [np.linalg.matrix_rank(m, tol=SAME * np.linalg.norm(m)) for m in (a, b, np.vstack([a, b]))]
        if len(set(ranks)) > 1 or ranks[0] != len(said):
            return False
    return True


def is_true(finding: Diagnostic, case: Case, symmetry: Symmetry, rng: np.random.Generator) -> bool:
    """Whether a sentence about exactly these names says what was planted."""
    if not symmetry.invariants:
        return finding.sentence == f"nothing measured depends on {' or '.join(symmetry.names)}"
    functions = said_functions(finding.sentence)
    if functions is not None:
        return same_span(functions, symmetry.invariants, symmetry.names, rng)
    numbers = dict(re.findall(r"([\w()]+) = (-?[\d.e+-]+\d)", finding.sentence.split(";")[-1]))
    count = re.search(r"only (\d+) combination", finding.sentence)
    if set(numbers) != set(symmetry.names) or count is None or int(count.group(1)) != len(symmetry.invariants):
        return False
    there = {name.replace("(0)", "0"): float(value) for name, value in numbers.items()}
    here = {name.replace("(0)", "0"): case.values.get(name, np.nan) for name in symmetry.names}
    return all(abs(evaluated(f, there) / evaluated(f, here) - 1) < SAME for f in symmetry.invariants)


def judge(case: Case, findings: Sequence[Diagnostic], rng: np.random.Generator) -> tuple[int, int, list[str]]:
    """Symmetries named, those of them with all functions, and false sentences."""
    wanted = {symmetry.names: symmetry for symmetry in case.symmetries}
    right = (DiagnosticCode.NOT_EXCITED,) if case.input_kind != "rich" else (DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE,)
    named, in_full, false = 0, 0, []
    for finding in findings:
        if finding.code not in JUDGED:
            continue
        symmetry = next((s for names, s in wanted.items() if set(names) == set(finding.names)), None)
        if symmetry is not None and finding.code in right and is_true(finding, case, symmetry, rng):
            named += 1
            in_full += said_functions(finding.sentence) is not None or not symmetry.invariants
        else:
            false.append(f"{dict(case.values)} {dict(case.plant.states)} {dict(case.plant.outputs)}: {finding}")
    return named, in_full, false


def run() -> Result:
    began, rng = time.process_time(), np.random.default_rng(SEED)
    groups = {"planted": [drawn(PLANTED[i % len(PLANTED)], rng) for i in range(WITH)],
              "none": [drawn(plain, rng) for _ in range(WITHOUT)], "record": [drawn(unexcited, rng) for _ in range(UNEXCITED)]}
    named, in_full, planted, false, most = Counter(), Counter(), Counter(), [], 0
    for group, cases in groups.items():
        for case, problem in cases:
            findings = di.check(problem).findings
            found, full, wrong = judge(case, findings, rng)
            lines = sum(f.code in JUDGED for f in findings)
            most = max(most, lines - len(case.symmetries))
            named[group] += found
            in_full[group] += full
            planted[group] += len(case.symmetries)
            false += wrong
            for symmetry in case.symmetries if found < len(case.symmetries) else ():
                named[f"missed {symmetry.kind}"] += 1
    share = named["planted"] / planted["planted"]
    rest = named["record"] / planted["record"]
    lines = [
        Line("planted symmetries named", f"{named['planted']} of {planted['planted']} in {WITH} models ({100 * share:.1f} %)",
             ">= 95 %", share >= 0.95),
        Line("of these with every function written out", f"{in_full['planted']}"),
        Line("false sentences", f"{len(false)} in {WITH + WITHOUT + UNEXCITED} models", "0", not false),
        Line("lines beyond one per symmetry, at most", f"{most}", "0", most <= 0),
        Line("what the record hides, called so", f"{named['record']} of {planted['record']}", ">= 95 %", rest >= 0.95),
        Line("CPU, compilers not counted", f"{time.process_time() - began:.0f} s")]
    missed = [f"{kind}: {count}" for kind, count in named.items() if kind.startswith("missed")]
    setting = (f"`check` on {WITH} random models with planted symmetries, {WITHOUT} without and {UNEXCITED} whose record "
               "hides a gain; judged by the planted invariants.")
    return Result("Identifiability", setting, lines, [*missed, *(f"FALSE {each}" for each in false)])


if __name__ == "__main__":
    main(run)
