"""Models from other tools: FMUs (FMI 2.0 and 3.0, Co-Simulation and Model Exchange)."""
