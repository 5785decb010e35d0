"""Ready models: friction laws, and the machines that examples and tests speak about."""

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
    "belt_drive",
    "coulomb",
    "mass_spring_damper",
    "pendulum",
    "servo_axis",
    "stribeck",
    "two_link_robot",
    "two_mass",
    "viscous",
]
