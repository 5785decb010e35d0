"""WHICH EXPERIMENT NEXT: signals, criteria, limits, and the search for an input."""
