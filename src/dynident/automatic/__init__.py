"""Automatic: the ladder that `identify` climbs where no method is named; above the families, because it uses them."""
