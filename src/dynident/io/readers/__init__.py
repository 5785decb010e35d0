"""Records: from files to experiments."""
