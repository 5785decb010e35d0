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

__all__ = ["TYPICAL", "FrictionLaw", "belt_drive", "coulomb", "mass_spring_damper", "pendulum", "servo_axis",
           "stribeck", "two_mass", "viscous"]
