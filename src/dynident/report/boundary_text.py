"""How does the solution of a boundary value problem read when it is printed?"""

from __future__ import annotations

from dynident.boundary.solve_bvp.result import BoundarySolution
from dynident.report.text_table import plain_table


def boundary_text(solution: BoundarySolution) -> str:
    """Status, the values at both ends, the parameters, and how it was found."""
    head = "BoundarySolution" if solution.converged else "BoundarySolution: NOT CONVERGED"
    rows = [[name, f"{solution.values[0, k]:.8g}", f"{solution.values[-1, k]:.8g}", f"{solution.scale[name]:.4g}"]
            for k, name in enumerate(solution.names)]
    ends = plain_table(["state", f"at t = {solution.time[0]:g}", f"at t = {solution.time[-1]:g}", "typical size"], rows)
    found = [[name, f"{value:.10g}"] for name, value in solution.parameters.items()]
    work = [[each.why, each.solver, str(each.nodes), str(each.iterations), str(each.jacobians),
             "yes" if each.converged else "no", f"{each.error:.1e}" if each.error == each.error else "-"]
            for each in solution.rounds]
    return "\n".join([
        head, solution.status, "", ends, "", *([plain_table(["parameter", "value"], found), ""] if found else []),
        plain_table(["round", "solver", "nodes", "iterations", "Jacobians", "solved", "error"], work), "",
        f"condition number {solution.condition:.2g}", *(f"warning: {text}" for text in solution.warnings)])
