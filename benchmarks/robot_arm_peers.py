"""Robot arm peers: the regressor of an arm along a motion, by Pinocchio; run by a Python that has it (`pip install pin`).

    python robot_arm_peers.py pinocchio case.json   ->  a line RESULT {"samples"}, and arrays links_0, ... in the file it names

(samples, joints, 10 links): torques are linear in mass, first moments and inertias about the joints' frames.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from timing import answer_as_peer


def pinocchio(case: dict[str, Any]) -> dict[str, int]:
    import pinocchio as pin

    model = pin.buildModelFromXML(case["urdf"])
    if [model.names[k] for k in range(1, model.njoints)] != list(case["joints"]):
        raise ValueError(f"Pinocchio has other joints: {list(model.names)}")
    data, motion, found = model.createData(), np.load(case["motion"]), {}
    for i in range(len(motion.files) // 3):
        triples = zip(*(motion[f"{kind}_{i}"] for kind in ("q", "dq", "ddq")), strict=True)
        found[f"links_{i}"] = np.array([pin.computeJointTorqueRegressor(model, data, *it) for it in triples])
    np.savez(case["answer"], **found)
    return {"samples": sum(map(len, found.values()))}


if __name__ == "__main__":
    answer_as_peer(lambda peer, case: {"pinocchio": pinocchio}[peer](case))
