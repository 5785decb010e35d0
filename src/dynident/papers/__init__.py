"""Papers: rigs and variants as published, and every item redone; the core imports none, but finds variants by name.

`registry` lists the items of all papers, `run_item` computes them, `page` shows them, `misprints` says what to read past in
the texts. Each other file names its paper first: rigs (`robot_study`, `drive_train`, `delta_robot`, `flexible_rotor`,
`belt_drive_rig`, `belt_drive_study`), printed variants (`union_of_modes`, `leapfrog_printed`) and families of items.
"""
