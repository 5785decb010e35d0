"""Saved results: a folder out, an estimate in."""
