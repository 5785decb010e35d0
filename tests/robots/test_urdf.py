"""What does the reader of URDF take, what does it refuse, and in which words?"""

import os
import re
import time

import numpy as np
import pytest
from robot_makers import random_robot

import dynident as di
from dynident.errors import NotSupported, ProblemError
from dynident.robots.kinematic_tree import kinematic_tree
from dynident.robots.model import RobotModel
from dynident.robots.urdf import read_urdf

BODY = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def robot(*joints, links=("a", "b"), body=BODY):
    inside = "".join(f'<link name="{name}">{body}</link>' for name in links) + "".join(joints)
    return f'<robot name="r">{inside}</robot>'


def joint(name="j", parent="a", child="b", kind="revolute", more=""):
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{more}</joint>'


@pytest.mark.parametrize(("text", "said"), [
    ("<robot", "not well-formed XML"),
    ("<sdf><model/></sdf>", "looks like SDF"),
    ("<robot name='x'></robot>", "holds no link"),
    ('<!DOCTYPE r [<!ENTITY a "b">]><robot><link name="a"/></robot>', "declares XML entities"),
    ('<?xml version="1.0" encoding="utf-7"?><robot><link name="a"/></robot>', "not XML in UTF-8"),
    (robot(joint(child="c")), "there is no link 'c'"),
    (robot(joint("j"), joint("k", "c", "b"), links=("a", "b", "c")), "a closed loop"),
    (robot(joint("j"), joint("k", "b", "a")), "closed loop"),
    (robot(joint(), links=("a", "b", "c")), "no joint leads from 'a' to 'c'"),
    (robot(joint(kind="floating")), "fix the base"),
    (robot(joint(kind="planar")), "two prismatic joints"),
    (robot(joint(kind="revolut")), "Did you mean 'revolute'"),
    (robot(joint(more='<axis xyz="0 0 0"/>')), "its axis is zero"),
    (robot(joint(more='<axis xyz="0 zero 1"/>')), "is not 3 finite numbers"),
    (robot(joint(more='<origin xyz="nan 0 0"/>')), "is not 3 finite numbers"),
    (robot(joint(more='<mimic joint="x"/>')), "mimics 'x', which does not exist"),
    (robot(joint(more='<mimic joint="j"/>')), "joint 'j' mimics in a circle .j follows j., so none of these moves on its own"),
    (robot(joint("j"), joint("j", "b", "c"), links=("a", "b", "c")), "2 joints are called 'j'"),
    (robot(joint(), links=("a", "b", "b")), "2 links are called 'b'"),
    (robot(joint(), body="<inertial><mass value='1'/></inertial>"), "lacks <mass> or <inertia>"),
    (robot(joint(), body=BODY.replace('value="1"', 'value="-1"')), "a mass is not negative"),
    (robot(joint(), body=BODY.replace(' value="1"', "")), "link 'a': value of <mass> is not said; write 0"),
    (robot(joint(), body=BODY.replace('ixx="1" iyy="1"', "")), "link 'b': ixx of <inertia>, iyy of <inertia> is not said"),
    (robot(joint(), body=BODY * 2), "link 'a' holds 2 <inertial>; which one counts"),
    (robot(joint(more='<axis xyz="1 0 0"/><axis xyz="0 0 1"/>')), "joint 'j' holds 2 <axis>; which one counts"),
    (robot(joint(more='<axis xyz="1 0"/>')), "joint 'j': xyz=\"1 0\" is not 3 finite numbers"),
    (robot(joint(name="")), "a joint has no name"),
    (robot(joint(more='<limit lower="2" upper="-2"/>')), "joint 'j': its lower limit 2 is above its upper limit -2; exchange"),
    (robot(joint(more='<limit lower="-2" upper="2" velocity="-3"/>')), "limit of velocity is -3; a limit is positive"),
    (robot(joint(more="<mimic/>")), "joint 'j': its <mimic> names no joint; say which one it follows"),
    (robot(joint("j", kind="fixed"), joint("k", "b", "c", more='<mimic joint="j"/>'), links=("a", "b", "c")),
     "joint 'k' mimics 'j', which is fixed; name a joint that moves"),
    (robot(joint("i"), joint("j", "b", "c", more='<mimic joint="k"/>'), joint("k", "c", "d", more='<mimic joint="j"/>'),
           links=("a", "b", "c", "d")), "joint 'j' mimics in a circle .j follows k follows j."),
    (robot(joint(), joint("k", "c", "c"), links=("a", "b", "c")), "joint 'k' leads from link 'c' to itself"),
    (robot(joint(), joint("k", "c", "d"), joint("l", "d", "c"), links=("a", "b", "c", "d")),
     "the joints 'k' and 'l' hang on each other, in a closed loop that nothing holds"),
    (robot(joint()).replace("</robot>", '<loop_joint name="rod"><link1 link="a"/></loop_joint></robot>'),
     "<loop_joint> 'rod' closes a loop. Only trees are taken; delete it"),
    (robot(joint()).replace("</robot>", f"<gazebo>{joint('rod')}</gazebo></robot>"), "<joint> 'rod' closes a loop"),
])
def test_a_bad_file_is_refused_in_a_sentence(text, said):
    with pytest.raises(ProblemError, match=said):
        read_urdf(text)


@pytest.mark.parametrize(("text", "said"), [
    ("<robot>" + "".join(f'<joint name="j{i}" type="fixed"/>' for i in range(20_000)) + '<link name="a"/></robot>',
     "20000 joints; more than 1000 are refused"),
    ("<robot>" + "<link/>" * 20_000 + "</robot>", "20000 links; more than 1000 are refused"),
    ("<robot>" + " " * 20_000_000 + "</robot>", "more than 20,000,000 bytes"),
    ("<robot>" + "${" * 1_000_000 + "</robot>", "still holds xacro"),
    ("<robot><![CDATA[" + "<!--" * 1_000_000 + "]]></robot>", "holds no link"),
    ("<robot>" + "<a>" * 100_000 + "</a>" * 100_000 + "</robot>", "holds no link"),
    ('<robot xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd"/></robot>', "holds no link"),
])
def test_a_hostile_file_is_refused_within_a_second(text, said):
    began = time.process_time()
    with pytest.raises((ProblemError, NotSupported), match=said):
        read_urdf(text)
    assert time.process_time() - began < 1.0  # each grew with the square of its size, or had no limit


@pytest.mark.parametrize(("given", "said"), [("", "not from ''"), (None, "not from None"), (b"<robot/>", "not from b"),
                                             (os.devnull, "is no file"), ("a\0b", "does not exist"), (".", "not from '.'")])
def test_what_is_no_file_is_refused(given, said):
    with pytest.raises(ProblemError, match=said):
        read_urdf(given)


@pytest.mark.parametrize("text", [
    '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="x" value="1"/><link name="a"/></robot>',
    robot(joint(more='<origin xyz="0 0 ${height}"/>'))])
def test_xacro_is_refused_with_the_way_out(text):
    with pytest.raises(NotSupported, match="Expand it first: `xacro"):
        read_urdf(text)


def test_a_xacro_file_is_refused_by_its_name(tmp_path):
    with pytest.raises(NotSupported, match=r"xacro arm.urdf.xacro > robot.urdf"):
        read_urdf(tmp_path / "arm.urdf.xacro")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ProblemError, match=r"nowhere\.urdf does not exist"):
        read_urdf(tmp_path / "nowhere.urdf")


def test_kinematics_without_inertias_are_no_model():
    with pytest.raises(ProblemError, match="kinematics only"):
        RobotModel(robot(joint(), body=""))


def test_a_tip_without_mass_is_refused():
    with pytest.raises(ProblemError, match="link 'b' ends the arm and has no mass"):
        RobotModel(robot(joint(), body=BODY.replace('mass value="1"', 'mass value="0"')))


@pytest.mark.parametrize(("text", "said"), [
    (robot(joint(), body=BODY.replace('ixx="1"', 'ixx="3"')), "link 'a' has an inertia that no body has"),
    (robot(joint(), body=BODY.replace('mass value="1"', 'mass value="0"')), "link 'b' has inertia and no mass"),
    (robot(joint(), body=BODY.replace('="1"', '="0"').replace('mass value="0"', 'mass value="1"')), "it is taken as a point"),
    (robot(joint(), body=BODY.replace('="1"', '="1e6"').replace('mass value="1e6"', 'mass value="1"')), "kg m\\^2?"),
    (robot(joint(more='<axis xyz="0 0 2"/>')), "joint 'j': its axis has length 2 and is taken as a direction"),
    (robot(joint()), "joint 'j' names no axis; that of URDF's standard is taken, 1 0 0"),
    (robot(joint(more='<axis xyz="0 0 1"/><dynamics damping="-1"/>')), "its damping is -1"),
])
def test_what_is_odd_and_can_be_lived_with_is_noted(text, said):
    assert any(re.search(said, note) for note in read_urdf(text).notes)


def test_a_clean_file_has_no_notes():
    assert read_urdf(robot(joint(more='<axis xyz="0 0.6 0.8"/>'))).notes == ()
    assert read_urdf(di.library.six_axis_urdf()).notes == ()


def test_an_axis_of_any_length_is_the_same_axis():
    far, near = (kinematic_tree(read_urdf(robot(joint(more=f'<axis xyz="{axis}"/>')))) for axis in ("0 0 -5", "0 0 -1"))
    assert far.bodies[0].axis == pytest.approx(near.bodies[0].axis, abs=0)
    assert near.bodies[0].axis == pytest.approx([0, 0, -1], abs=0)


def test_a_follower_of_a_follower_follows_the_one_that_moves():
    """k = 2 j + 1 and l = 3 k - 1, so l = 6 j + 2; the file may name them in any order."""
    third = joint("l", "c", "d", more='<axis xyz="0 0 1"/><mimic joint="k" multiplier="3" offset="-1"/>')
    second = joint("k", "b", "c", more='<axis xyz="0 0 1"/><mimic joint="j" multiplier="2" offset="1"/>')
    first = joint("j", more='<axis xyz="0 0 1"/>')
    chained = RobotModel(robot(third, second, first, links="abcd"))
    plain = RobotModel(robot(first, second, third.replace('"k" multiplier="3" offset="-1"', '"j" multiplier="6" offset="2"'),
                             links="abcd"))
    assert chained.joints == plain.joints == ("j",)
    at = [0.3], [-0.7], [1.1]
    assert np.array(chained.regressor(*at)) == pytest.approx(np.array(plain.regressor(*at)), abs=1e-12)
    locked = kinematic_tree(read_urdf(robot(first, second, third, joint("m", "d", "e"), links="abcde")), lock={"j": 0.5})
    assert [body.joint.name for body in locked.bodies] == ["m"]


def test_a_link_without_inertia_inside_of_the_arm_has_none():
    text = robot(joint(), joint("k", "b", "c", more='<origin xyz="1 0 0"/>'), links=("a", "b", "c"))
    hollow = text.replace(f'<link name="b">{BODY}</link>', '<link name="b"/>')
    assert RobotModel(hollow).tree.bodies[0].inertial == pytest.approx(0, abs=0)


def test_joints_are_numbered_along_the_chain_and_not_as_the_file_lists_them():
    text = robot(joint("far", "b", "c"), joint("near", "a", "b"), links=("a", "b", "c"))
    assert RobotModel(text).joints == ("near", "far")


def test_a_locked_joint_moves_no_more_and_its_link_stays_where_it_was_locked():
    text = robot(joint("j", more='<axis xyz="0 0 1"/>'), joint("k", "b", "c", more='<origin xyz="1 0 0"/><axis xyz="0 0 1"/>'),
                 joint("l", "c", "d", more='<origin xyz="1 0 0"/><axis xyz="0 0 1"/>'), links=("a", "b", "c", "d"))
    straight, bent = (kinematic_tree(read_urdf(text), lock={"k": angle}) for angle in (0.0, 3.141592653589793))
    assert [t.dof for t in (straight, bent)] == [2, 2]
    assert straight.bodies[1].position == pytest.approx([2, 0, 0])
    assert bent.bodies[1].position == pytest.approx([0, 0, 0], abs=1e-12)


def test_with_a_tool_only_the_way_to_it_moves():
    text = robot(joint("left", "a", "b"), joint("right", "a", "c"), links=("a", "b", "c"))
    assert RobotModel(text, tool="c").joints == ("right",)


def test_an_unknown_joint_to_lock_is_named():
    with pytest.raises(ProblemError, match=r"lock: there is no joint 'joint11'"):
        RobotModel(random_robot(1), lock=["joint11"])


def test_a_model_says_the_same_after_a_detour_through_plain_data():
    arm = RobotModel(random_robot(2), friction={"1": ["coulomb", "cubic"]}, motor_inertia=True, gravity=(0, 9.81, 0))
    again = RobotModel.from_definition(arm.definition())
    assert again.definition() == arm.definition() and again.parameters == arm.parameters


def test_friction_is_taken_from_the_file():
    arm = RobotModel(robot(joint(more='<dynamics damping="0.3" friction="2"/>')))
    assert (arm.nominal_values["Fv_1"].start, arm.nominal_values["Fc_1"].start) == (0.3, 2.0)


def test_public_name():
    assert di.RobotModel is RobotModel
