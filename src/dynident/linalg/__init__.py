"""STRUCTURED LEAST SQUARES: along time, between experiments, within bounds."""
