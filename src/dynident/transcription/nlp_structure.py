"""NLP structure: how large and how sparse the nonlinear program of a transcription is (Table I and Sec. IV-B of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.transcription.full_discretization import FullDiscretization
from dynident.transcription.nonlinear_program import NonlinearProgram
from dynident.transcription.shooting import Shooting

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class NlpStructure:
    """Variables and constraints, and the structure of gradient, constraint Jacobian and Hessian (its upper triangle).

    Table I of the paper counts n_x M (n_x N) constraints; the continuity conditions (5) are one block fewer, as here.
    """

    variables: int
    constraints: int
    gradient: np.ndarray  # (variables,) bool
    jacobian: sparse.csc_matrix  # (constraints, variables), entries 1
    hessian: sparse.csc_matrix  # upper triangle

    @property
    def density_gradient(self) -> float:
        """rd(Dr) = nnz / n."""
        return float(np.count_nonzero(self.gradient) / max(1, self.variables))

    @property
    def density_jacobian(self) -> float:
        """rd(Dg) = nnz / (n m); 0 without constraints."""
        return float(self.jacobian.nnz / max(1, self.variables * self.constraints))

    @property
    def density_hessian(self) -> float:
        """rd(DH) = nnz / (n (n + 1) / 2)."""
        return float(self.hessian.nnz / max(1, self.variables * (self.variables + 1) // 2))

    def __str__(self) -> str:
        return (f"{self.variables} variables, {self.constraints} constraints; relative densities: gradient "
                f"{self.density_gradient:.3g}, Jacobian {self.density_jacobian:.3g}, Hessian {self.density_hessian:.3g}")


def nlp_structure(finite: Any) -> NlpStructure:
    """Sizes of a finite problem made by shooting or full discretization."""
    if isinstance(finite, FullDiscretization):
        return _of_program(NonlinearProgram(finite))
    if isinstance(finite, Shooting):
        return _of_shooting(finite)
    raise TypeError(f"no program structure is known for {type(finite).__name__}")


def _of_program(program: NonlinearProgram) -> NlpStructure:
    gradient = np.zeros(program.size, dtype=bool)
    for columns in program.gradient_columns:
        gradient[columns[columns >= 0]] = True
    gradient[[i for i, _ in program.finite.objective.priors]] = True
    j, h = program.jacobian_pattern, program.hessian_pattern
    return NlpStructure(program.size, j.shape[0], gradient, _ones(j.rows, j.columns, j.shape),
                 _ones(h.rows, h.columns, h.shape))


def _of_shooting(finite: Shooting) -> NlpStructure:
    """A segment's end and outputs depend on its first state and all parameters; nothing else meets in one term."""
    nx, unknowns = len(finite.problem.model.states), len(finite.names)
    at, row = unknowns, 0
    size = unknowns + sum((len(r.segment_starts) - 2) * nx for r in finite.records)
    jr, jc, hr, hc = [], [], [], []
    for e, record in enumerate(finite.records):
        spread = finite.objective.unknown_map(e, np.ones(unknowns)).unknown
        own, free = spread[:nx], spread[nx:]
        for i in range(len(record.segment_starts) - 1):
            local = np.concatenate([own, free])
            local = np.sort(local[local >= 0])
            a, b = np.meshgrid(local, local, indexing="ij")
            hr.append(a[a <= b])
            hc.append(b[a <= b])
            if i < len(record.segment_starts) - 2:
                following = at + np.arange(nx)
                jr += [np.repeat(row + np.arange(nx), local.size), row + np.arange(nx)]
                jc += [np.tile(local, nx), following]
                own, at, row = following, at + nx, row + nx
    none = np.zeros(0, int)
    jacobian = _ones(np.concatenate([none, *jr]), np.concatenate([none, *jc]), (row, size))
    hessian = _ones(np.concatenate([none, *hr]), np.concatenate([none, *hc]), (size, size))
    return NlpStructure(size, row, np.ones(size, dtype=bool), jacobian, hessian)


def _ones(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sparse.csc_matrix:
    from scipy import sparse  # here, because it takes a while to load, and only a comparison counts entries

    matrix = sparse.coo_matrix((np.ones(rows.size), (rows, columns)), shape).tocsc()
    matrix.data[:] = 1.0  # entries that met were added
    return matrix
