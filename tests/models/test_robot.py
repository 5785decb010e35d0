"""Does the two-link robot obey mechanics, derived again in a frame that does not turn?"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from dynident.models.library import TYPICAL, two_link_robot

GRAVITY = 9.81
TINY = 1e-30  # of a complex step: derivatives exact to rounding
MODEL = two_link_robot(GRAVITY)


def some_values(seed: int) -> dict[str, float]:
    """Table II moved about, so that no centre of mass lies on an axis."""
    rng = np.random.default_rng(seed)
    return {name: value * rng.uniform(0.5, 2) if value else rng.uniform(-0.2, 0.2)
            for name, value in TYPICAL["two_link_robot"].items()}


def rate(x, current, values):
    return np.array(MODEL.rate(0.0, x, current, [values[name] for name in MODEL.parameters])).ravel()


def rotations(q):
    """Axes of both links as seen from the base."""
    (c1, s1), (c2, s2) = [(np.cos(a), np.sin(a)) for a in q]
    about_z = np.array([[c1, -s1, 0], [s1, c1, 0], [0, 0, 1]])
    return about_z, about_z @ np.array([[c2, 0, s2], [0, 1, 0], [-s2, 0, c2]])


def bodies(v):
    """(mass, centre of mass, moments of inertia) of both links; what has no effect is zero."""
    return ((v["m1"], np.array([v["sx1"], v["sy1"], 0]), np.array([0, 0, v["Iz1"]])),
            (v["m2"], np.array([v["sx2"], v["sy2"], v["sz2"]]), np.array([v["Ix2"], v["Iy2"], v["Iz2"]])))


def mass_matrix(q, values):
    """From the velocities of points and the spin R' dR of each link, for unit velocities of the joints."""
    total = np.zeros((2, 2), dtype=np.result_type(q, float))
    for link, (mass, centre, moments) in enumerate(bodies(values)):
        moved, spin = [], []
        for joint in range(2):
            slope = slope_of(lambda at, link=link: rotations(at)[link], q, np.eye(2)[joint])
            turn = rotations(q)[link].T @ slope
            moved.append(slope @ centre)
            spin.append(np.array([turn[2, 1], turn[0, 2], turn[1, 0]]))
        for i in range(2):
            for j in range(2):
                total[i, j] += mass * moved[i] @ moved[j] + spin[i] @ (moments * spin[j])
    return total


def slope_of(function, at, direction, step=1e-6):
    """Fourth-order central difference; works on complex arguments too."""
    return (8 * (function(at + step * direction) - function(at - step * direction))
            - (function(at + 2 * step * direction) - function(at - 2 * step * direction))) / (12 * step)


def potential(q, values):
    return sum(mass * GRAVITY * (axes @ centre)[2]
               for axes, (mass, centre, _) in zip(rotations(q), bodies(values), strict=True))


def accelerations(q, v, current, values):
    """M q'' = forces + dL/dq - (d/dt M) v, with derivatives by complex steps."""
    M = mass_matrix(q, values)
    drift = mass_matrix(q + 1j * TINY * v, values).imag / TINY
    push = [(v @ mass_matrix(q + 1j * TINY * e, values) @ v / 2 - potential(q + 1j * TINY * e, values)).imag / TINY
            for e in np.eye(2)]
    joint = [values[f"gain{i}"] * current[i - 1] - values[f"dry{i}"] * np.tanh(values[f"a{i}"] * v[i - 1])
             - values[f"viscous{i}"] * v[i - 1] for i in (1, 2)]
    return np.linalg.solve(M, np.array(joint) + push - drift @ v)


@pytest.mark.parametrize("seed", range(8))
def test_accelerations_are_those_of_a_derivation_in_the_resting_frame(seed):
    rng = np.random.default_rng(100 + seed)
    q, v, current, values = rng.uniform(-3, 3, 2), rng.uniform(-5, 5, 2), rng.uniform(-20, 20, 2), some_values(seed)
    expected = accelerations(q, v, current, values)
    # the difference quotient in mass_matrix has an error of about eps/step = 1e-10 of the entries
    np.testing.assert_allclose(rate([*q, *v], current, values)[2:], expected, rtol=1e-7, atol=1e-7)


def test_energy_is_kept_without_friction_and_current():
    values = some_values(3) | {"dry1": 0.0, "dry2": 0.0, "viscous1": 0.0, "viscous2": 0.0}
    out = solve_ivp(lambda t, x: rate(x, [0, 0], values), (0, 5), [0.3, 0.4, 1.0, -0.5], method="DOP853", rtol=1e-11,
                    atol=1e-11)
    energy = [x[2:] @ mass_matrix(x[:2], values) @ x[2:] / 2 + potential(x[:2], values) for x in out.y.T]
    assert np.ptp(out.y[1]) > 1  # it did swing
    np.testing.assert_allclose(energy, energy[0], rtol=1e-7)


def test_friction_takes_energy_whatever_the_motion():
    values = some_values(4)
    rng = np.random.default_rng(6)
    for _ in range(20):
        q, v = rng.uniform(-3, 3, 2), rng.uniform(-5, 5, 2)
        free = values | {"dry1": 0.0, "dry2": 0.0, "viscous1": 0.0, "viscous2": 0.0}
        slower = rate([*q, *v], [0, 0], values)[2:] - rate([*q, *v], [0, 0], free)[2:]
        assert v @ mass_matrix(q, values) @ slower < 0


def test_mass_matrix_is_symmetric_and_positive():
    rng = np.random.default_rng(7)
    for seed in range(20):
        values = some_values(seed)
        x = rng.uniform(-3, 3, 4)
        rest = rate(x, [0, 0], values)
        answer = [(rate(x, e, values) - rest)[2:] / values[f"gain{i + 1}"] for i, e in enumerate(np.eye(2))]
        inverse = np.array(answer).T
        np.testing.assert_allclose(inverse, inverse.T, rtol=1e-6, atol=1e-9 * np.max(np.abs(inverse)))
        assert np.all(np.linalg.eigvalsh((inverse + inverse.T) / 2) > 0)


def test_upright_is_an_unstable_rest_and_hanging_a_stable_one():
    values = dict(TYPICAL["two_link_robot"])
    for angle, sign in ((0.0, 1), (np.pi, -1)):
        at = rate([0.7, angle, 0, 0], [0, 0], values)
        np.testing.assert_allclose(at, 0, atol=1e-12)
        moved = rate([0.7, angle + 1e-3, 0, 0], [0, 0], values)[3]
        assert np.sign(moved) == sign


def test_of_link_1_only_the_moment_about_the_joint_matters():
    values = some_values(5)
    moment = values["Iz1"] + values["m1"] * (values["sx1"]**2 + values["sy1"]**2)
    other = values | {"m1": 3.0, "sx1": 0.1, "sy1": -0.05, "Iz1": moment - 3.0 * (0.1**2 + 0.05**2)}
    x = [0.2, 0.5, 1.0, -2.0]
    np.testing.assert_allclose(rate(x, [1, 2], other), rate(x, [1, 2], values), rtol=1e-12)


def test_it_has_the_19_parameters_of_the_paper():
    assert len(MODEL.parameters) == 19
    assert MODEL.outputs == MODEL.states == ("theta1", "theta2", "omega1", "omega2")
