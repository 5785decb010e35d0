"""Export of models with equations as FMUs."""

from dynident.fmu.export.build import PLATFORMS, export_fmu

__all__ = ["PLATFORMS", "export_fmu"]
