"""FAMILY: least squares on what can only be simulated."""
