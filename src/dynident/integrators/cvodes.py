"""CVODES: variable step and order (SUNDIALS, through CasADi), with sensitivities; the check, and for stiff models."""

from dynident.integrators.scheme import Adaptive

CVODES = Adaptive("cvodes", "cvodes", summary="chooses its own steps; hundreds of times slower where inputs jump")
