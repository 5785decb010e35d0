"""What does the reader of URDF take, what does it refuse, and in which words?"""

import os
import time

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
    (robot(joint(more='<mimic joint="j"/>')), "does not move on its own"),
    (robot(joint("j"), joint("j", "b", "c"), links=("a", "b", "c")), "2 joints are called 'j'"),
    (robot(joint(), links=("a", "b", "b")), "2 links are called 'b'"),
    (robot(joint(), body="<inertial><mass value='1'/></inertial>"), "lacks <mass> or <inertia>"),
    (robot(joint(), body=BODY.replace('value="1"', 'value="-1"')), "a mass is not negative"),
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


def test_an_inertia_that_no_body_has_is_noted():
    notes = read_urdf(robot(joint(), body=BODY.replace('ixx="1"', 'ixx="3"'))).notes
    assert len(notes) == 2 and "that no body has" in notes[0]


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
