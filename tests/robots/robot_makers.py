"""Robots for tests: random trees with all kinds of joints, as URDF text."""

import numpy as np

KINDS = ("revolute", "continuous", "prismatic", "fixed")


def random_robot(seed, joints=8, mimic=True, branches=True):
    """A tree with physical inertias, slanted frames and axes, and joints of all kinds."""
    rng = np.random.default_rng(seed)
    kinds = ["revolute", "prismatic", "revolute", *rng.choice(KINDS, joints - 3)]
    links, parts = [_link("link0", rng)], []
    movers = []
    for k, kind in enumerate(kinds, 1):
        parent = int(rng.integers(0, k)) if branches else k - 1
        follows = ""
        if mimic and kind in ("revolute", "prismatic") and len(movers) > 2 and rng.random() < 0.4:
            follows = f'<mimic joint="{movers[0]}" multiplier="{rng.normal():.3f}" offset="{rng.normal():.3f}"/>'
        elif kind != "fixed":
            movers.append(f"joint{k}")
        limit = '<limit lower="-2" upper="2" velocity="3" effort="100"/>' if kind in ("revolute", "prismatic") else ""
        links.append(_link(f"link{k}", rng))
        parts.append(f'<joint name="joint{k}" type="{kind}"><parent link="link{parent}"/><child link="link{k}"/>'
                     f'<origin xyz="{_words(rng.normal(0, 0.3, 3))}" rpy="{_words(rng.uniform(-3, 3, 3))}"/>'
                     f'<axis xyz="{_words(rng.normal(size=3))}"/>{limit}{follows}</joint>')
    return "\n".join(['<robot name="random">', *links, *parts, "</robot>"])


def _link(name, rng):
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    spread = rng.uniform(0.01, 0.2, 3)  # second moments of a body: any positive ones give an inertia
    inertia = turned @ np.diag([spread[1] + spread[2], spread[0] + spread[2], spread[0] + spread[1]]) @ turned.T
    entries = {"ixx": inertia[0, 0], "ixy": inertia[0, 1], "ixz": inertia[0, 2], "iyy": inertia[1, 1], "iyz": inertia[1, 2],
               "izz": inertia[2, 2]}
    moments = " ".join(f'{key}="{value!r}"' for key, value in ((k, float(v)) for k, v in entries.items()))
    return (f'<link name="{name}"><inertial><origin xyz="{_words(rng.normal(0, 0.2, 3))}" rpy="{_words(rng.normal(size=3))}"/>'
            f'<mass value="{rng.uniform(0.5, 5)!r}"/><inertia {moments}/></inertial></link>')


def _words(values):
    return " ".join(repr(float(v)) for v in values)
