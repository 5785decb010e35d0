"""Ready models: friction laws, and the machines that examples and tests speak about.

See the manual, reference/models.

Examples
--------
>>> import dynident as di
>>> di.library.servo_axis(friction=di.library.viscous() + di.library.coulomb(v_smooth=0.005)).parameters
('M', 'Fv', 'Fc', 'offset')
"""

from dynident.models.library.arms import six_axis_urdf, two_link_urdf
from dynident.models.library.friction import FrictionLaw, coulomb, stribeck, viscous
from dynident.models.library.machines import (
    TYPICAL,
    belt_drive,
    mass_spring_damper,
    pendulum,
    servo_axis,
    two_link_robot,
    two_mass,
)

__all__ = [
    "TYPICAL",
    "FrictionLaw",
    "belt_drive",
    "coulomb",
    "mass_spring_damper",
    "pendulum",
    "servo_axis",
    "six_axis_urdf",
    "stribeck",
    "two_link_robot",
    "two_link_urdf",
    "two_mass",
    "viscous",
]
