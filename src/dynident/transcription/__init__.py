"""TIME -> FINITE PROBLEM: shooting, full discretization, simulation."""
