"""Answer: how does a solver of CasADi's ask a function of ours?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged


class CasadiCallback(ca.Callback):
    """A function of CasADi's that asks one of ours; an exception is kept, and the solver sees NaN."""

    def __init__(self, name: str, inputs: Sequence[tuple[str, ca.Sparsity]], outputs: Sequence[tuple[str, ca.Sparsity]],
                 ask: Callable[..., list[np.ndarray]], run: Any):
        super().__init__()
        self.inputs, self.outputs, self.ask, self.run = inputs, outputs, ask, run
        self.construct(name, {})

    def get_n_in(self) -> int:
        return len(self.inputs)

    def get_n_out(self) -> int:
        return len(self.outputs)

    def get_name_in(self, i: int) -> str:
        return self.inputs[i][0]

    def get_name_out(self, i: int) -> str:
        return self.outputs[i][0]

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return self.inputs[i][1]

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return self.outputs[i][1]

    def eval(self, arguments: Sequence[ca.DM]) -> list[ca.DM]:
        try:
            answers = self.ask(*[np.asarray(a).ravel() for a in arguments])
        except SimulationDiverged as wall:
            self.run.wall = wall
            answers = [np.full(s.nnz(), np.nan) for _, s in self.outputs]
        except KeyboardInterrupt:
            self.run.interrupted = True
            answers = [np.full(s.nnz(), np.nan) for _, s in self.outputs]
        return [ca.DM(s, np.asarray(a, float).ravel()) for a, (_, s) in zip(answers, self.outputs, strict=True)]
