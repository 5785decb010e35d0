"""Single shooting, multiple shooting or full discretization: which finds the best fit of a robot, and how often?

The study of Sec. V-A of Schäfer, Runge, Flaßkamp, Büskens: an idealised robot with two links, 19 unknown parameters and
4 unknown initial states, simulated exactly and fitted with explicit Euler, from random starts in the right order of
magnitude. Three figures are drawn: the fits (Fig. 2), the objective J against the number of multinodes (Fig. 3), and the
relative densities of the matrices (Fig. 4). Inputs and starts of the paper are not published: the shapes can be compared,
the numbers cannot. The solver differs as well: the paper's SQP method knows no curvature and learns it by BFGS updates,
ours is a structured Gauss-Newton method.

    python 09_two_link_robot_study.py                a coarse form
    python 09_two_link_robot_study.py --full         M from 2 to 300, ten starts: minutes

`dynident papers run direct/fig-3` does the same with the paper's kind of solver.

And two questions that the paper leaves open: which combinations of the 19 parameters the motion determines at all, and
what the integration scheme does to the fit.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import dynident as di
from dynident.models.library import two_link_robot
from dynident.papers.robot_study import ROBOT_ITERATIONS, TRUTH, fit, objective, robot_problem, robot_record
from dynident.transcription.nlp_structure import nlp_structure


def shooting(nodes: int):
    return di.multiple_shooting(nodes, "euler", substeps=1, max_iterations=ROBOT_ITERATIONS)


FULL = di.full_discretization("euler", substeps=1, max_iterations=ROBOT_ITERATIONS)


def study(nodes: list[int], starts: int) -> tuple[dict[int, list[float]], list[float], dict[str, di.Estimate]]:
    """J by number of multinodes and by full discretization, over the starts; and two fits for the first figure."""
    run = robot_record()
    by_nodes: dict[int, list[float]] = {m: [] for m in nodes}
    full, shown = [], {}
    for seed in range(starts):
        problem = robot_problem(run, seed)
        for m in nodes:
            estimate = fit(problem, shooting(m))
            by_nodes[m].append(objective(estimate))
            if seed == 0 and m == 5 and estimate is not None:
                shown["5 multinodes"] = estimate
        estimate = fit(problem, FULL)
        full.append(objective(estimate))
        if seed == 0 and estimate is not None:
            shown["full discretization"] = estimate
        print(f"start {seed}: " + ", ".join(f"M = {m}: J = {by_nodes[m][-1]:.3g}" for m in nodes)
              + f", full: J = {full[-1]:.3g}", flush=True)
    return by_nodes, full, shown


def draw_fits(shown: dict[str, di.Estimate], folder: Path) -> None:
    figure, axes = plt.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
    run = next(iter(shown.values())).problem.experiments[0]
    for axis, name in zip(axes, ("theta1", "theta2"), strict=True):
        axis.plot(run.time, run.outputs[name], color="0.7", lw=4, label="data")
        for label, estimate in shown.items():
            axis.plot(run.time, estimate.trajectories[0].outputs[name], lw=1.2,
                      label=f"{label}, J = {objective(estimate):.2g}")
        axis.set_ylabel(f"{name} (rad)")
    axes[0].legend(frameon=False)
    axes[1].set_xlabel("time (s)")
    figure.savefig(folder / "robot_fits.png", dpi=120)


def draw_objectives(by_nodes: dict[int, list[float]], full: list[float], folder: Path) -> None:
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    for m, values in by_nodes.items():
        axis.semilogy([m] * len(values), values, "o", color="C0", ms=4, alpha=0.6)
    axis.semilogy(list(by_nodes), [np.median(v) for v in by_nodes.values()], color="C0", label="shooting, median")
    for value in full:
        axis.axhline(value, color="C1", lw=0.7, alpha=0.6)
    axis.axhline(np.median(full), color="C1", ls="--", label="full discretization, median")
    axis.set(xlabel="number of multinodes M (1: single shooting)", ylabel="objective J", xscale="log")
    axis.legend(frameon=False)
    figure.savefig(folder / "robot_objectives.png", dpi=120)


def draw_densities(problem: di.Problem, nodes: list[int], folder: Path) -> None:
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    sizes = [nlp_structure(shooting(m).transcribe(problem, 1, {})) for m in nodes]
    whole = nlp_structure(FULL.transcribe(problem, 1, {}))
    for colour, label, of in (("C0", "Dr", "density_gradient"), ("C1", "Dg", "density_jacobian"),
                              ("C2", "DH", "density_hessian")):
        axis.plot(nodes, [getattr(s, of) for s in sizes], "o-", ms=3, color=colour, label=f"rd({label})")
        axis.axhline(getattr(whole, of), ls=":", color=colour)
    axis.set(xlabel="number of multinodes M", ylabel="relative density (dotted: full discretization)", yscale="log")
    axis.legend(frameon=False)
    figure.savefig(folder / "robot_densities.png", dpi=120)


def open_questions(run: di.Experiment) -> None:
    """What the motion determines, and what the scheme does to J at the optimum."""
    problem = robot_problem(run, 0)
    at_truth = di.Problem(two_link_robot(), [robot_record(std=1e-3)],
                          [di.Parameter(n, v or 0.01) for n, v in TRUTH.items()])
    print("\nWhat a record with errors of 1e-3 determines of the 19 parameters, around the truth:")
    print(di.check(at_truth))
    print("\nThe same data by other schemes, 301 points each:")
    for scheme in ("euler", "heun", "trapezoid", "hermite_simpson"):
        estimate = fit(problem, di.full_discretization(scheme, substeps=1, max_iterations=ROBOT_ITERATIONS))
        print(f"  {scheme}: J = {objective(estimate):.2e}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="The robot study of the direct-methods paper.")
    arguments.add_argument("--full", action="store_true", help="M from 2 to 300 and ten starts")
    arguments.add_argument("--starts", type=int, help="number of starts: 3, or 10 with --full")
    arguments.add_argument("--out", type=Path, default=Path("."), help="folder for the figures")
    chosen = arguments.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    nodes = [1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 150, 200, 300] if chosen.full else [1, 2, 5, 20, 100]
    by_nodes, full, shown = study(nodes, chosen.starts or (10 if chosen.full else 3))
    draw_fits(shown, chosen.out)
    draw_objectives(by_nodes, full, chosen.out)
    draw_densities(robot_problem(robot_record(), 0), nodes[1:], chosen.out)  # single shooting has no constraints
    open_questions(robot_record())
    best = min(min(full), *(min(v) for v in by_nodes.values()))
    reached = {"single shooting": by_nodes[1], f"{nodes[-1]} multinodes": by_nodes[nodes[-1]], "full discretization": full}
    print(f"\nBest J = {best:.3g}. Starts that came within 5 % of it: " + ", ".join(
        f"{name} {sum(v <= 1.05 * best for v in values)} of {len(values)}" for name, values in reached.items()))
