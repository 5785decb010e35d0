"""Does the estimate by a boundary value problem find the rig's parameters from afar? The experiments of a thesis, Chapter 7.

A mass on a spring, two masses on a spring with two kinds of input, a mass with friction, and two masses with friction. The
rig's records cannot be had: here they are simulated with the thesis' estimates as truth, and noise. Where the thesis leaves
something open (the length of the records, the exact inputs, some weights), a choice stands below with the word 'chosen'.
The residues of the first fit by Davidenko's method are drawn over time, as in Fig. 7.4: rotor_residues.png.

    python examples/18_flexible_rotor.py           coarse records, some of the starts
    python examples/18_flexible_rotor.py --full    1 kHz as in the thesis, all starts, all solvers: a few minutes
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dynident as di
from dynident.papers.flexible_rotor import (
    RotorStudy,
    mass_with_friction,
    one_mass,
    two_masses,
    two_masses_with_friction,
)

SOLVERS = ("smoother", "davidenko", "newton", "musn")


def studies(full: bool) -> list[RotorStudy]:
    samples = 1001 if full else 251
    return [one_mass(), two_masses(samples, noisy=False), two_masses(samples), mass_with_friction(samples),
            mass_with_friction(samples, 100.0), two_masses_with_friction(samples)]


def shown(study: RotorStudy, solvers, starts) -> dict[tuple[str, str], di.Estimate]:
    """Fits from the named starts by the named solvers, printed beside the thesis' numbers."""
    print(f"\n{study.name}: {study.record.samples} nodes, truth "
          + ", ".join(f"{name} {value:.4g}" for name, value in study.truth.items()))
    found = {}
    for number in starts:
        iterations, jacobians = study.thesis[number]
        print(f"  start {number}: {', '.join(f'{v:g}' for v in study.starts[number])}; thesis: {iterations} iterations"
              + (f", {jacobians} Jacobians" if jacobians else ""))
        for solver in solvers:
            estimate = found[number, solver] = study.fit(study.starts[number], solver)
            values = ", ".join(f"{estimate.values[name]:.4g}" for name in study.truth)
            counts = f"{estimate.counts['iterations']:>4} iterations, {estimate.counts['jacobians']:>3} Jacobians"
            print(f"    {solver:<10}{counts}: {values if estimate.converged else 'not converged'}")
    return found


def draw_residues(study: RotorStudy, estimate: di.Estimate) -> None:
    """Over time: what the record lacks of the fit, and what the rates of the model lack of the smoothed motion."""
    smoothed = estimate.smoothed.records[0]
    figure, (measured, lacking) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
    for name, seen in study.record.outputs.items():
        measured.plot(study.record.time, seen - estimate.trajectories[0].outputs[name], lw=0.8, label=name)
    for i, name in enumerate(smoothed.names):
        lacking.plot(smoothed.time, smoothed.model_error[:, i], lw=0.8, label=name)
    measured.set_ylabel("measurement residues")
    lacking.set(xlabel="time (s)", ylabel="model residues")
    for axis in (measured, lacking):
        axis.legend(frameon=False, fontsize="small")
    figure.savefig("rotor_residues.png", dpi=120)


if __name__ == "__main__":
    full = "--full" in sys.argv
    results = {}
    for study in studies(full):
        starts = list(study.starts) if full else list(study.starts)[:1]
        results[study.name] = shown(study, SOLVERS if full else SOLVERS[:2], starts)
        if len(results) == 1:
            draw_residues(study, results[study.name][starts[0], "davidenko"])
    default = [e for found in results.values() for (_, solver), e in found.items() if solver == "smoother"]
    print(f"\nThe default converged from {sum(e.converged for e in default)} of {len(default)} starts, with at most "
          f"{max(e.counts['iterations'] for e in default)} iterations.")
