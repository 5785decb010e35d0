"""Spy: the structure of a nonlinear program as dots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynident.transcription.nlp_structure import NlpStructure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def spy_figure(sizes: NlpStructure) -> Figure:
    """Constraint Jacobian and Hessian (upper triangle) side by side, with their relative densities."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
    for axis, matrix, title in ((axes[0], sizes.jacobian, f"Dg, density {sizes.density_jacobian:.2g}"),
                                (axes[1], sizes.hessian, f"DH, density {sizes.density_hessian:.2g}")):
        dots = max(0.3, min(4.0, 300 / max(matrix.shape)))
        axis.spy(matrix, markersize=dots, color="C0")
        axis.set_title(title)
        axis.set_xlabel(f"{matrix.shape[1]} variables, {matrix.nnz} nonzeros")
        axis.set_aspect("auto")
    return figure
