"""Inverse dynamics: a robot's parameters from torques that are linear in them."""
