"""Friction choice: which laws predict torques that they were not fitted to?

A law is tried on all joints and kept for those whose torque it predicts better: on other records where there are several, on
parts of the record that were left out where there is one. A better fit alone is no reason: every parameter gives that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynident.inverse_dynamics.run import TorqueRows, fit_torques, rows_at
from dynident.inverse_dynamics.setup import ArmAlongMotion, TorqueRecord
from dynident.linalg.rank import column_lengths, truncated_svd
from dynident.robots.friction import CANDIDATES
from dynident.robots.model import RobotModel

BLOCKS = 5  # of a single record; each is predicted from the others
LEAST_GAIN = 0.05  # of the RMS on what was left out; less is luck
MOST_ROUNDS = len(CANDIDATES)


@dataclass(frozen=True)
class FrictionTrial:
    """What one law brought: the RMS of each joint on what was left out, before and with it, and who keeps it."""

    law: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    kept: tuple[int, ...]  # numbers of the joints

    def __str__(self) -> str:
        change = ", ".join(f"{100 * (b - a) / b:+.1f}" for a, b in zip(self.after, self.before, strict=True))
        kept = f"kept for joint {', '.join(map(str, self.kept))}" if self.kept else "not kept"
        return f"{self.law}: left-out RMS better by {change} % (joints 1 to {len(self.before)}); {kept}"


def choose_friction(arm: RobotModel, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion], weighting: str
                    ) -> tuple[RobotModel, tuple[FrictionTrial, ...]]:
    """The arm with the laws that pay, beginning with Coulomb and viscous friction, and what each trial brought."""
    laws = [list(each) for each in arm.friction]
    trials: list[FrictionTrial] = []
    for _ in range(MOST_ROUNDS):
        here = [it.with_arm(arm) for it in along]
        before = left_out_rms(arm, records, here, weighting)
        tried = []
        for law in CANDIDATES:
            if all(law in each for each in laws):
                continue
            wider = _with(arm, [each if law in each else [*each, law] for each in laws])
            after = left_out_rms(wider, records, [it.with_arm(wider) for it in along], weighting)
            kept = tuple(k + 1 for k in range(arm.dof) if law not in laws[k] and after[k] < (1 - LEAST_GAIN) * before[k])
            gain = sum(1 - after[k - 1] / before[k - 1] for k in kept)
            tried.append((gain, FrictionTrial(law, tuple(map(float, before)), tuple(map(float, after)), kept)))
        best = max(tried, key=lambda pair: pair[0], default=None)
        if not trials:
            trials += [FrictionTrial(t.law, t.before, t.after, t.kept if best and t is best[1] else ()) for _, t in tried]
        if best is None or not best[1].kept:
            break
        for k in best[1].kept:
            laws[k - 1].append(best[1].law)
        arm = _with(arm, laws)
        trials += [best[1]] * (best[1] not in trials)
    return arm, tuple(trials)


def _with(arm: RobotModel, laws: Sequence[Sequence[str]]) -> RobotModel:
    return arm.with_friction(dict(zip(arm.joints, laws, strict=True)))


def left_out_rms(arm: RobotModel, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion], weighting: str
                 ) -> np.ndarray:
    """(dof,) RMS of torques that each fit had not seen."""
    fit = fit_torques(arm, records, along, weighting)
    blocks = _blocks(rows_at(arm, fit.values, records, along))
    errors = []
    for k, left_out in enumerate(blocks):
        matrix, target = (np.concatenate(parts) for parts in zip(*(
            _stacked(b, fit.values, fit.std) for i, b in enumerate(blocks) if i != k), strict=True))
        lengths = column_lengths(matrix)
        triangle = np.asarray(np.linalg.qr(np.column_stack([matrix / lengths, target]), mode="r"))
        step = truncated_svd(triangle[:, :-1]).least_squares(triangle[:, -1]) / lengths
        errors.append(left_out.residual - left_out.jacobian @ step)
    return np.sqrt(np.mean(np.concatenate(errors) ** 2, axis=0))


def _blocks(rows: Sequence[TorqueRows]) -> list[TorqueRows]:
    if len(rows) > 1:
        return list(rows)
    (only,) = rows
    parts = np.array_split(np.arange(len(only.measured)), BLOCKS)
    return [TorqueRows(only.measured[p], only.predicted[p], only.jacobian[p]) for p in parts]


def _stacked(rows: TorqueRows, values: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted derivatives and residuals, from which a step away from `values` is found."""
    return (rows.jacobian / std[:, None]).reshape(-1, values.size), (rows.residual / std).ravel()
