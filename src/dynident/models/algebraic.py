"""Algebraic variables: z with 0 = g(t, x, z, u, p) beside the states of a model. Which form has g, and what is z?

A differential-algebraic equation of index 1: dg/dz is regular, so that g determines z and consistent initial values with it; a
higher index is refused, there is no index reduction. Where g is affine in z (the accelerations of M a = b are), z is a formula
and is eliminated symbol by symbol; the compiled loops solve the linear system instead (`integrators/algebraic.c`). Where it is
not, Newton's method finds z, and its derivatives are those of the implicit function.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynident.errors import ProblemError, SimulationDiverged
from dynident.models.definition import ModelDefinition, parse
from dynident.models.hybrid_functions import Automaton, Maker
from dynident.models.parser import Scope
from dynident.tolerances import (
    ALGEBRAIC_NEWTON_LEAST,
    ALGEBRAIC_NEWTON_ROUNDING,
    ALGEBRAIC_NEWTON_STEP,
    ALGEBRAIC_SINGULAR,
    ALGEBRAIC_SYMMETRIC,
)

IDENTITY_SAMPLES = 5  # random places at which an identity between expressions is tried
WITHOUT_GUESS = (0.0, 1.0)  # where Newton's method starts in turn for a variable that was given none
MAX_ALGEBRAIC_ITERATIONS = 50
MOST_HALVINGS = 12  # of a correction that makes things worse
UNDAMPED = 0.1  # relative size of a correction below which it is made as it is
INDEX = ("algebraic variable{s} {names}: the algebraic equations do not determine {it}, so the system has index above 1. "
         "Differentiate by time the equation that lacks {it} ({text}), replace the rates of states by their equations, and "
         "give what comes out instead: as often as it takes for {it} to appear.")


@dataclass(frozen=True, eq=False)
class AlgebraicSystem:
    """The functions of a model with algebraic variables, before these are eliminated; arguments (t, x, z, u, p)."""

    names: tuple[str, ...]
    residual: ca.Function  # -> g
    motion: ca.Function  # -> dx
    measured: ca.Function  # -> y
    guess: ca.Function  # (t, x, u, p) -> (variables, attempts): where Newton's method begins, one column after the other
    affine: bool  # g = A z - b with A, b that do not depend on z
    symmetric: bool  # of A

    def symbols(self) -> tuple[list[ca.SX], ca.SX]:
        """(t, x, u, p) and z."""
        t, x, z, u, p = (ca.SX.sym(n, self.residual.size1_in(k)) for k, n in enumerate("txzup"))
        return [t, x, u, p], z

    def linear_form(self, t: ca.SX, x: ca.SX, z: ca.SX, u: ca.SX, p: ca.SX) -> tuple[ca.SX, ca.SX]:
        """g where z is zero if it is affine, else g as it is; and dg/dz."""
        g = self.residual(t, x, z, u, p)
        matrix = ca.jacobian(g, z)
        return (ca.substitute(g, z, ca.SX.zeros(z.shape)) if self.affine else g), matrix

    def eliminated(self, function: ca.Function) -> ca.Function:
        """A function of (t, x, z, u, p) as one of (t, x, u, p)."""
        options = (["t", "x", "u", "p"], [function.name_out(0)])
        if self.affine:
            (t, x, u, p), z = self.symbols()
            return ca.Function(function.name(), [t, x, u, p],
                               [ca.densify(function(t, x, self._formula(t, x, z, u, p), u, p))], *options, {"cse": True})
        place = [ca.MX.sym(n, self.guess.size1_in(k)) for k, n in enumerate("txup")]
        z_there = self._root(ca.vertcat(*place))
        return ca.Function(function.name(), place, [function(*place[:2], z_there, *place[2:])], *options)

    def _formula(self, t: ca.SX, x: ca.SX, z: ca.SX, u: ca.SX, p: ca.SX) -> ca.SX:
        lack, matrix = self.linear_form(t, x, z, u, p)
        return -solve_symmetric(matrix, lack) if self._definite else -ca.solve(matrix, lack)

    @functools.cached_property
    def _definite(self) -> bool:
        """All pivots of L D L' have one sign at random places; else elimination needs other pivots, or orthogonal factors."""
        if not self.symmetric:
            return False
        (t, x, u, p), z = self.symbols()
        matrix = ca.Function("matrix", [t, x, z, u, p], [ca.densify(self.linear_form(t, x, z, u, p)[1])])
        ends = [np.linalg.eigvalsh(m)[[0, -1]] for m in random_values(matrix, IDENTITY_SAMPLES)]
        return bool(ends) and all(low * high > 0 for low, high in ends)

    @functools.cached_property
    def _root(self) -> _Root:
        return _Root(self)

    @functools.cached_property
    def _newton(self) -> ca.Function:
        (t, x, u, p), z = self.symbols()
        g = self.residual(t, x, z, u, p)
        return ca.Function("newton", [t, x, z, u, p], [ca.densify(g), ca.densify(ca.jacobian(g, z))])

    def solve(self, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """z at one place, by Newton's method from `start` and then from the guesses; NaN where there is none within reach."""
        starts = [] if start is None else [np.asarray(start, float)]
        starts += list(np.asarray(self.guess(t, x, u, p)).T)
        for begin in starts:
            if (z := self._from(begin, t, x, u, p)) is not None:
                return z
        return np.full(len(self.names), np.nan)

    def _from(self, z: np.ndarray, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray | None:
        """As solve_algebraic of algebraic.c."""
        begun, converged, before = np.abs(z), False, np.full(z.shape, np.inf)
        for iteration in range(MAX_ALGEBRAIC_ITERATIONS):
            g, matrix = (np.asarray(v) for v in self._newton(t, x, z, u, p))
            step = _solved(matrix, g.ravel())
            if step is None:
                return None
            if converged or self.affine:
                return z - step
            size = np.abs(step)
            if iteration == 0:
                begun = begun + size
            noise = (size >= before / 2) & (size <= ALGEBRAIC_NEWTON_ROUNDING * max(np.max(np.abs(z)), ALGEBRAIC_NEWTON_LEAST))
            converged = bool(np.all((size <= ALGEBRAIC_NEWTON_STEP * (np.abs(z - step) + begun)) | noise))
            before = size
            length = self._length(z, step, matrix, t, x, u, p)
            if length == 0:
                return None
            z = z - length * step
        return None

    def _length(self, z: np.ndarray, step: np.ndarray, matrix: np.ndarray, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray
                ) -> float:
        """How far along a correction; 0 where none is good. The next one by the same matrix must be shorter (Deuflhard)."""
        scale = np.abs(z) + np.abs(step) + 1e-300
        now, length = float(np.linalg.norm(step / scale)), 1.0
        if now <= UNDAMPED:
            return length
        for _ in range(MOST_HALVINGS):
            ahead = _solved(matrix, np.asarray(self.residual(t, x, z - length * step, u, p)).ravel())
            if ahead is not None and float(np.linalg.norm(ahead / scale)) < now:
                return length
            length /= 2
        return 0.0


class _Root(ca.Callback):
    """z of (t, x, u, p), one below the other, as a function that CasADi differentiates; for what is not compiled.

    While time goes on, it begins at its last answer, as the compiled loops do; at an earlier time, at the guess.
    """

    def __init__(self, system: AlgebraicSystem):
        ca.Callback.__init__(self)
        self.system = system
        self.sizes = [system.guess.size1_in(k) for k in range(4)]
        self.cuts = np.cumsum([0, *self.sizes])
        self.begin = np.inf
        self.last: np.ndarray | None = None
        self.construct("algebraic", {})

    def get_n_in(self) -> int:
        return 1

    def get_n_out(self) -> int:
        return 1

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(sum(self.sizes), 1)

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(len(self.system.names), 1)

    def eval(self, arg: Sequence[ca.DM]) -> list[ca.DM]:
        place = np.asarray(arg[0]).ravel()
        if not np.all(np.isfinite(place)):
            return [ca.DM(np.full(len(self.system.names), np.nan))]
        t, x, u, p = (place[a:b] for a, b in zip(self.cuts, self.cuts[1:], strict=False))
        if t[0] <= self.begin:
            self.begin, self.last = t[0], None
        z = self.system.solve(t[0], x, u, p, self.last)
        if np.all(np.isfinite(z)):
            self.last = z
        return [ca.DM(z)]

    def has_jacobian(self) -> bool:
        return True

    def get_jacobian(self, name: str, inames: Sequence[str], onames: Sequence[str], opts: Any) -> ca.Function:
        """-(dg/dz)^-1 dg/d(t, x, u, p)"""
        z = self.system.symbols()[1]
        place = ca.SX.sym("place", sum(self.sizes))
        own = [place[a:b] for a, b in zip(self.cuts[:-1].tolist(), self.cuts[1:].tolist(), strict=True)]
        g = self.system.residual(own[0], own[1], z, own[2], own[3])
        slope = -ca.solve(ca.jacobian(g, z), ca.densify(ca.jacobian(g, place)))
        return ca.Function(name, [place, z], [ca.densify(slope)], list(inames), list(onames), opts)


def _solved(matrix: np.ndarray, rhs: np.ndarray) -> np.ndarray | None:
    if not (np.all(np.isfinite(matrix)) and np.all(np.isfinite(rhs))):
        return None
    try:
        found = np.linalg.solve(matrix, rhs)
    except np.linalg.LinAlgError:
        return None
    return found if np.all(np.isfinite(found)) else None


def solve_symmetric(matrix: ca.SX, rhs: ca.SX) -> ca.SX:
    """x of matrix x = rhs by L D L', symbol by symbol."""
    n = matrix.shape[0]
    lower = ca.SX.eye(n)
    pivots: list[ca.SX] = []
    for j in range(n):
        pivots.append(matrix[j, j] - sum((lower[j, k] ** 2 * pivots[k] for k in range(j)), ca.SX(0)))
        for i in range(j + 1, n):
            rest = sum((lower[i, k] * lower[j, k] * pivots[k] for k in range(j)), ca.SX(0))
            lower[i, j] = (matrix[i, j] - rest) / pivots[j]
    x = ca.SX(rhs)
    for i in range(n):
        x[i] -= sum((lower[i, k] * x[k] for k in range(i)), ca.SX(0))
    for i in reversed(range(n)):
        x[i] = x[i] / pivots[i] - sum((lower[k, i] * x[k] for k in range(i + 1, n)), ca.SX(0))
    return x


def random_values(function: ca.Function, count: int) -> list[np.ndarray]:
    """Its first result at random places, where that is finite; an identity that holds at all of them holds."""
    rng = np.random.default_rng(20240607)
    found = []
    for _ in range(4 * count):
        arguments = [rng.uniform(0.5, 1.5, function.size1_in(k)) for k in range(function.n_in())]
        value = np.asarray(function.call(arguments)[0])
        if np.all(np.isfinite(value)):
            found.append(value)
        if len(found) == count:
            break
    return found


def is_symmetric(matrix: ca.Function) -> bool:
    """At random places, to rounding."""
    seen = random_values(matrix, IDENTITY_SAMPLES)
    return bool(seen) and all(np.max(np.abs(m - m.T), initial=0.0) <= ALGEBRAIC_SYMMETRIC * np.max(np.abs(m), initial=0.0)
                              for m in seen)


def read_algebraic(written: ModelDefinition, motion: Automaton, expressions: tuple[Sequence[ca.SX], Sequence[ca.SX]],
                   known: Scope, make: Maker) -> AlgebraicSystem:
    """From what is zero and the outputs; ProblemError where the variables are not determined (index above 1)."""
    faults: list[str] = []
    without = {name: it for name, it in known.items() if name not in written.algebraic}
    guesses = {name: parse(text, without, f"guess of '{name}'", faults) for name, text in written.guesses.items()}
    z = ca.vertcat(*(known[name] for name in written.algebraic))
    faults += [f"the guess of '{name}' depends on algebraic variables; write it over states, inputs and parameters."
               for name, guess in guesses.items() if ca.depends_on(guess, z)]
    zero, measured = expressions
    rates = next(iter(motion.rates.values()))
    system = None if faults else algebraic_system(written.algebraic, make, z, (zero, rates, measured), guesses, faults)
    if system is not None and not system.affine and (known.delayed or written.sample_time is not None):
        faults.append(f"algebraic variable '{system.names[0]}' enters nonlinearly, which a model with dead times or in "
                      "discrete time does not take. Solve for it by hand.")
    if system is None or faults:
        raise ProblemError(faults)
    return system


def algebraic_system(texts: Mapping[str, str], make: Maker, z: ca.SX, expressions: Sequence[Sequence[ca.SX]],
                     guesses: Mapping[str, ca.SX], faults: list[str]) -> AlgebraicSystem | None:
    """From what is zero, the rates and the outputs; None, and the reason among the faults, where z is not determined."""
    t, x, u, p = make.arguments
    wider = replace(make, arguments=[t, x, z, u, p], names=("t", "x", "z", "u", "p"))
    residual, motion, measured = (wider.function(name, each, result) for name, each, result in zip(
        ("residual", "rate", "output"), expressions, ("g", "dx", "y"), strict=True))
    symbols = [ca.SX.sym(n, residual.size1_in(k)) for k, n in enumerate("txzup")]
    g = residual(*symbols)
    slope = ca.jacobian(g, symbols[2])
    matrix = ca.Function("matrix", symbols, [slope])
    faults += index_faults(list(texts), list(texts.values()), matrix)
    if faults:
        return None
    affine = not ca.depends_on(slope, symbols[2])
    attempts = (0.0,) if affine or len(guesses) == len(texts) else WITHOUT_GUESS
    guess = ca.horzcat(*(make.filled([guesses.get(name, ca.SX(value)) for name in texts]) for value in attempts))
    return AlgebraicSystem(tuple(texts), residual, motion, measured,
                           ca.Function("guess", list(make.arguments), [ca.densify(guess)]), affine,
                           affine and is_symmetric(matrix))


def index_faults(names: Sequence[str], texts: Sequence[str], matrix: ca.Function) -> list[str]:
    """Variables that the equations do not determine, wherever they are looked at; `matrix` is dg/dz."""
    pattern = np.asarray(ca.DM(matrix.sparsity_out(0), 1.0)) != 0
    loose = _unmatched(pattern)
    if not loose:
        seen = random_values(matrix, IDENTITY_SAMPLES)
        spectra = [np.linalg.svd(_equilibrated(m)) for m in seen]
        if not spectra or any(s[-1] > ALGEBRAIC_SINGULAR * s[0] for _, s, _ in spectra):
            return []
        weight = np.abs(spectra[0][2][-1])
        loose = [int(k) for k in np.flatnonzero(weight > 0.1 * np.max(weight))]
    named = ", ".join(f"'{names[k]}'" for k in loose)
    lacking = [i for i in range(len(texts)) if not any(pattern[i, k] for k in loose)] or list(range(len(texts)))
    return [INDEX.format(s="s" * (len(loose) > 1), names=named, it="it" if len(loose) == 1 else "them",
                         text=" or ".join(f"0 = {texts[i]}" for i in lacking[:3]))]


def _equilibrated(matrix: np.ndarray) -> np.ndarray:
    """Rows and columns of size one, so that units do not matter."""
    rows = np.max(np.abs(matrix), axis=1, keepdims=True)
    scaled = matrix / np.where(rows > 0, rows, 1)
    columns = np.max(np.abs(scaled), axis=0, keepdims=True)
    return scaled / np.where(columns > 0, columns, 1)


def _unmatched(pattern: np.ndarray) -> list[int]:
    """Columns that no row is left for, by augmenting paths."""
    owner: dict[int, int] = {}  # row -> column

    def placed(column: int, tried: set[int]) -> bool:
        for row in np.flatnonzero(pattern[:, column]).tolist():
            if row in tried:
                continue
            tried.add(row)
            if row not in owner or placed(owner[row], tried):
                owner[row] = column
                return True
        return False

    return [column for column in range(pattern.shape[1]) if not placed(column, set())]


def no_solution(names: Sequence[str], times: np.ndarray, node: int) -> SimulationDiverged:
    """Where the algebraic equations have no solution within reach."""
    named = ", ".join(f"'{name}'" for name in names)
    what = f"the algebraic equations have no solution for {named} within reach (guesses= says where to look)"
    return SimulationDiverged(float(times[node]), node, what=what)
