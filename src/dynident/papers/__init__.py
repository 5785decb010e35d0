"""Papers: rigs and variants as published, each file naming its paper; the core imports none, but finds variants by name.

Numbers as in docs/papers.md. The interval paper: `drive_train`, `union_of_modes`. The FMU paper: `delta_robot`. The
filter paper: `belt_drive_rig`, `leapfrog_printed`.
"""
