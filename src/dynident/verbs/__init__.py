"""THE VERBS: what is asked of a problem, each in a file of its name."""
