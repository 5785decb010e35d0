"""Problem files: TOML in and out, checked."""
