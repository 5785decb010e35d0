"""Robot arm peers: Pinocchio's regressor of an arm along a motion, and FIGAROH's identification; run by a Python that has them.

    python robot_arm_peers.py pinocchio case.json   ->  a line RESULT {"samples"}, and arrays links_0, ... in the file it names
    python robot_arm_peers.py figaroh case.json     ->  a line RESULT {"base", "relative_std", "cpu"}, and arrays in that file

links_i (samples, joints, 10 links): torques are linear in mass, first moments and inertias about the joints' frames. FIGAROH's
own regressor, base parameters, least squares and weighted least squares; the filter is that of the case. Its arrays `ordinary`
and `weighted` (kept samples, joints) are the torques that it predicts for the last record.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

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


def figaroh(case: dict[str, Any]) -> dict[str, float]:
    from figaroh.identification.identification_tools import relative_stdev, weigthed_least_squares
    from figaroh.identification.parameter import add_standard_additional_parameters, get_standard_parameters
    from figaroh.tools.qrdecomposition import QRDecomposer
    from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced, get_index_eliminate
    from figaroh.tools.robot import Robot

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "arm.urdf").write_text(without_meshes(case["urdf"]))
        robot = Robot(str(Path(folder, "arm.urdf")), folder)
    joints = len(case["joints"])
    setting = {"has_friction": True, "has_actuator_inertia": True, "has_joint_offset": True, "is_joint_torques": True,
               "is_external_wrench": False, "act_idxv": list(range(joints)), "idx_tau_stop": [
                   len(case["rows"][0]) * (k + 1) for k in range(joints)]}
    standard = {**get_standard_parameters(robot.model), **add_standard_additional_parameters(robot.model, setting)}
    motion, began = np.load(case["motion"]), time.process_time()

    def kept(rows: np.ndarray, record: int) -> np.ndarray:
        """Joint by joint, filtered as ours, at the samples that we keep."""
        by_joint = rows.reshape(joints, -1, *rows.shape[1:])
        filtered = [zero_phase(each, case["cutoff"][record], case["rate"][record], case["order"])[case["rows"][record]]
                    for each in by_joint]
        return np.concatenate(filtered)

    rows = [kept(build_regressor_basic(robot, *(motion[f"{kind}_{i}"] for kind in ("q", "dq", "ddq")), setting), i)
            for i in range(len(case["rows"]))]
    torque = kept(motion["torque_0"].T.ravel(), 0)
    idle, names = get_index_eliminate(rows[0], standard)
    decomposer = QRDecomposer()
    regressor, _, _, ordinary = decomposer.double_decomposition(torque, build_regressor_reduced(rows[0], idle), names)
    weighted = weigthed_least_squares(robot, ordinary, regressor, torque, regressor @ ordinary, setting)
    cpu = time.process_time() - began
    last = build_regressor_reduced(rows[-1], idle)[:, decomposer.base_indices]
    np.savez(case["answer"], ordinary=(last @ ordinary).reshape(joints, -1).T, weighted=(last @ weighted).reshape(joints, -1).T)
    return {"base": len(ordinary), "relative_std": float(np.median(relative_stdev(regressor, ordinary, torque))), "cpu": cpu}


def zero_phase(signal: np.ndarray, cutoff: float, rate: float, order: int) -> np.ndarray:
    from scipy.signal import butter, sosfiltfilt

    return sosfiltfilt(butter(order, cutoff, fs=rate, output="sos"), signal, axis=0)


def without_meshes(urdf: str) -> str:
    """The same links and joints; meshes are not there, and identification needs none."""
    root = xml.fromstring(urdf)
    for link in root.iter("link"):
        for shape in (*link.findall("visual"), *link.findall("collision")):
            link.remove(shape)
    return xml.tostring(root, encoding="unicode")


if __name__ == "__main__":
    answer_as_peer(lambda peer, case: {"pinocchio": pinocchio, "figaroh": figaroh}[peer](case))
