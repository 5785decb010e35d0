"""Tableau source: a scheme's combinations of state, stages and rates as C text, for `stages.c`.

A combination is one function for states (w = 1) and for their sensitivities (w numbers in a row). Where it is one vector as it
stands, the function hands that on and copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dynident.codegen.sparse_jacobian import BandOrder, SparseJacobian, row_sum
from dynident.integrators.tableau import ALL, POSITIONS, VELOCITIES, Combination, Tableau, WeightedTerm

ARGUMENTS = "double h, int w, const double *x, const double *z, const double *k, double *out"


def tableau_source(tableau: Tableau, positions: Sequence[int], velocities: Sequence[int]) -> str:
    """Functions stage_state_0 ..., next_state, the list of rates; of implicit schemes the equations and their response."""
    lines = [f"#define STAGES {tableau.stages}", f"#define RATES {tableau.rates}", f"#define NESTED {int(tableau.nested)}",
             f"#define CLOSING_RATES {int(tableau.closing_rates)}", "#define EACH_RATE(DO) " + " ".join(
                 f"DO({e}, {fraction!r}, {int(_fixed(state))})"
                 for e, (fraction, state) in enumerate(zip(tableau.fractions, tableau.states, strict=True)))]
    if positions:
        lines += [f"static const int POSITION[] = {_braces(positions)};",
                  f"static const int VELOCITY[] = {_braces(velocities)};"]
    for e, state in enumerate(tableau.states):
        lines += [f"INLINE const double *stage_state_{e}({ARGUMENTS}) {{", *_body(state, ""), "}"]
    lines += [f"INLINE void next_state({ARGUMENTS}) {{", *_body(tableau.next_state, "", in_place=True), "}"]
    if tableau.stages:
        lines += [f"INLINE void stage_equations({ARGUMENTS}) {{", "  int i;"]
        for e, equation in enumerate(tableau.equations):
            lines += _loop(equation[0], f"{e} * NX * w + ")
        lines += ["}", f"INLINE void stage_response({ARGUMENTS}) {{", "  int i;"]
        for e, equation in enumerate(tableau.equations):
            held = tuple(replace(term, weight=-term.weight) for term in equation[0] if term.source != "z")
            lines += _loop(held, f"{e} * NX * w + ")
        lines.append("}")
        for e, state in enumerate(tableau.states):
            lines += [f"INLINE const double *outer_state_{e}({ARGUMENTS}) {{", *_body(_held(state), ""), "}"]
    return "\n".join(lines)


def _held(state: Combination) -> Combination:
    """What is left of a state where the stages are held."""
    return tuple(tuple(term for term in row if term.source != "z") for row in state)


def column_source(tableau: Tableau, jacobian: SparseJacobian, positions: Sequence[int], velocities: Sequence[int]) -> str:
    """step_columns(h, J, P, w, S): each column of S one step further; J are all entries of all rates, P those by parameters."""
    states = jacobian.shape[1]
    part = {**{q: (POSITIONS, k) for k, q in enumerate(positions)}, **{v: (VELOCITIES, k) for k, v in enumerate(velocities)}}
    by_parameters = {row for row, _ in jacobian.parameters}
    arguments = "double h, const double *restrict J, const double *restrict P, int w, double *restrict S"
    lines = [f"INLINE void step_columns({arguments}) {{", "  int j;", "#pragma GCC ivdep", "  for (j = 0; j < w; j++) {",
             *(f"    const double x0_{i} = S[{i} * w + j];" for i in range(states))]

    def combined(combination: Combination, state: int) -> str:
        own, pair = part.get(state, (ALL, 0))
        sources = [positions[pair], velocities[pair]] if part else [state]
        return _total(combination[own], lambda term: f"{term.source}{term.index}_{sources[term.part]}")

    for e, state in enumerate(tableau.states):
        lines += [f"    const double s{e}_{i} = {combined(state, i)};" for i in range(states)]
        for i in range(states):
            total = row_sum(jacobian, i, f"J[{e} * NJQ + {{}}]", f"s{e}_{{}}")
            beside = f" + P[({e} * NX + {i}) * w + j]" if i in by_parameters else ""
            lines.append(f"    const double k{e}_{i} = {total}{beside};")
    return "\n".join([*lines, *(f"    S[{i} * w + j] = {combined(tableau.next_state, i)};" for i in range(states)), "  }", "}"])


def newton_tables(tableau: Tableau, places: Sequence[tuple[int, int]], order: BandOrder) -> str:
    """What `implicit_stages.c` needs to put the equations' derivatives together."""
    s, e = tableau.stages, tableau.rates
    identity, slope = np.zeros((s, s)), np.zeros((s, s, e))
    for i, equation in enumerate(tableau.equations):
        for term in equation[0]:
            if term.source == "z":
                identity[i, term.index] += term.weight
            for inner in tableau.states[term.index][0] if term.source == "k" else ():
                if inner.source == "z":
                    slope[i, inner.index, term.index] += term.weight * inner.weight
    lines = [f"#define KL {order.lower}", f"#define KU {order.upper}", f"static const int ORDER[] = {_braces(order.place)};",
             f"static const int RATE_ROW[] = {_braces(row for row, _ in places)};",
             f"static const int RATE_COLUMN[] = {_braces(column for _, column in places)};"]
    if not tableau.nested:
        lines += [f"static const double IDENTITY[{s}][{s}] = {_nested(identity)};",
                  f"static const double SLOPE[{s}][{s}][{e}] = {_nested(slope)};"]
    return "\n".join(lines)


def _fixed(state: Combination) -> bool:
    """It is known before the stages are."""
    return all(term.source == "x" for row in state for term in row)


def _body(combination: Combination, place: str, in_place: bool = False) -> list[str]:
    if not in_place and not any(combination):
        return ["  return 0;"]
    copied = _copied(combination)
    if copied and not in_place:
        return [f"  return {copied};"]
    last = [] if in_place else ["  return out;"]
    if len(combination) == 1:
        return ["  int i;", *_loop(combination[0], place), *last]
    of_positions, of_velocities = combination
    if any(term.source == "x" and term.part == POSITIONS for term in of_velocities):
        raise ValueError("a scheme's velocities must not depend on positions but through the rates")
    return ["  int i, j;", *_scattered(of_positions, "POSITION"), *_scattered(of_velocities, "VELOCITY"), *last]


def _copied(combination: Combination) -> str:
    """The vector that a combination is, where it is one."""
    whole = all(len(row) == 1 and row[0].weight == 1 and row[0].power == 0 and row[0].part == part
                for part, row in enumerate(combination))
    one = len({(row[0].source, row[0].index) for row in combination if row}) == 1
    return f"{combination[0][0].source} + {combination[0][0].index} * NX * w" if whole and one else ""


def _loop(row: Sequence[WeightedTerm], place: str) -> list[str]:
    total = _total(row, lambda term: f"{term.source}[{term.index} * NX * w + i]")
    return ["#pragma GCC ivdep", f"  for (i = 0; i < NX * w; i++) out[{place}i] = {total};"]


def _scattered(row: Sequence[WeightedTerm], which: str) -> list[str]:
    names = {POSITIONS: "POSITION", VELOCITIES: "VELOCITY"}
    total = _total(row, lambda term: f"{term.source}[({term.index} * NX + {names[term.part]}[i]) * w + j]")
    return ["  for (i = 0; i < NX / 2; i++)", "#pragma GCC ivdep",
            f"    for (j = 0; j < w; j++) out[{which}[i] * w + j] = {total};"]


def _total(row: Sequence[WeightedTerm], name: Callable[[WeightedTerm], str]) -> str:
    """The sum of a row; what is multiplied by the step is added up first, which is fewer products and less rounding."""
    sums = []
    for power, step in enumerate(("", "h * ", "h * h * ")):
        terms = [_term(term, name(term)) for term in row if term.power == power]
        if terms:
            sums.append(f"{step}({' + '.join(terms)})" if step else " + ".join(terms))
    return " + ".join(sums) or "0"


def _term(term: WeightedTerm, vector: str) -> str:
    return {1.0: vector, -1.0: f"-{vector}"}.get(term.weight, f"{term.weight!r} * {vector}")


def _braces(numbers: object) -> str:
    return f"{{{', '.join(str(number) for number in numbers) or '0'}}}"  # type: ignore[attr-defined]


def _nested(array: np.ndarray) -> str:
    if array.ndim == 1:
        return f"{{{', '.join(repr(float(v)) for v in array)}}}"
    return f"{{{', '.join(_nested(each) for each in array)}}}"
