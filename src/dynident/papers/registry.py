"""The papers: which items there are, what each reproduces, and where it is computed; nothing is loaded for the list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

PAPERS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "direct": ("the direct-methods paper", "K. Schäfer, M. Runge, K. Flaßkamp, C. Büskens: *Parameter Identification for "
               "Dynamical Systems Using Optimal Control Techniques*. University of Bremen."),
    "intervals": ("the interval paper", "A. Rauh, L. Senkel, H. Aschemann, on verified parameter identification and "
                  "sensitivity-based input design for systems with state-dependent switching."),
    "fmi": ("the FMU paper", "R. Kampfmann, D. Mösch, N. Menager: *Parameter Estimation based on FMI*. Bosch Rexroth AG."),
    "thesis": ("the thesis", "A thesis that estimates the augmented state of mechanical systems as the solution of a two-point "
               "boundary value problem, by multiple shooting and by Davidenko's method."),
    "filter": ("the filter paper", "D. Beckmann, M. Dagen, T. Ortmaier: *Symplectic Discretization Methods for Parameter "
               "Estimation of a Nonlinear Mechanical System using an Extended Kalman Filter*. Leibniz Universität Hannover."),
})


@dataclass(frozen=True)
class Item:
    """A table, figure, equation, algorithm or setting of a paper; `place` is "module:function" of its computation."""

    paper: str
    slug: str
    item: str
    reproduces: str
    duration: str  # of the full form, in words
    place: str

    @property
    def id(self) -> str:
        return f"{self.paper}/{self.slug}"

    @property
    def paper_name(self) -> str:
        return PAPERS[self.paper][0]


def _items(paper: str, module: str, *rows: tuple[str, str, str, str, str]) -> tuple[Item, ...]:
    return tuple(Item(paper, slug, item, reproduces, duration, f"dynident.papers.{module}:{function}")
                 for slug, item, reproduces, duration, function in rows)


ITEMS: tuple[Item, ...] = (
    *_items(
        "direct", "direct_program",
        ("table-1", "Table I", "variables and constraints of the three transcriptions", "1 s", "table_1"),
        ("fig-4", "Sec. IV-B, Fig. 4", "relative densities of gradient, Jacobian and Hessian over M", "10 s", "fig_4"),
        ("table-2", "Table II, Sec. V-A", "the robot: 19 parameters, equations of motion from the printed Lagrange function",
         "1 s", "table_2"),
    ),
    *_items(
        "direct", "direct_fits",
        ("fig-2", "Fig. 2", "five multinodes against full discretization", "20 s", "fig_2"),
        ("redundancy", "Sec. V-A, redundancy", "different sets of parameters with the same motion; what is determined",
         "10 s", "redundancy"),
    ),
    *_items(
        "direct", "direct_studies",
        ("fig-3", "Fig. 3", "objective over M = 2 ... 301 with SQP and BFGS, and what makes few multinodes fail", "4 min",
         "fig_3"),
        ("schemes", "Sec. III-C", "any one-step scheme in full discretization, with its order", "5 s", "schemes"),
        ("multistep", "Sec. III-C, multi-step schemes", "BDF2 and Adams-Moulton in full discretization, even and uneven grids",
         "10 s", "multistep"),
        ("real-robot", "Sec. V-B, Figs. 6 and 7", "a real robot by the trapezoidal rule, validated on another motion", "40 s",
         "real_robot"),
    ),
    *_items(
        "direct", "direct_causes",
        ("fig-3-causes", "Fig. 3, causes", "what makes few multinodes fail: solver, start, box or iterations", "6 min",
         "causes"),
    ),
    *_items(
        "intervals", "interval_items",
        ("automaton", "Figs. 3 and 4", "the automaton of the drive train", "1 s", "automaton"),
        ("simulation", "Sec. 3, (4), (5)", "the four-stage verified simulation over a box of parameters", "5 s", "simulation"),
        ("fig-6", "(6) to (13), Fig. 6", "identification with subdivision, reset and merging: printed rules, freedom, ours",
         "3 min", "fig_6"),
        ("fig-7", "Fig. 7", "an input that only tracks", "3 s", "fig_7"),
        ("fig-8", "Fig. 8", "an input by the selective cost (19)", "5 s", "fig_8"),
        ("criterion-19", "(16) to (19)", "Bernstein polynomials and piecewise constant inputs", "5 s", "criterion_19"),
        ("fig-9", "Fig. 9", "identification with the optimised input", "30 s", "fig_9"),
        ("measurements", "Sec. 4.1, measurements", "nonlinear functions of several states, by contractors", "3 s",
         "nonlinear_measurement"),
    ),
    *_items(
        "intervals", "interval_design_study",
        ("why-19", "(19) and Fig. 9, causes", "when an input by (19) tightens beta and when it widens it", "2 min", "why_19"),
    ),
    *_items(
        "fmi", "fmu_items",
        ("fig-1", "Fig. 1", "the tool chain: one configuration file, CSV files, an FMU", "5 s", "fig_1"),
        ("eq-7a", "(7a)", "weights as printed and as meant, by the coverage of the intervals", "3 s", "equation_7a"),
        ("table-1", "Table 1", "seven parameters of a delta robot through an FMU", "5 s", "table_1"),
        ("figs-4-6", "Figs. 4 to 6", "torques of the three arms before and after", "5 s", "figs_4_to_6"),
        ("covariance", "Secs. 5 and 7.4", "covariance and 95 % intervals, by repeats", "3 min", "covariance"),
    ),
    *_items(
        "fmi", "fmu_another_tool",
        ("another-tool", "Sec. 1, tools", "the same robot through an FMU that pythonfmu wrote", "1 min", "another_tool"),
    ),
    *_items(
        "thesis", "thesis_methods",
        ("eq-3.13", "(3.13) to (3.16)", "the boundary value problem with full matrices W, V and R0", "2 s", "full_matrices"),
        ("shooting", "Chapter 4, (4.14) to (4.35)", "single and multiple shooting, by the number of segments", "5 s",
         "shooting"),
        ("damped-newton", "(4.36) to (4.40)", "damped Newton by the norm of F", "2 s", "damped_newton"),
        ("mixed-euler", "(5.6) to (5.12)", "the mixed Euler scheme and its inner loop", "1 s", "mixed_euler"),
    ),
    *_items(
        "thesis", "thesis_solver",
        ("estimates", "(5.16), (5.18) to (5.23)", "both error estimates and the step control of Davidenko's method", "2 s",
         "estimates"),
        ("fig-6.2", "Sec. 6.3, Fig. 6.2", "EA and ER ten times smaller cost more iterations", "3 s", "fig_6_2"),
        ("linear-test", "(6.3), Figs. 6.3 and 6.4", "the linear test problem and its error", "1 s", "linear_test"),
        ("table-6.1", "Table 6.1", "error codes", "1 s", "table_6_1"),
    ),
    *_items(
        "thesis", "thesis_tables",
        ("table-7.1", "Table 7.1", "one mass: three starts and that of the text, by Davidenko, damped Newton and MUSN's kind",
         "2 s", "table_7_1"),
        ("fig-7.3", "Fig. 7.3", "state and parameters of one mass over time from (100, 10, 0.1)", "1 s", "fig_7_3"),
        ("fig-7.4", "Fig. 7.4", "residues of the model and of the measurement over time", "1 s", "fig_7_4"),
        ("table-7.3", "Table 7.3", "two masses, swept sine", "5 s", "table_7_3"),
        ("table-7.5", "Table 7.5", "two masses, sine and filtered noise", "5 s", "table_7_5"),
        ("table-7.6", "Table 7.6", "a mass with friction, A = 50 and 100", "2 s", "table_7_6"),
        ("table-7.7", "Table 7.7", "a mass with friction by several codes", "2 s", "table_7_7"),
        ("table-7.8", "Tables 7.8 and 7.9", "two masses with friction, three starts", "5 s", "table_7_9"),
        ("practical", "Sec. 7.5, (7.20)", "the practical system from the start of the text", "2 s", "practical_system"),
    ),
    *_items(
        "filter", "filter_items",
        ("table-1", "Table 1", "the belt drive and its stiffness", "2 s", "table_1"),
        ("schemes", "(16) to (22)", "the six schemes and their observed orders", "2 s", "schemes"),
        ("table-2-operations", "Table 2, operations", "multiplications, additions, divisions of a step", "1 s",
         "table_2_operations"),
        ("table-3-operations", "Table 3, operations", "the same with the Jacobian; 300 % and 740 %", "1 s",
         "table_3_operations"),
        ("fig-4", "Fig. 4", "free runs of the discrete models", "3 s", "fig_4"),
        ("table-2-errors", "Table 2, NRMSE", "errors of the free runs in details 1 and 2", "3 s", "table_2_errors"),
        ("fig-5", "Fig. 5 and Table 3, E1, E2", "spring and damping by the augmented filter", "3 s", "fig_5"),
        ("eq-32", "(32)", "the filter's covariances in every reading", "15 s", "equation_32"),
    ),
    *_items(
        "filter", "filter_claims",
        ("claims", "Tables 2 and 3, claims", "how often each claim holds over belts, motions, gains, noise and readings of "
         "(32)", "2 min", "claims"),
        ("free-claims", "Sec. 4.1, claims", "how often Euler blows up and SE beats Heun in free runs", "20 s", "free_claims"),
    ),
)
