"""Direct-methods paper, Table I, Sec. IV-B and Table II: sizes and densities of the programs, and the robot itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np

from dynident._util.progress import Tell
from dynident.methods.direct import FullDiscretizationMethod, MultipleShooting
from dynident.models.library import two_link_robot
from dynident.papers.outcome import Outcome, compared
from dynident.papers.robot_study import SAMPLES, TRUTH, robot_problem, robot_record
from dynident.transcription.nlp_structure import NlpStructure, nlp_structure

STATES, PARAMETERS = 4, 19
PROGRAM_NODES = (2, 3, 5, 8, 12, 20, 35, 60, 100, 150, 200, 300)


def _structure(nodes: int | None) -> NlpStructure:
    """Of M multinodes; of full discretization without a number."""
    problem = robot_problem(robot_record(), 0)
    method = (FullDiscretizationMethod("euler", substeps=1) if nodes is None
              else MultipleShooting(nodes, "euler", substeps=1))
    return nlp_structure(method.transcribe(problem, 1, {}))


def table_1(quick: bool, tell: Tell) -> Outcome:
    """Counted in the programs that the solvers get, against the table's formulas and against eq. (5)."""
    rows, right, printed = [], True, True
    for name, nodes, blocks in (("single shooting", 1, 1), ("multiple shooting, M = 5", 5, 5),
                                ("multiple shooting, M = 100", 100, 100), ("full discretization, N = 301", None, SAMPLES)):
        found = _structure(nodes)
        table = (STATES * blocks + PARAMETERS, STATES * blocks if blocks > 1 else 0)
        exact = (table[0], STATES * (blocks - 1))
        right &= (found.variables, found.constraints) == exact
        printed &= found.constraints == table[1]
        rows.append((name, *table, *exact, found.variables, found.constraints))
    what = "variables and constraints as in eq. (5)" if right else "other counts than eq. (5)"
    more = sorted({row[2] - row[4] for row in rows if row[2]})
    same = all(row[1] == row[5] for row in rows)
    return compared(
        right and printed, "n_x M + n_p variables, n_x M constraints (N for M in full discretization)",
        f"{what}: M = 5: {rows[1][5]} and {rows[1][6]}; N = 301: {rows[3][5]} and {rows[3][6]}",
        f"Table I counts {' or '.join(map(str, more))} constraints (n_x = {STATES}) more than eq. (5), which has j = 1 ... "
        f"M - 1; the variables {'agree' if same else 'do not agree'}",
        ("method", "table: variables", "table: constraints", "eq. (5): variables", "eq. (5): constraints",
         "ours: variables", "ours: constraints"), rows, lambda figure: _draw_sizes(figure, rows))


def _draw_sizes(figure: Any, rows: list[tuple[Any, ...]]) -> None:
    axis, at = figure.subplots(), np.arange(len(rows))
    axis.bar(at - 0.2, [row[2] for row in rows], 0.4, label="constraints by Table I")
    axis.bar(at + 0.2, [row[6] for row in rows], 0.4, label="constraints, ours")
    axis.set_xticks(at, [row[0].replace(", ", "\n") for row in rows], fontsize="small")
    axis.set_yscale("symlog")
    axis.legend(frameon=False)


def fig_4(quick: bool, tell: Tell) -> Outcome:
    """By the paper's own words: nonzeros rise with M, densities of Jacobian and Hessian fall, most per multinode where few."""
    nodes = PROGRAM_NODES[::3] if quick else PROGRAM_NODES
    found = [_structure(m) for m in nodes]
    whole = _structure(None)
    rows = [(m, s.variables, s.constraints, s.density_gradient, s.density_jacobian, s.density_hessian)
            for m, s in zip((*nodes, "full"), (*found, whole), strict=True)]
    jacobian, hessian = ([getattr(s, f"density_{of}") for s in found] for of in ("jacobian", "hessian"))
    rises = all(b > a for of in ("jacobian", "hessian") for a, b in pairwise([getattr(s, of).nnz for s in found]))
    falls = all(b < a for d in (jacobian, hessian) for a, b in pairwise(d))
    drops = [[(a - b) / (n - m) for (m, a), (n, b) in pairwise(zip(nodes, d, strict=True))] for d in (jacobian, hessian)]
    steep = all(drop[0] == max(drop) for drop in drops)
    said = {"nonzeros rise": rises, "densities fall": falls, "most per multinode where these are few": steep}
    return compared(
        all(said.values()), "nnz rises strictly with M (Sec. IV-B); rd(Dg) and rd(DH) fall with M, with a high change where "
        "multinodes are few (Sec. V-A)",
        f"rd(Dg) {jacobian[0]:.3f} to {jacobian[-1]:.4f}, rd(DH) {hessian[0]:.3f} to {hessian[-1]:.4f} from M = {nodes[0]} to "
        f"{nodes[-1]}, per multinode {drops[0][0]:.2g} and {drops[1][0]:.2g} in the first stretch, {drops[0][-1]:.1g} and "
        f"{drops[1][-1]:.1g} in the last; full discretization {whole.density_jacobian:.4f} and {whole.density_hessian:.4f}",
        "this does not hold: " + ", ".join(name for name, holds in said.items() if not holds),
        ("M", "variables", "constraints", "rd(Dr)", "rd(Dg)", "rd(DH)"), rows,
        lambda figure: _draw_densities(figure, nodes, found, whole),
        "the three statements of the text; the figure's numbers are not printed, and that a high change where multinodes are "
        "few means the largest fall per multinode in the first stretch is our reading, made after the numbers had been seen")


def _draw_densities(figure: Any, nodes: tuple[int, ...], found: list[NlpStructure], whole: NlpStructure) -> None:
    axis = figure.subplots()
    for colour, label, of in (("C0", "Dr", "gradient"), ("C1", "Dg", "jacobian"), ("C2", "DH", "hessian")):
        axis.plot(nodes, [getattr(s, f"density_{of}") for s in found], "o-", ms=3, color=colour, label=f"rd({label})")
        axis.axhline(getattr(whole, f"density_{of}"), ls=":", color=colour)
    axis.set(xlabel="number of multinodes M", ylabel="relative density (dotted: full discretization)", yscale="log")
    axis.legend(frameon=False)


def table_2(quick: bool, tell: Tell) -> Outcome:
    """Accelerations of the library's robot against the Euler-Lagrange equations of the printed function, at random points."""
    model, rng = two_link_robot(), np.random.default_rng(0)
    printed = _euler_lagrange()
    rows, worst = [], 0.0
    for _ in range(20 if quick else 200):
        values = {n: v * rng.uniform(0.5, 2) + (rng.uniform(-0.1, 0.1) if n.startswith("s") else 0) for n, v in TRUTH.items()}
        x, u = rng.uniform(-2, 2, STATES), rng.uniform(-20, 20, 2)
        rate = model.rate(0.0, x, u, np.array([*(values[n] for n in model.parameters)]))
        ours, theirs = np.asarray(rate).ravel()[2:], np.asarray(printed(x, u, [values[n] for n in TRUTH])).ravel()
        worst = max(worst, float(np.max(np.abs(ours - theirs) / (1 + np.abs(theirs)))))
        rows.append((*x, *u, *ours, *theirs))
    return compared(
        worst < 1e-9 and len(model.parameters) == PARAMETERS,
        "19 parameters; L = sum of m |S'|^2/2 + omega I omega/2 - m g S_z with forces -kappa_1 tanh(a theta') - kappa_2 theta' "
        "+ kappa_3 I",
        f"{len(model.parameters)} parameters; accelerations as by the printed L to {_decade(worst)} at {len(rows)} random "
        "points",
        "the equations of motion are others",
        ("theta1", "theta2", "omega1", "omega2", "I1", "I2", "ours 1", "ours 2", "printed L 1", "printed L 2"), rows,
        _draw_motion, "kappa_1 is the dry and kappa_2 the viscous friction, which the table swaps")


def _decade(error: float) -> str:
    return f"below 1e{int(np.ceil(np.log10(max(error, 1e-16))))}"


def _euler_lagrange() -> ca.Function:
    """theta'' from d/dt dL/dtheta' - dL/dtheta = f_L, positions in the base frame, by automatic differentiation."""
    q, v, u = ca.SX.sym("q", 2), ca.SX.sym("v", 2), ca.SX.sym("u", 2)
    p = {name: ca.SX.sym(name) for name in TRUTH}
    c1, s1, c2, s2 = ca.cos(q[0]), ca.sin(q[0]), ca.cos(q[1]), ca.sin(q[1])
    about_z = ca.vertcat(ca.horzcat(c1, -s1, 0), ca.horzcat(s1, c1, 0), ca.horzcat(0, 0, 1))
    about_y = ca.vertcat(ca.horzcat(c2, 0, s2), ca.horzcat(0, 1, 0), ca.horzcat(-s2, 0, c2))
    place_1 = about_z @ ca.vertcat(p["sx1"], p["sy1"], 0)
    place_2 = about_z @ about_y @ ca.vertcat(p["sx2"], p["sy2"], p["sz2"])
    spin_2 = about_y.T @ ca.vertcat(0, 0, v[0]) + ca.vertcat(0, v[1], 0)  # along the axes of link 2
    kinetic = sum(p[f"m{i}"] * ca.sumsqr(ca.jtimes(s, q, v)) / 2 for i, s in ((1, place_1), (2, place_2)))
    kinetic += p["Iz1"] * v[0] ** 2 / 2 + ca.dot(spin_2, ca.vertcat(p["Ix2"], p["Iy2"], p["Iz2"]) * spin_2) / 2
    lagrange = kinetic - 9.81 * (p["m1"] * place_1[2] + p["m2"] * place_2[2])
    force = ca.vertcat(*[-p[f"dry{i}"] * ca.tanh(p[f"a{i}"] * v[i - 1]) - p[f"viscous{i}"] * v[i - 1]
                         + p[f"gain{i}"] * u[i - 1] for i in (1, 2)])
    momentum = ca.gradient(lagrange, v)
    push = force + ca.gradient(lagrange, q) - ca.jtimes(momentum, q, v)
    return ca.Function("printed", [ca.vertcat(q, v), u, ca.vertcat(*p.values())], [ca.solve(ca.jacobian(momentum, v), push)])


def _draw_motion(figure: Any) -> None:
    record = robot_record()
    above, below = figure.subplots(2, 1, sharex=True)
    for name in ("theta1", "theta2"):
        above.plot(record.time, record.outputs[name], label=name)
    for name in ("I1", "I2"):
        below.plot(record.time, record.inputs[name], label=name)
    above.set_ylabel("angle (rad)")
    below.set(ylabel="current (A), ours", xlabel="time (s)")
    for axis in (above, below):
        axis.legend(frameon=False)
