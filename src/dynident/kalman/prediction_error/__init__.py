"""Prediction error: parameters and noises by the likelihood of the innovations, parameters as constants."""
