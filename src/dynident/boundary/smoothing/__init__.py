"""The augmented state as a boundary value problem: estimates under a model that is not quite right."""
