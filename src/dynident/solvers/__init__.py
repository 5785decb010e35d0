"""FINITELY MANY UNKNOWNS -> NUMBERS: the solvers, and the linear algebra along time that they share."""
