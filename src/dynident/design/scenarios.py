"""Scenarios: at which values of the unknowns is a plan judged, since what it depends on is not yet known?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import qmc

from dynident.design.knowledge import Knowledge
from dynident.design.program import Scenario
from dynident.errors import ProblemError, did_you_mean


def scenarios_of(knowledge: Knowledge, robust: str, box: Mapping[str, tuple[float, float]], samples: int,
                 wanted: np.ndarray, rng: np.random.Generator) -> list[Scenario]:
    """One at the values believed now; where a robust plan is asked for, further ones around it."""
    believed = Scenario(knowledge.values)
    if not robust:
        if box:
            raise ProblemError("a box was given, but not what to do with it: say robust=\"average\" or \"worst\".")
        return [believed]
    more = _in_box(knowledge, box, samples, rng) if box else _in_ellipsoid(knowledge, samples, wanted, rng)
    return [believed, *more]


def _in_box(knowledge: Knowledge, box: Mapping[str, tuple[float, float]], samples: int, rng: np.random.Generator
            ) -> list[Scenario]:
    faults = [f"box names '{n}', which is not an unknown.{did_you_mean(n, knowledge.names)}" for n in box
              if n not in knowledge.names]
    if faults:
        raise ProblemError(faults)
    found = []
    for row in qmc.LatinHypercube(len(box), rng=rng).random(samples):
        values = knowledge.values.copy()
        for (name, (low, high)), share in zip(box.items(), row, strict=True):
            values[knowledge.names.index(name)] = low + share * (high - low)
        found.append(Scenario(values))
    return found


def _in_ellipsoid(knowledge: Knowledge, samples: int, wanted: np.ndarray, rng: np.random.Generator
                  ) -> list[Scenario]:
    """Draws from the normal distribution that the records so far leave."""
    known = knowledge.judged()
    loose = [knowledge.names[i] for i in wanted if not np.isfinite(known.std[i])]
    if loose:
        raise ProblemError(f"The records so far do not determine {', '.join(loose)}, so there is no uncertainty to "
                           "draw from. Give a box, as in box={\"" + loose[0] + "\": (low, high)}.")
    fitted = np.flatnonzero(np.isfinite(known.std))
    scale = knowledge.scale[fitted]
    _, R = np.linalg.qr(knowledge.tied()[:, fitted] * scale)
    found = []
    for _ in range(samples):
        values = knowledge.values.copy()
        values[fitted] += scale * np.linalg.solve(R, rng.standard_normal(fitted.size))
        inside = [np.clip(v, u.lower, u.upper) for v, u in zip(values, knowledge.problem.unknowns, strict=True)]
        found.append(Scenario(np.array(inside)))
    return found
