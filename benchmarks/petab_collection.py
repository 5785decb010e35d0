"""PEtab's benchmark collection: is the log-likelihood at the nominal values what other tools find?

    PETAB_COLLECTION=Benchmark-Models python benchmarks/petab_collection.py

The collection is the folder `Benchmark-Models` of Benchmark-Models-PEtab; its problems are not part of this project, but for
the two that the tests keep. References: the values that AMICI's own test of the collection compares with (by forward simulation
with CVODES). They hold to some 1e-3: both sides integrate to a tolerance.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from timing import Line, Result, main, size

import dynident as di

KEPT = Path(__file__).parents[1] / "tests" / "data" / "petab"
FOLDER = Path(os.environ.get("PETAB_COLLECTION", KEPT))
SAME = 2e-3  # of a log-likelihood
PUBLISHED = {
    "Bachmann_MSB2011": 418.40573, "Beer_MolBioSystems2014": 58622.91456, "Boehm_JProteomeRes2014": -138.22200,
    "Borghans_BiophysChem1997": 83.32372, "Brannmark_JBC2010": -141.88911, "Bruno_JExpBot2016": 46.68818,
    "Crauste_CellSystems2017": -190.96522, "Elowitz_Nature2000": 63.20280, "Fiedler_BMCSystBiol2016": 58.58390,
    "Fujita_SciSignal2010": 53.08378, "Isensee_JCB2018": -3949.37597, "Lucarelli_CellSystems2018": -1681.60599,
    "Schwen_PONE2014": -943.99930, "Sneyd_PNAS2002": 319.79178, "Weber_BMC2015": -296.20179, "Zheng_PNAS2012": 278.33353}


def problem_file(folder: Path) -> Path | None:
    """The YAML file of a problem: the shortest name, others are variants."""
    return min(folder.glob("*.yaml"), key=lambda file: (len(file.name), file.name), default=None)


def line_of(name: str, file: Path) -> Line:
    began, target = time.process_time(), PUBLISHED.get(name)
    try:
        problem = di.read_petab(file)
        found = di.objective(problem, {unknown.name: unknown.start for unknown in problem.unknowns}).log_likelihood
    except di.DynidentError as refused:
        why = str(refused) if len(str(refused)) < 200 else f"... {str(refused)[-200:]}"
        return Line(name, f"refused: {why}", "" if target is None else f"{target:.5f}", None if target is None else False)
    took = f"{found:.5f} ({time.process_time() - began:.1f} s)"
    if target is None:
        return Line(name, took)
    return Line(name, took, f"{target:.5f}", abs(found - target) <= SAME)


def run() -> Result:
    every = sorted(folder for folder in FOLDER.iterdir() if folder.is_dir() and "_" in folder.name and problem_file(folder))
    lines = [line_of(folder.name, file) for folder in every[:size(100, 1)] if (file := problem_file(folder))]
    return Result("PEtab's benchmark collection", "Log-likelihood at the nominal values of the parameter tables, beside what "
                  f"AMICI's test of the collection holds (to {SAME:g}).", lines,
                  [] if FOLDER != KEPT else ["Only the problems of the tests: PETAB_COLLECTION names the whole collection."])


if __name__ == "__main__":
    main(run)
