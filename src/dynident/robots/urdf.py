"""URDF: what does a robot's description say, and what is wrong with it?

A reader of our own: standard library only, no meshes, no network, nothing is run. What dynamics do not need (visuals,
collisions, transmissions, plugins) is not looked at.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree as xml

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.tolerances import ZERO_AXIS

MOST_BYTES = 20_000_000  # meshes are files of their own; a description that is longer is none
MOST_LINKS = 1_000  # and as many joints: each link of a tree hangs on one
ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii", "utf-16", "iso-8859-1", "latin-1", "latin1")
MOVING = ("revolute", "continuous", "prismatic")
TRIANGLE_SLACK = 1e-6  # relative; principal moments of real bodies obey a + b >= c, and files round
UNIT_SLACK = 1e-3  # of an axis' length; files round directions
LARGE_RADIUS = 10.0  # m, of gyration; a link that is larger has its inertia in other units

Vector = tuple[float, ...]  # three of them


@dataclass(frozen=True)
class Inertial:
    """Mass, centre of mass and the inertia about it, along axes that `rpy` turns against those of the link."""

    mass: float
    xyz: Vector
    rpy: Vector
    inertia: tuple[float, ...]  # ixx, ixy, ixz, iyy, iyz, izz


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another one: position = multiplier * position of `joint` + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True)
class UrdfJoint:
    """One joint as the file says it; limits are infinite where it says none."""

    name: str
    kind: str  # revolute, continuous, prismatic or fixed
    parent: str
    child: str
    xyz: Vector
    rpy: Vector
    axis: Vector
    lower: float
    upper: float
    velocity: float
    effort: float
    damping: float
    friction: float
    mimic: Mimic | None


@dataclass(frozen=True)
class Urdf:
    """Links and joints of a robot, checked to form one tree."""

    name: str
    source: str  # the file, for messages
    text: str
    links: dict[str, Inertial | None]
    joints: tuple[UrdfJoint, ...]
    notes: tuple[str, ...]  # what is odd and can be lived with, each a sentence

    @property
    def root(self) -> str:
        children = {joint.child for joint in self.joints}
        return next(link for link in self.links if link not in children)


def read_urdf(given: str | Path) -> Urdf:
    """A robot from a file, or from the text of one."""
    if not isinstance(given, (str, Path)) or not str(given).strip("."):
        raise ProblemError(f"A robot is read from the path of a URDF or from its text, not from {given!r}.")
    if isinstance(given, str) and given.lstrip("\ufeff \t\r\n").startswith("<"):
        return _robot("the URDF", given.encode())
    path = Path(given)
    if path.suffix == ".xacro":
        raise NotSupported(f"{path} is a xacro file, a program that writes a URDF. {EXPAND.format(file=path.name)}")
    try:
        if not path.is_file():
            raise ProblemError(f"{path} is no file." if path.exists() else f"{path} does not exist.")
        with path.open("rb") as file:
            return _robot(path.name, file.read(MOST_BYTES + 1))
    except (OSError, ValueError) as error:
        raise ProblemError(f"{str(path)[:200]!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


EXPAND = "Expand it first: `xacro {file} > robot.urdf`."


def _robot(source: str, data: bytes) -> Urdf:
    if len(data) > MOST_BYTES:
        raise ProblemError(f"{source} has more than {MOST_BYTES:,} bytes; a URDF that long is refused.")
    root = _parse(source, data)
    if root.tag != "robot":
        sdf = " This looks like SDF; convert it to URDF." if root.tag == "sdf" else ""
        raise ProblemError(f"{source}: the first element is <{_local(root.tag)}>, not <robot>; this is not a URDF.{sdf}")
    macros = sorted({_local(e.tag) for e in root.iter() if isinstance(e.tag, str) and "xacro}" in e.tag})
    written = (text for e in root.iter() for text in (e.text or "", *e.attrib.values()))
    if macros or any("${" in text for text in written):
        named = f" (<xacro:{macros[0]}>)" if macros else " (${...})"
        raise NotSupported(f"{source} still holds xacro{named}. {EXPAND.format(file=source)}")
    elements = {tag: root.findall(tag) for tag in ("link", "joint")}
    for tag, found in elements.items():
        if len(found) > MOST_LINKS:
            raise ProblemError(f"{source} has {len(found)} {tag}s; more than {MOST_LINKS} are refused.")
    faults, notes = _loops_outside(source, root), list[str]()
    links = _links(source, elements["link"], faults)
    joints = tuple(_joint(source, element, faults, notes) for element in elements["joint"])
    if not faults:
        faults += _tree_faults(source, links, joints)
    if faults:
        raise ProblemError(faults)
    joints = tuple(_led_by_mover(joint, {j.name: j for j in joints}) for joint in joints)
    for name, inertial in links.items():
        notes += [] if inertial is None else _inertia_notes(source, name, inertial)
    return Urdf(root.get("name", ""), source, data.decode(_encoding(data), errors="replace"), links, joints, tuple(notes))


# XML without harm


def _parse(source: str, data: bytes) -> xml.Element:
    head = data.replace(b"\0", b"")  # an entity hides in UTF-16 as well
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        raise ProblemError(f"{source} declares XML entities, which no URDF needs; it is refused.")
    if _encoding(data).lower() not in ENCODINGS:
        raise ProblemError(f"{source} is not XML in UTF-8, UTF-16, Latin-1 or ASCII; it is refused.")
    try:
        return xml.fromstring(data)
    except (xml.ParseError, ValueError, LookupError) as error:
        raise ProblemError(f"{source} is not well-formed XML: {error}.") from None


def _encoding(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    declared = re.match(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]*encoding\s*=\s*[\"']([^\"']*)[\"']", data)
    return declared.group(1).decode("latin-1") if declared else "utf-8"


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


# elements


def _numbers(where: str, element: xml.Element | None, key: str, usual: str, faults: list[str]) -> tuple[float, ...]:
    """So many finite numbers as `usual` has; those where the attribute is missing."""
    text = usual if element is None else element.get(key, usual)
    try:
        values = tuple(float(word) for word in text.split())
        good = len(values) == len(usual.split()) and all(math.isfinite(v) for v in values)
    except ValueError:
        good = False
    if good:
        return values
    count = len(usual.split())
    faults.append(f"{where}: {key}=\"{text}\" is not {'a finite number' if count == 1 else f'{count} finite numbers'}.")
    return tuple(float(word) for word in usual.split())


def _one(where: str, element: xml.Element | None, key: str, usual: str, faults: list[str]) -> float:
    return _numbers(where, element, key, usual, faults)[0]


def _loops_outside(source: str, root: xml.Element) -> list[str]:
    """Joints that close a loop where URDF itself has no word for it: dynamics of the tree alone would be another robot's."""
    found = [e for e in root.iter() if isinstance(e.tag, str) and _local(e.tag) == "loop_joint"]
    found += [e for simulator in root.findall("gazebo") for e in simulator.iter("joint") if e.find("child") is not None]
    return [f"{source}: <{_local(e.tag)}> '{e.get('name', '')}' closes a loop. Only trees are taken; delete it to take "
            "the tree without it." for e in found]


def _only(where: str, element: xml.Element, tag: str, faults: list[str]) -> xml.Element | None:
    """The child of that name, of which there may be one."""
    found = element.findall(tag)
    if len(found) > 1:
        faults.append(f"{where} holds {len(found)} <{tag}>; which one counts? Keep one.")
    return found[0] if found else None


def _links(source: str, elements: list[xml.Element], faults: list[str]) -> dict[str, Inertial | None]:
    if not elements:
        faults.append(f"{source} holds no link.")
    names = [element.get("name", "") for element in elements]
    faults += [f"{source}: a link has no name."] * ("" in names)
    faults += [f"{source}: {count} links are called '{name}'." for name, count in Counter(names).items() if count > 1]
    return {name: _inertial(f"{source}, link '{name}'", element, faults)
            for name, element in zip(names, elements, strict=True)}


def _inertial(where: str, link: xml.Element, faults: list[str]) -> Inertial | None:
    element = _only(where, link, "inertial", faults)
    if element is None:
        return None
    origin, weight, inertia = (_only(where, element, tag, faults) for tag in ("origin", "mass", "inertia"))
    if weight is None or inertia is None:
        faults.append(f"{where}: its <inertial> lacks <mass> or <inertia>; give both, or none for a massless frame.")
        return None
    missing = [f"{key} of <{e.tag}>" for e, keys in ((weight, ("value",)), (inertia, ("ixx", "iyy", "izz"))) for key in keys
               if e.get(key) is None]
    if missing:
        faults.append(f"{where}: {', '.join(missing)} is not said; write 0 where it is none.")
    mass = _one(where, weight, "value", "0", faults)
    moments = tuple(_one(where, inertia, key, "0", faults) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    if mass < 0:
        faults.append(f"{where}: its mass is {mass:g} kg; a mass is not negative.")
    return Inertial(mass, _numbers(where, origin, "xyz", "0 0 0", faults), _numbers(where, origin, "rpy", "0 0 0", faults),
                    moments)


def _joint(source: str, element: xml.Element, faults: list[str], notes: list[str]) -> UrdfJoint:
    name, kind = element.get("name", ""), element.get("type", "")
    where = f"{source}, joint '{name}'"
    faults += [f"{source}: a joint has no name."] * (not name)
    if kind not in (*MOVING, "fixed"):
        way = (" A robot whose base floats has no arm's dynamics; fix the base." if kind == "floating" else
               " Replace it by two prismatic joints and a revolute one." if kind == "planar" else did_you_mean(kind, MOVING))
        faults.append(f"{where}: its type is '{kind}'; revolute, continuous, prismatic and fixed are known.{way}")
    ends = []
    for end in ("parent", "child"):
        found = _only(where, element, end, faults)
        ends.append("" if found is None else found.get("link", ""))
        faults += [f"{where} names no {end} link."] * (not ends[-1])
    origin, limit, dynamics, axis, mimic = (_only(where, element, tag, faults)
                                            for tag in ("origin", "limit", "dynamics", "axis", "mimic"))
    unlimited = kind == "continuous" or limit is None
    lower, upper = ((-math.inf, math.inf) if unlimited else
                    tuple(_one(where, limit, key, "0", faults) for key in ("lower", "upper")))
    if lower > upper:
        faults.append(f"{where}: its lower limit {lower:g} is above its upper limit {upper:g}; exchange them.")
    damping, friction = (_one(where, dynamics, key, "0", faults) for key in ("damping", "friction"))
    notes += [f"{where}: its {key} is {value:g}; friction that drives a joint is none." for key, value in
              (("damping", damping), ("friction", friction)) if value < 0]
    return UrdfJoint(
        name, kind, ends[0], ends[1], _numbers(where, origin, "xyz", "0 0 0", faults),
        _numbers(where, origin, "rpy", "0 0 0", faults), _axis(where, kind, axis, faults, notes), lower, upper,
        _limit(where, limit, "velocity", faults), _limit(where, limit, "effort", faults), damping, friction,
        _mimic(where, mimic, faults))


def _axis(where: str, kind: str, element: xml.Element | None, faults: list[str], notes: list[str]) -> Vector:
    """Of length one: an axis is a direction, whatever its length in the file."""
    axis = _numbers(where, element, "xyz", "1 0 0", faults)
    length = math.hypot(*axis)
    if kind in MOVING:
        if length < ZERO_AXIS:
            faults.append(f"{where}: its axis is zero; give a direction.")
        elif abs(length - 1) > UNIT_SLACK:
            notes.append(f"{where}: its axis has length {length:.4g} and is taken as a direction of length 1.")
        if element is None:
            notes.append(f"{where} names no axis; that of URDF's standard is taken, 1 0 0.")
    return tuple(a / (length or 1.0) for a in axis)


def _limit(where: str, limit: xml.Element | None, key: str, faults: list[str]) -> float:
    """Files write 0 for 'not said' as often as they leave it out."""
    value = math.inf if limit is None or limit.get(key) is None else _one(where, limit, key, "0", faults)
    if value < 0:
        faults.append(f"{where}: its limit of {key} is {value:g}; a limit is positive, or left out.")
    return value if value > 0 else math.inf


def _mimic(where: str, element: xml.Element | None, faults: list[str]) -> Mimic | None:
    if element is None:
        return None
    return Mimic(element.get("joint", ""), _one(where, element, "multiplier", "1", faults),
                 _one(where, element, "offset", "0", faults))


# does it hang together


def _tree_faults(source: str, links: dict[str, Inertial | None], joints: tuple[UrdfJoint, ...]) -> list[str]:
    faults = [f"{source}: {count} joints are called '{name}'." for name, count in Counter(j.name for j in joints).items()
              if count > 1]
    for joint in joints:
        faults += [f"{source}, joint '{joint.name}': there is no link '{link}'.{did_you_mean(link, links)}"
                   for link in (joint.parent, joint.child) if link not in links]
    for link, count in Counter(j.child for j in joints).items():
        if count > 1:
            named = " and ".join(f"'{j.name}'" for j in joints if j.child == link)
            faults.append(f"{source}: link '{link}' hangs on {count} joints ({named}): a closed loop. Only trees are taken; "
                          "open the loop at one of these joints.")
    faults += [f"{source}, joint '{joint.name}' leads from link '{joint.child}' to itself; name another parent."
               for joint in joints if joint.parent == joint.child]
    roots = [link for link in links if all(j.child != link for j in joints)]
    if not faults and not roots:
        faults.append(f"{source}: every link hangs on another one, in a closed loop. Only trees are taken; open it somewhere.")
    if not faults and (len(roots) > 1 or len(_reached(roots[0], joints)) < len(links)):
        lost = sorted(set(links) - _reached(roots[0], joints))
        ring = [f"'{j.name}'" for j in joints if len(roots) == 1 and j.child in lost]
        faults.append(f"{source}: the joints {' and '.join(ring[:5])} hang on each other, in a closed loop that nothing "
                      "holds. Only trees are taken; let one of their links hang on the rest of the arm." if ring else
                      f"{source}: no joint leads from '{roots[0]}' to {', '.join(repr(n) for n in lost[:5])}; connect "
                      "them, with a fixed joint where nothing moves.")
    return faults + [fault for joint in joints for fault in _mimic_faults(source, joint, {j.name: j for j in joints})]


def _mimic_faults(source: str, joint: UrdfJoint, joints: dict[str, UrdfJoint]) -> list[str]:
    if joint.mimic is None:
        return []
    where = f"{source}, joint '{joint.name}'"
    if not joint.mimic.joint:
        return [f"{where}: its <mimic> names no joint; say which one it follows, as in <mimic joint=\"NAME\"/>."]
    leader = joints.get(joint.mimic.joint)
    if leader is None:
        return [f"{where} mimics '{joint.mimic.joint}', which does not exist.{did_you_mean(joint.mimic.joint, joints)}"]
    if leader.kind not in MOVING:
        return [f"{where} mimics '{leader.name}', which is fixed; name a joint that moves, or make this one fixed too."]
    followed = [joint.name]
    while joint.mimic is not None and joint.mimic.joint in joints:
        followed.append(joint.mimic.joint)
        joint = joints[joint.mimic.joint]
        if followed.count(joint.name) > 1:
            return [f"{where} mimics in a circle ({' follows '.join(followed)}), so none of these moves on its own; remove one "
                    "<mimic>."]
    return []


def _led_by_mover(joint: UrdfJoint, joints: Mapping[str, UrdfJoint]) -> UrdfJoint:
    """A joint that follows a follower follows whom that one follows."""
    while joint.mimic is not None and (above := joints[joint.mimic.joint].mimic) is not None:
        own = joint.mimic
        joint = replace(joint, mimic=Mimic(above.joint, own.multiplier * above.multiplier,
                                           own.multiplier * above.offset + own.offset))
    return joint


def _reached(root: str, joints: tuple[UrdfJoint, ...]) -> set[str]:
    reached, ahead = {root}, [root]
    while ahead:
        link = ahead.pop()
        for joint in joints:
            if joint.parent == link and joint.child not in reached:
                reached.add(joint.child)
                ahead.append(joint.child)
    return reached


def _inertia_notes(source: str, name: str, inertial: Inertial) -> list[str]:
    """What no real body has, and dynamics can still be computed with."""
    import numpy as np

    ixx, ixy, ixz, iyy, iyz, izz = inertial.inertia
    moments = np.linalg.eigvalsh([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])
    where = f"{source}, link '{name}'"
    if inertial.mass == 0 and np.any(moments):
        return [f"{where} has inertia and no mass, which no body has."]
    if inertial.mass > 0 and not np.any(moments):
        return [f"{where} has mass and no inertia: it is taken as a point."]
    if inertial.mass > 0 and (radius := float(np.sqrt(np.max(np.abs(moments)) / inertial.mass))) > LARGE_RADIUS:
        return [f"{where} has a radius of gyration of {radius:.3g} m; is its inertia in kg m^2?"]
    if moments[0] < -TRIANGLE_SLACK * moments[2] or moments[0] + moments[1] < moments[2] * (1 - TRIANGLE_SLACK):
        return [f"{where} has an inertia that no body has (principal moments {moments[0]:.3g}, {moments[1]:.3g}, "
                f"{moments[2]:.3g} kg m^2)."]
    return []
