"""Toy command: `dynident count FILE`."""

from __future__ import annotations

import typer


def run(path: str) -> None:
    """Count the samples of a record."""
    from dynident.io.readers.tables import read_table

    typer.echo(f"{read_table(path, time='t', outputs=['y']).samples} samples")
