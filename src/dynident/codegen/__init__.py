"""The one door from expressions to fast code."""
