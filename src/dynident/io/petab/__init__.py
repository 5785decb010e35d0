"""PEtab: parameter estimation problems of systems biology, with models in SBML."""
