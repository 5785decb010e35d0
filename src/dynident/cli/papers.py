"""`dynident papers`: the five papers item by item, theirs beside ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import INTERRUPTED, NOT_GOOD, Stop, print_error, with_progress

app = typer.Typer(invoke_without_command=True, help="Redo the tables and figures of the papers. "
                                                    "Example: dynident papers run direct/table-1")

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where tables, figures and lines are written.")]
Quick = Annotated[bool, typer.Option("--quick", help="A coarse form, under 20 s an item.")]


@app.callback()
def list_items(context: typer.Context) -> None:
    """List every item of the papers: what it reproduces, how long it takes, whether ours agrees with theirs.

    Example: dynident papers
    """
    if context.invoked_subcommand is not None:
        return
    from dynident.papers.registry import ITEMS, PAPERS
    from dynident.papers.run_item import recorded

    known = recorded()
    for key, (name, _) in PAPERS.items():
        print(f"{name[0].upper()}{name[1:]}")
        for item in ITEMS:
            if item.paper == key:
                kept = known.get(item.id)
                quick = f"{kept.cpu_seconds:.0f} s quick" if kept else "not recorded"
                print(f"  {item.id:<30} {kept.agreement.value if kept else '?':<15} {quick + ', ' + item.duration:<26} "
                      f"{item.item}: {item.reproduces}")
    print("\nAgreement and quick times are those of the record that came with this version. "
          "Compute one: dynident papers run ID")


@app.command("run")
def run(name: Annotated[str, typer.Argument(metavar="ID|all", help="An item such as direct/table-1, or all.")],
        out: Out = Path("papers"), quick: Quick = False,
        again: Annotated[bool, typer.Option("--again", help="Compute anew what the folder has already.")] = False) -> None:
    """Compute an item: a table (CSV), a figure (PNG, SVG) and the line theirs | ours | agrees or differs because.

    With `all`, what the folder has already is not computed again: a run that was stopped goes on.

    Example: dynident papers run all --quick --out papers
    """
    from dynident.errors import DynidentError
    from dynident.papers.registry import ITEMS
    from dynident.papers.run_item import item_named, run_items

    items = ITEMS if name == "all" else [item_named(name)]
    failed, done = [], 0
    try:
        with with_progress(lambda line, seconds: f"{line} ({seconds:.0f} s)") as tell:
            for item, result, computed in run_items(items, out, quick, tell, again or name != "all"):
                done += 1
                if isinstance(result, DynidentError):
                    failed.append(item.id)
                    print_error(f"{item.id}: {result}")
                else:
                    print(f"{item.id}{'' if computed else ' (from the folder)'}: {result.line}", flush=True)
    except KeyboardInterrupt:
        print_error(f"Stopped by Ctrl-C after {done} of {len(items)} items, which are in {out}. "
                    "The same command goes on from there.")
        raise Stop(INTERRUPTED) from None
    if failed:
        print_error(f"Without a result: {', '.join(failed)}.")
        raise Stop(NOT_GOOD)
    print(f"Tables and figures are in {out}.", file=sys.stderr)


@app.command("page")
def page(out: Out = Path("papers"),
         markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", show_default=False,
                                                       help="Write the page of the manual too.")] = None,
         record: Annotated[Path | None, typer.Option("--record", metavar="FILE", show_default=False,
                                                     help="Keep the lines of all items as one CSV file.")] = None,
         full: Annotated[Path | None, typer.Option("--full", metavar="FOLDER", show_default=False,
                                                   help="A folder of full forms, which are shown where they say something "
                                                        "else; without it those of the record.")] = None) -> None:
    """Make one HTML page of all items that `dynident papers run` has left in the folder: FOLDER/papers.html.

    Example: dynident papers page --out papers
    """
    from dynident.papers.page import write_html, write_markdown
    from dynident.papers.registry import ITEMS
    from dynident.papers.run_item import read_results, recorded, write_record

    results, fuller = read_results(out), dict(recorded("full"))
    if full is not None:
        fuller.update({name: own for name, own in read_results(full).items() if own.form == "full"})
    print(write_html(results, out, out / "papers.html", fuller))
    if markdown is not None:
        write_markdown(results, fuller, markdown)
        print(markdown)
    if record is not None:
        write_record([*results.values(), *fuller.values()], record)
        print(record)
    missing = len(ITEMS) - len(results)
    if missing:
        print_error(f"{missing} of {len(ITEMS)} items are not in {out} yet: dynident papers run all --out {out}")
