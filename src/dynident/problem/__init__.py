"""WHAT IS ASKED: model, experiments, noise, parameters, and the problem that holds them."""
