"""Are the dynamics those of mechanics: energies, Pinocchio, the Lagrangian of the papers' robot?"""

import importlib.metadata
import os
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from robot_makers import random_robot

import dynident as di
from dynident.robots.kinematic_tree import kinematic_tree
from dynident.robots.model import RobotModel
from dynident.robots.rigid_body import mass_matrix, newton_euler, regressor
from dynident.robots.urdf import read_urdf

SHARED = Path(__file__).parents[3] / "shared" / "data" / "ur10e" / "ur10e.urdf"
OWN_FOLDER = os.environ.get("DYNIDENT_URDF_FOLDER", "")
PUBLIC = ("panda", "ur5_robot", "xarm7", "kinova", "z1", "bravo7_gripper", "talos_left_arm", "so101",  # chains
          "allegro_right_hand", "tiago_dual", "baxter")  # trees: a hand, two arms each
TREES = [random_robot(seed) for seed in range(6)]
GRAVITY = (0.5, -1.0, -9.81)


def functions(tree, gravity=GRAVITY):
    q, dq, ddq = (ca.SX.sym(name, tree.dof) for name in ("q", "dq", "ddq"))
    p = ca.SX.sym("p", 10 * len(tree.bodies))
    return ca.Function("f", [q, dq, ddq, p], [newton_euler(tree, q, dq, ddq, p, gravity), mass_matrix(tree, q, p),
                                              regressor(tree, q, dq, ddq, gravity)])


def random_motion(tree, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (3, tree.dof))


def energies(tree, q, dq, gravity):
    """Kinetic and potential energy from positions of the bodies alone, by homogeneous transformations."""
    poses, kinetic, potential = [], 0, 0
    for body in tree.bodies:
        x = body.multiplier * q[body.coordinate] + body.offset
        k = ca.skew(ca.DM(body.axis))
        turn = ca.SX.eye(3) if body.prismatic else ca.SX.eye(3) + ca.sin(x) * k + (1 - ca.cos(x)) * k @ k
        shift = ca.DM(body.axis) * x if body.prismatic else ca.SX(3, 1)
        here = ca.vertcat(ca.horzcat(ca.DM(body.rotation) @ turn, ca.DM(body.position) + ca.DM(body.rotation) @ shift),
                          ca.DM([[0, 0, 0, 1]]))
        pose = here if body.parent < 0 else poses[body.parent] @ here
        poses.append(pose)
        m, h, i = body.inertial[0], body.inertial[1:4], body.inertial[4:]
        tensor = np.array([[i[0], i[1], i[2]], [i[1], i[3], i[4]], [i[2], i[4], i[5]]])
        pseudo = np.block([[np.trace(tensor) / 2 * np.eye(3) - tensor, h[:, None]], [h[None], np.array([[m]])]])
        rate = ca.reshape(ca.jtimes(ca.vec(pose), q, dq), 4, 4)
        kinetic += ca.trace(rate @ pseudo @ rate.T) / 2
        potential -= ca.dot(ca.DM(gravity), (pose @ ca.DM([*h, m]))[:3])
    return kinetic, potential


@pytest.mark.parametrize("text", TREES)
def test_torques_are_those_of_the_energies(text):
    tree = kinematic_tree(read_urdf(text))
    q, dq, ddq = (ca.SX.sym(name, tree.dof) for name in ("q", "dq", "ddq"))
    kinetic, potential = energies(tree, q, dq, GRAVITY)
    impulse = ca.gradient(kinetic, dq)
    torque = ca.jtimes(impulse, q, dq) + ca.jtimes(impulse, dq, ddq) - ca.gradient(kinetic - potential, q)
    motion = random_motion(tree)
    expected = np.array(ca.Function("l", [q, dq, ddq], [torque])(*motion)).ravel()
    ours = functions(tree)(*motion, tree.inertial)
    assert np.array(ours[0]).ravel() == pytest.approx(expected, rel=1e-11, abs=1e-10 * np.max(np.abs(expected)))


@pytest.mark.parametrize("text", TREES)
def test_mass_matrix_and_regressor_say_the_same_as_newton_euler(text):
    tree = kinematic_tree(read_urdf(text))
    f, (q, dq, ddq) = functions(tree), random_motion(tree, 1)
    torque, matrix, rows = (np.array(x) for x in f(q, dq, ddq, tree.inertial))
    rest = np.array(f(q, dq, np.zeros(tree.dof), tree.inertial)[0])
    scale = np.max(np.abs(torque))
    assert matrix @ ddq[:, None] + rest == pytest.approx(torque, rel=1e-11, abs=1e-12 * scale)
    assert rows @ tree.inertial[:, None] == pytest.approx(torque, rel=1e-11, abs=1e-12 * scale)
    assert matrix == pytest.approx(matrix.T, rel=1e-13, abs=1e-13)


def largest_difference(path_or_text, samples=20):
    """Relative, of torques and mass matrix to Pinocchio's."""
    pin = pytest.importorskip("pinocchio", reason="needs Pinocchio: pip install pin")
    text = Path(path_or_text).read_text() if isinstance(path_or_text, Path) else path_or_text
    tree = kinematic_tree(read_urdf(text))
    try:
        model = pin.buildModelFromXML(text, mimic=True)
    except ValueError as reason:
        pytest.skip(f"Pinocchio does not take it: {reason}")  # followers that stand before whom they follow
    f, worst = functions(tree, (0.0, 0.0, -9.81)), 0.0
    for seed in range(samples):
        data = model.createData()  # with mimicking joints, its mass matrix adds to what is there already
        q, dq, ddq = random_motion(tree, seed)
        pq, pv, pa, columns = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv), []
        for k, joint in enumerate(tree.joints):
            it = model.joints[model.getJointId(joint.name)]
            pq[it.idx_q:it.idx_q + it.nq] = (np.cos(q[k]), np.sin(q[k])) if it.nq == 2 else q[k]
            pv[it.idx_v], pa[it.idx_v] = dq[k], ddq[k]
            columns.append(it.idx_v)
        torque, matrix = pin.rnea(model, data, pq, pv, pa)[columns], np.triu(pin.crba(model, data, pq))
        matrix = (matrix + np.triu(matrix, 1).T)[np.ix_(columns, columns)]
        ours = [np.array(x) for x in f(q, dq, ddq, tree.inertial)]
        worst = max(worst, np.max(np.abs(ours[0].ravel() - torque)) / np.max(np.abs(torque)),
                    np.max(np.abs(ours[1] - matrix)) / np.max(np.abs(matrix)))
    return worst


@pytest.mark.parametrize("text", [*TREES, di.library.two_link_urdf(), di.library.six_axis_urdf()])
def test_pinocchio_agrees_on_our_robots(text):
    assert largest_difference(text) < 1e-10


@pytest.mark.skipif(not SHARED.exists(), reason="needs the UR10e record of the shared data")
def test_pinocchio_agrees_on_the_ur10e():
    assert largest_difference(SHARED) < 1e-10


def public_arms():
    """Descriptions that are not ours to keep: in a folder, or as the package that Pinocchio's examples come with has them."""
    if OWN_FOLDER:
        return sorted(Path(OWN_FOLDER).glob("*.urdf"))
    try:
        root = importlib.metadata.distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    except importlib.metadata.PackageNotFoundError:
        return []
    return sorted(path for path in Path(root).rglob("*.urdf") if path.stem in PUBLIC)


@pytest.mark.parametrize("path", public_arms() or [None], ids=lambda path: path and path.stem)
def test_pinocchio_agrees_on_public_arms(path):
    if path is None:
        pytest.skip("needs public robot descriptions: pip install pin example-robot-data, or set DYNIDENT_URDF_FOLDER")
    assert largest_difference(path) < 1e-10


def test_the_papers_two_link_robot_has_the_equations_of_its_lagrangian():
    p = {"m1": 6.0, "sx1": 0.02, "sy1": 0.01, "Iz1": 0.03, "m2": 3.0, "sx2": 0.03, "sy2": 0.02, "sz2": 0.25, "Ix2": 0.06,
         "Iy2": 0.055, "Iz2": 0.008, "dry1": 1.2, "dry2": 0.7, "viscous1": 2.0, "viscous2": 1.5, "gain1": 1.0, "gain2": 1.0,
         "a1": 100.0, "a2": 100.0}
    lagrangian = di.library.two_link_robot()
    ours = RobotModel(di.library.two_link_urdf()).equations
    values = {name: it.start for name, it in RobotModel(di.library.two_link_urdf()).nominal_values.items()}
    values |= {"Fc_1": 1.2, "Fc_2": 0.7, "Fv_1": 2.0, "Fv_2": 1.5}
    for seed in range(20):
        x, u = np.random.default_rng(seed).normal(0, 1, 4), np.random.default_rng(seed + 100).normal(0, 20, 2)
        theirs = np.array(lagrangian.rate(0, x, u, [p[name] for name in lagrangian.parameters])).ravel()
        here = np.array(ours.rate(0, x, u, [values[name] for name in ours.parameters])).ravel()
        assert here == pytest.approx(theirs, rel=1e-12, abs=1e-12 * np.max(np.abs(theirs)))


def test_the_inverse_model_inverts_the_forward_model():
    arm = RobotModel(di.library.two_link_urdf(), motor_inertia=True, friction=("coulomb", "viscous", "cubic", "stribeck"))
    values = {name: it.start for name, it in arm.nominal_values.items()}
    values |= {"Fc_1": 1.0, "Fv_2": 2.0, "F3_1": 0.1, "Fs_2": 0.5, "Ia_1": 0.2}
    x, u = np.array([0.3, -0.8, 1.1, -0.4]), np.array([5.0, -3.0])
    rate = np.array(arm.equations.rate(0, x, u, [values[n] for n in arm.equations.parameters])).ravel()
    motion = dict(zip(["q1", "q2", "dq1", "dq2", "ddq1", "ddq2"], [*x, *rate[2:]], strict=True))
    back = arm.inverse.output(0, [], [motion[n] for n in arm.inverse.inputs], [values[n] for n in arm.inverse.parameters])
    assert np.array(back).ravel() == pytest.approx(u, rel=1e-12)


def test_four_joints_of_a_six_axis_arm_can_be_locked():
    arm = RobotModel(di.library.six_axis_urdf(), lock=["j3", "j4", "j5", "j6"])
    assert (arm.joints, len(arm.equations.states)) == (("j1", "j2"), 4)
    whole = RobotModel(di.library.six_axis_urdf())
    assert sum(b.inertial[0] for b in arm.tree.bodies) == pytest.approx(sum(b.inertial[0] for b in whole.tree.bodies))


def test_a_locked_arm_asks_for_the_torques_of_the_whole_one_standing_still_there():
    """The six-axis arm stands for the industrial one of the direct-methods paper: two joints move, four are held."""
    held = {"j3": 0.4, "j4": -0.7, "j5": 0.9, "j6": 0.2}
    locked, whole = (kinematic_tree(read_urdf(di.library.six_axis_urdf()), lock=it) for it in (held, {}))
    for seed in range(5):
        moving = random_motion(locked, seed)
        everywhere = np.zeros((3, 6))
        everywhere[:, :2], everywhere[0, 2:] = moving, list(held.values())
        two, six = (np.array(functions(tree)(*motion, tree.inertial)[0]).ravel()
                    for tree, motion in ((locked, moving), (whole, everywhere)))
        assert two == pytest.approx(six[:2], rel=1e-11, abs=1e-11)
