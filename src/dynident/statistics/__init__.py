"""POINT -> WHAT IT IS WORTH: intervals, identifiability, diagnostics."""
