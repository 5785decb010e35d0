"""Certified regressions from random starts: how often do the default, least_squares, lmfit and scipy find NIST's answers?

    python benchmarks/certified.py               the table; lmfit by the Python that DYNIDENT_PEERS names
    python benchmarks/certified.py lmfit case.json     the other side

27 sets of NIST StRD, from starts that lie up to a decade to either side of the certified values, signs kept, no bounds.
Arrived: the certified sum of squares, to 1e-6. Said: the method does not call its end converged (default: believed).
Results are lines of JSON in results/certified.jsonl, one a fit; stopped and started again, it goes on.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from timing import SMOKE, Line, Result, answer_as_peer, main, of_peer, size

SETS = size(27, 2)
STARTS = size(14, 1)  # of each set
DECADES = 1.0
SAME, ROUNDING = 1e-6, 1e-20  # of a sum of squares: what is above the certified one by less is the same; Lanczos1 is exact
SPACE = {"exp": np.exp, "cos": np.cos, "sin": np.sin, "atan": np.arctan, "pi": np.pi, "__builtins__": {}}
TESTS = Path(__file__).parents[1] / "tests"
STORE = (Path(tempfile.mkdtemp()) if SMOKE else Path("results")) / "certified.jsonl"
METHODS = ("default", "least_squares", "scipy lm", "scipy trf")


@dataclass(frozen=True)
class Fit:
    """One fit and what became of it."""

    method: str
    name: str  # of the set
    start: int
    arrived: bool
    sure: bool  # called converged, by the default believed, too
    seconds: float  # CPU

    @property
    def key(self) -> tuple[str, str, int]:
        return self.method, self.name, self.start


def random_starts(name: str, values: dict[str, float]) -> list[dict[str, float]]:
    rng = np.random.default_rng([27, *name.encode()])
    return [{p: float(v * 10 ** rng.uniform(-DECADES, DECADES)) for p, v in values.items()} for _ in range(STARTS)]


def arrived(case: dict[str, Any], found: dict[str, float]) -> bool:
    """Whether the sum of squares is that of the certified answer: parameters of alike terms may have changed places."""
    residuals = residuals_of(case)
    best = float(np.sum(residuals(np.array(list(case["values"].values()))) ** 2))
    return float(np.sum(residuals(np.array([found[p] for p in case["values"]])) ** 2)) <= best * (1 + SAME) + ROUNDING


def cases() -> list[dict[str, Any]]:
    """Each set with its model, data and starts as plain data."""
    sys.path.insert(0, str(TESTS))
    from nist import MODELS, certified

    found = []
    for name in list(MODELS)[:SETS]:
        data = certified(name)
        inputs = {f"x{k + 1}" if data.x.shape[1] > 1 else "x": column.tolist() for k, column in enumerate(data.x.T)}
        y = np.log(data.y) if name == "Nelson" else data.y
        found.append({"name": name, "model": MODELS[name], "inputs": inputs, "y": y.tolist(), "values": data.values,
                      "starts": random_starts(name, data.values)})
    return found


def residuals_of(case: dict[str, Any]) -> Any:
    formula = eval(f"lambda {', '.join([*case['inputs'], *case['values']])}: {case['model']}", SPACE)
    inputs, y = [np.array(v) for v in case["inputs"].values()], np.array(case["y"])

    def residuals(b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.nan_to_num(formula(*inputs, *b) - y, nan=1e10, posinf=1e10, neginf=-1e10)

    return residuals


def by_scipy(case: dict[str, Any], start: dict[str, float], method: str) -> tuple[bool, bool]:
    from scipy.optimize import least_squares

    try:
        found = least_squares(residuals_of(case), list(start.values()), method=method, max_nfev=5000, x_scale="jac",
                              xtol=1e-12, ftol=1e-12, gtol=1e-12)
    except (ValueError, np.linalg.LinAlgError):
        return False, False
    return arrived(case, dict(zip(case["values"], found.x, strict=True))), bool(found.success)


def by_lmfit(case: dict[str, Any], start: dict[str, float]) -> tuple[bool, bool]:
    import lmfit

    parameters, residuals = lmfit.Parameters(), residuals_of(case)
    for p, value in start.items():
        parameters.add(p, value=value)
    try:
        found = lmfit.minimize(lambda q: residuals(np.array([q[p].value for p in case["values"]])), parameters,
                               method="leastsq", max_nfev=20000)
    except (ValueError, TypeError):
        return False, False
    return arrived(case, {p: float(found.params[p].value) for p in case["values"]}), bool(found.success)


def by_dynident(case: dict[str, Any], start: dict[str, float], method: Any) -> tuple[bool, bool]:
    import dynident as di

    model = di.EquationModel(states={}, outputs={"y": case["model"]}, inputs=list(case["inputs"]),
                             parameters=list(case["values"]))
    run = di.Experiment(np.arange(len(case["y"]), dtype=float), {u: np.array(v) for u, v in case["inputs"].items()},
                        {"y": np.array(case["y"])})
    problem = di.Problem(model, [run], [di.Parameter(p, value) for p, value in start.items()])
    try:
        found = di.identify(problem, method, progress=False)
    except di.NotConverged as stopped:
        found = stopped.estimate
    except di.DynidentError:
        return False, False
    there = arrived(case, dict(found.values))
    if not there and found.believed and found.converged:
        print(case["name"], start, found.belief_reason, file=sys.stderr, flush=True)
    return there, found.converged and found.believed is not False


def stored() -> dict[tuple[str, str, int], Fit]:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {fit.key: fit for fit in (Fit(**json.loads(line)) for line in lines)}


def by(method: str, case: dict[str, Any], start: dict[str, float]) -> tuple[bool, bool]:
    import dynident as di

    if method.startswith("scipy"):
        return by_scipy(case, start, method.split()[1])
    return by_dynident(case, start, None if method == "default" else di.least_squares())


def run_missing(every: list[dict[str, Any]]) -> None:
    """What is not on disk yet, start by start, so that a run that was stopped has all sets."""
    STORE.parent.mkdir(exist_ok=True)
    done = stored()
    for number in range(STARTS):
        for case in every:
            for method in METHODS:
                if (method, case["name"], number) not in done:
                    began = time.process_time()
                    there, sure = by(method, case, case["starts"][number])
                    fit = Fit(method, case["name"], number, bool(there), bool(sure), time.process_time() - began)
                    with STORE.open("a") as file:
                        file.write(json.dumps(asdict(fit)) + "\n")


def counted(name: str, ends: list[tuple[bool, bool]], seconds: float) -> Line:
    there, silent = sum(arrived for arrived, _ in ends), sum(sure and not arrived for arrived, sure in ends)
    return Line(name, f"{there} of {len(ends)} arrived, {silent} wrong and not said, {len(ends) - there - silent} said, "
                      f"{seconds:.0f} s")


def table(every: list[dict[str, Any]]) -> Result:
    fits, lines = list(stored().values()), []
    own = {method: [fit for fit in fits if fit.method == method] for method in METHODS}
    for method, some in own.items():
        lines.append(counted(method, [(fit.arrived, fit.sure) for fit in some], sum(fit.seconds for fit in some)))
    there = [fit for fit in own["default"] if fit.arrived]
    share = sum(fit.sure for fit in there) / max(1, len(there))
    silent = sum(fit.sure and not fit.arrived for fit in own["default"])
    most = max(sum(fit.arrived for fit in own[peer]) for peer in METHODS[2:])
    unsure = sorted({fit.name for fit in there if not fit.sure})
    lines += [Line("default: believed where it arrived", f"{100 * share:.1f} %", ">= 95 %", share >= 0.95),
              Line("default: not believed although it arrived, in", ", ".join(unsure) or "none"),
              Line("default: wrong and not said", f"{silent}", "0", silent == 0),
              Line("default: arrivals beside the better of scipy's two", f"{len(there)} to {most}", "more", len(there) > most)]
    answer = of_peer(__file__, "lmfit", {"cases": every})
    lines.append(Line("lmfit", answer) if isinstance(answer, str) else counted("lmfit", answer["ends"], answer["seconds"]))
    return Result("Certified regressions", f"{len(every)} sets of NIST StRD, {len(own['default'])} fits by the default from "
                  f"random starts up to {DECADES:g} decade to either side in every parameter, no bounds.", lines)


def run() -> Result:
    warnings.filterwarnings("ignore")
    every = cases()
    run_missing(every)
    return table(every)


def lmfit_answer(case: dict[str, Any]) -> dict[str, Any]:
    warnings.filterwarnings("ignore")
    began = time.process_time()
    ends = [by_lmfit(each, start) for each in case["cases"] for start in each["starts"]]
    return {"ends": ends, "seconds": time.process_time() - began}


if __name__ == "__main__":
    if sys.argv[1:2] == ["lmfit"]:
        sys.exit(answer_as_peer(lambda _peer, case: lmfit_answer(case)))
    main(run)
