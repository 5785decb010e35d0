"""A RATE AND CONDITIONS AT BOTH ENDS -> A SOLUTION: two-point boundary value problems."""
