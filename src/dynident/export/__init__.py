"""WHAT LEAVES THE TOOLKIT: results in forms that other programs run."""
