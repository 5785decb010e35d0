"""PROBLEM -> ESTIMATE: what all methods share, and the direct ones; presets.py is the map of them."""
