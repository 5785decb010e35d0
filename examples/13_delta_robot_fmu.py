"""How well can the masses, the inertia and the friction of a delta robot be told from its motor torques?

A robot picks and places at four speeds. Its inverse dynamics, exported as an FMU, predict the torques from the motion
of the axes; the parameters are fitted to measured torques as in Table 1 of Kampfmann, Mösch, Menager (Parameter
Estimation based on FMI). Our record is simulated with the estimates of that table and a noise of 0.05 N m, so that the
truth is known.
"""

import tempfile
from pathlib import Path

import numpy as np

import dynident as di
from dynident.fmu.export import export_fmu
from dynident.papers.delta_robot import TABLE_1, UNITS, delta_robot, pick_and_place

NOISE = 0.05  # N m
WORDS = {"lower_arm_mass": "Mass of lower arm", "upper_arm_mass": "Mass of upper arm",
         "base_plate_mass": "Mass of base plate", "inertia": "Motor and gear inertia", "efficiency": "Gear efficiency",
         "coulomb": "Coulomb friction", "viscous": "Viscous friction"}


def record(seed: int) -> di.Experiment:
    """6250 samples of nine inputs and three noisy torques over 62.278 s."""
    time, inputs = pick_and_place()
    truth = {name: value for name, (_, value) in TABLE_1.items()}
    torques = di.simulate(delta_robot(), truth, di.Experiment(time, inputs), substeps=1).outputs
    rng = np.random.default_rng(seed)
    return di.Experiment(time, inputs, {n: y + NOISE * rng.normal(size=y.size) for n, y in torques.items()},
                         {n: di.Gaussian(NOISE) for n in torques})


def problem(fmu: Path, experiment: di.Experiment) -> di.Problem:
    """Start values come from the FMU, which holds those of Table 1."""
    bounds = {name: {"lower": 0.0} for name in TABLE_1} | {"efficiency": {"lower": 0.3, "upper": 1.0}}
    return di.Problem(di.FmuModel(fmu), [experiment], [di.Parameter(name, **bounds[name]) for name in TABLE_1])


def table(estimate: di.Estimate) -> str:
    lines = [f"{'Parameter':24} {'Unit':12} {'Initial':>10} {'Estimated':>10} {'95 %':>12} {'True':>10}"]
    for name, (start, truth) in TABLE_1.items():
        low, high = estimate.uncertainty.interval(name)
        lines.append(f"{WORDS[name]:24} {f'[{UNITS[name]}]':12} {start:10.4g} {estimate.values[name]:10.4g} "
                     f"{f'± {(high - low) / 2:.3g}':>12} {truth:10.4g}")
    return "\n".join(lines)


def main() -> di.Estimate:
    with tempfile.TemporaryDirectory() as folder:
        start = {name: value for name, (value, _) in TABLE_1.items()}
        fmu = export_fmu(delta_robot(), Path(folder, "delta_robot.fmu"), start)
        estimate = di.identify(problem(fmu, record(seed=1)))
    print(table(estimate))
    print(f"\n{estimate.status} {estimate.counts['simulations']} simulations.")
    print(*estimate.notes, sep="\n")
    return estimate


if __name__ == "__main__":
    estimate = main()
