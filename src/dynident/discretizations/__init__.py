"""TIME -> FINITELY MANY UNKNOWNS: what remains to be solved once time is gone."""
