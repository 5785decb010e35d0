"""Kalman filters: parameters as states that stand still, estimated sample by sample."""
