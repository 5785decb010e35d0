"""What every room may use: atomic writes, locks, JSON, progress."""
