"""`dynident report`: make the page of a saved result again."""

from __future__ import annotations

from dynident.cli.common import AllowCode, ResultsPath, page


def run(results: ResultsPath, allow_code: AllowCode = False) -> None:
    """Print a saved result and write its report.html again; nothing is fitted.

    Example: dynident report results/
    """
    from dynident._util.atomic import exclusive
    from dynident.io.results.result_folder import load, write_report
    from dynident.report.terminal import print_estimate

    estimate = load(results, allow_code=allow_code)
    with exclusive(results):
        written = write_report(estimate, results)
    print_estimate(estimate, page())
    print(f"\nWritten to {written}; open it in a browser.")
