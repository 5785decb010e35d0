"""`dynident fleet`: one model, thousands of records."""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from dynident.cli.common import GOOD, INTERRUPTED, NOT_GOOD, AllowCode, AllowOutside, Stop, Strict, print_error, print_why

FleetPath = Annotated[Path, typer.Argument(metavar="FLEET.toml", help="The fleet file.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help=(
    "Where the results go, and where a run that was stopped goes on: a folder of its own."))]
Workers = Annotated[int | None, typer.Option("--workers", "-w", metavar="N", min=1, show_default=False, help=(
    "Processes on this machine; as many as it has cores unless said."))]
Dask = Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", show_default=False, help=(
    "The scheduler of a Dask cluster in the place of local processes, such as tcp://scheduler:8786."))]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Try records again that failed in an earlier run.")]


def run(fleet: FleetPath, out: Out = Path("results"), workers: Workers = None, dask: Dask = None,
        retry_failed: RetryFailed = False, strict: Strict = False, allow_outside: AllowOutside = False,
        allow_code: AllowCode = False) -> None:
    """Fit every record of a fleet: a table of all results, a page with their distribution, and outlier machines.

    Can be stopped at any moment; the same command goes on where it was, and fits records that are new or have changed.
    Exit code 1 if a record has no result, 130 after Ctrl-C; what is done is kept. With --strict also 4 if a record is
    not described, 3 if one is in doubt.

    Example: dynident fleet fleet.toml --out results/ --workers 4
    """
    from dynident._util.progress import live_line, plain_lines
    from dynident.errors import ProblemError
    from dynident.fleet.run import fleet as run_fleet
    from dynident.fleet.run import line, read_fleet

    if workers is not None and dask is not None:
        raise ProblemError("--workers are processes on this machine, and --dask is a cluster; give one of them.")
    asked = read_fleet(fleet, allow_outside=allow_outside, allow_code=allow_code)
    watched = live_line(sys.stderr, said=line) if sys.stderr.isatty() else plain_lines(sys.stderr, said=line)
    with _executor(workers, dask) as executor, watched as tell:
        result = run_fleet(asked, out, executor, tell, retry_failed)
        executor.shutdown(wait=not result.stopped)
    print(result)
    print(f"\nWritten to {out}; open {out / 'fleet.html'} in a browser.")
    if result.stopped:
        print_error(f"Stopped by Ctrl-C; what is done is kept in {out}, and the same command goes on from there.")
        raise Stop(INTERRUPTED)
    if not result.good:
        print_error("Some records have no result; the table and the page say why.")
        raise Stop(NOT_GOOD)
    code = result.strict_exit_code if strict else GOOD
    print_why(code, f"{result.verdict_line} The table has the verdict on each record.")
    if code != GOOD:
        raise Stop(code)


def _executor(workers: int | None, dask: str | None) -> AbstractContextManager[Executor]:
    from dynident.parallel.process_pool import process_pool

    return process_pool(workers) if dask is None else _on_dask(dask)


class _on_dask:
    """The executor of a Dask cluster; leaving it leaves the cluster as it was."""

    def __init__(self, address: str):
        from dynident.errors import DynidentError, NotSupported

        try:
            from distributed import Client
        except ImportError:
            raise NotSupported("A Dask cluster needs the package distributed: pip install 'dynident[dask]'.") from None
        try:
            self.client: Any = Client(address, timeout=10)
        except (OSError, TimeoutError, ValueError) as error:
            raise DynidentError(f"No Dask scheduler answers at {address} ({error}). Start one with `dask scheduler`, and "
                                f"workers with `dask worker {address} --nthreads 1`.") from error

    def __enter__(self) -> Executor:
        return self.client.get_executor(pure=False)

    def __exit__(self, *_: object) -> None:
        self.client.close()
