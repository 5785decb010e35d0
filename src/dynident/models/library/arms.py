"""Arms: small robot descriptions (URDF) of our own, for examples and studies."""

from __future__ import annotations

from collections.abc import Sequence


def two_link_urdf(m1: float = 6.0, m2: float = 3.0, centre1: Sequence[float] = (0.02, 0.01, 0.1),
                  centre2: Sequence[float] = (0.03, 0.02, 0.25), inertia1: Sequence[float] = (0.05, 0.05, 0.03),
                  inertia2: Sequence[float] = (0.06, 0.055, 0.008)) -> str:
    """The two-link robot of the direct-methods paper: link 1 turns about the vertical, link 2 about the y axis of link 1.

    >>> import dynident as di
    >>> di.library.two_link_urdf().count("<joint")
    2
    """
    links = [_link("base", None), _link("turret", (m1, centre1, inertia1)), _link("arm", (m2, centre2, inertia2))]
    joints = [_joint("turn", "base", "turret", "0 0 0", "0 0 0", "0 0 1", 3.0, 4.0, 60.0),
              _joint("tilt", "turret", "arm", "0 0 0", "0 0 0", "0 1 0", 2.0, 4.0, 40.0)]
    return _robot("two_link", links, joints)


def six_axis_urdf() -> str:
    """An industrial arm with six axes, 0.9 m of reach and invented inertias that real bodies could have.

    >>> import dynident as di
    >>> di.RobotModel(di.library.six_axis_urdf()).joints
    ('j1', 'j2', 'j3', 'j4', 'j5', 'j6')
    """
    bodies = {"base": (12.0, (0, 0, 0.1), (0.1, 0.1, 0.1)), "shoulder": (14.0, (0.02, -0.03, 0.05), (0.09, 0.08, 0.07)),
              "upper_arm": (11.0, (0.19, 0.01, 0.09), (0.04, 0.33, 0.32)),
              "elbow": (5.5, (0.03, 0.05, 0.02), (0.03, 0.02, 0.025)),
              "forearm": (4.0, (-0.01, 0.01, 0.16), (0.03, 0.03, 0.006)),
              "wrist": (1.6, (0.0, 0.02, 0.01), (0.003, 0.002, 0.0025)),
              "flange": (0.7, (0.01, -0.005, 0.03), (0.0006, 0.0007, 0.0005))}
    right = 1.5707963267948966
    joints = [_joint("j1", "base", "shoulder", "0 0 0.3", "0 0 0", "0 0 1", 3.0, 3.5, 250.0),
              _joint("j2", "shoulder", "upper_arm", "0.08 0 0.05", f"{-right} 0 0", "0 0 1", 2.0, 3.0, 250.0),
              _joint("j3", "upper_arm", "elbow", "0.36 0 0", "0 0 0", "0 0 1", 2.4, 3.5, 120.0),
              _joint("j4", "elbow", "forearm", "0.07 0 0", f"{-right} 0 0", "0 0 1", 3.0, 5.0, 40.0),
              _joint("j5", "forearm", "wrist", "0 0 0.34", f"{right} 0 0", "0 0 1", 2.1, 5.0, 40.0),
              _joint("j6", "wrist", "flange", "0 0.08 0", f"{-right} 0 0", "0 0 1", 3.0, 7.0, 20.0)]
    return _robot("six_axis", [_link(name, body) for name, body in bodies.items()], joints)


def _robot(name: str, links: Sequence[str], joints: Sequence[str]) -> str:
    return "\n".join([f'<robot name="{name}">', *links, *joints, "</robot>\n"])


def _link(name: str, body: tuple[float, Sequence[float], Sequence[float]] | None) -> str:
    if body is None:
        return f'  <link name="{name}"/>'
    mass, centre, (x, y, z) = body
    return (f'  <link name="{name}"><inertial><origin xyz="{_words(centre)}"/><mass value="{mass!r}"/>'
            f'<inertia ixx="{x!r}" iyy="{y!r}" izz="{z!r}" ixy="0" ixz="0" iyz="0"/></inertial></link>')


def _joint(name: str, parent: str, child: str, xyz: str, rpy: str, axis: str, range_: float, velocity: float, effort: float
           ) -> str:
    return (f'  <joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>'
            f'<limit lower="{-range_}" upper="{range_}" velocity="{velocity}" effort="{effort}"/></joint>')


def _words(values: Sequence[float]) -> str:
    return " ".join(repr(float(v)) for v in values)
