"""Ready models: friction laws, and the machines that examples and tests speak about."""

from dynident.models.library.delta_robot import delta_robot
from dynident.models.library.drive_train import RigRecord, RigTruth, drive_train, drive_train_record, driving_cycles
from dynident.models.library.friction import FrictionLaw, coulomb, stribeck, viscous
from dynident.models.library.machines import (
    TYPICAL,
    belt_drive,
    mass_spring_damper,
    pendulum,
    servo_axis,
    two_mass,
)
from dynident.models.library.robot import two_link_robot

__all__ = [
    "TYPICAL",
    "FrictionLaw",
    "RigRecord",
    "RigTruth",
    "belt_drive",
    "coulomb",
    "delta_robot",
    "drive_train",
    "drive_train_record",
    "driving_cycles",
    "mass_spring_damper",
    "pendulum",
    "servo_axis",
    "stribeck",
    "two_link_robot",
    "two_mass",
    "viscous",
]
