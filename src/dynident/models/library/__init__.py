"""Ready models: machines, circuits, processes and friction laws, with plausible values and an example record each.

See the manual, reference/models.

Examples
--------
>>> import dynident as di
>>> di.library.servo_axis(friction=di.library.viscous() + di.library.coulomb(v_smooth=0.005)).parameters
('M', 'Fv', 'Fc', 'offset')
"""

from dynident.models.library.arms import six_axis_urdf, two_link_urdf
from dynident.models.library.example_records import (
    EXAMPLES,
    ExampleExperiment,
    example_record,
    example_values,
)
from dynident.models.library.friction import FrictionLaw, coulomb, stribeck, viscous
from dynident.models.library.machines import (
    TYPICAL,
    belt_drive,
    cart_pendulum,
    dc_motor,
    duffing,
    mass_spring_damper,
    pendulum,
    quarter_car,
    servo_axis,
    two_link_robot,
    two_mass,
    vehicle,
)
from dynident.models.library.processes import (
    batch_reactor,
    battery,
    bioreactor,
    buck_converter,
    building,
    consecutive_reactions,
    dead_time_process,
    drug_absorption,
    epidemic,
    heated_room,
    logistic_growth,
    michaelis_menten,
    predator_prey,
    rc_circuit,
    rlc_circuit,
    tank,
    two_tanks,
)

__all__ = [
    "EXAMPLES",
    "TYPICAL",
    "ExampleExperiment",
    "FrictionLaw",
    "batch_reactor",
    "battery",
    "belt_drive",
    "bioreactor",
    "buck_converter",
    "building",
    "cart_pendulum",
    "consecutive_reactions",
    "coulomb",
    "dc_motor",
    "dead_time_process",
    "drug_absorption",
    "duffing",
    "epidemic",
    "example_record",
    "example_values",
    "heated_room",
    "logistic_growth",
    "mass_spring_damper",
    "michaelis_menten",
    "pendulum",
    "predator_prey",
    "quarter_car",
    "rc_circuit",
    "rlc_circuit",
    "servo_axis",
    "six_axis_urdf",
    "stribeck",
    "tank",
    "two_link_robot",
    "two_link_urdf",
    "two_mass",
    "two_tanks",
    "vehicle",
    "viscous",
]
