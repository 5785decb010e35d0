"""PROBLEM -> ESTIMATE: the methods; presets.py is the map of them."""
