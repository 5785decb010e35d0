"""The command `dynident`, and `python -m dynident`: Ctrl-C is one line from the first line of the package on.

While the package and the command line are loaded it ends the process at once (`dynident/__init__.py`); from here on commands
keep what they have.
"""

import sys

from dynident._util.operating_system import ignore_interrupts, interrupts_raise


def main() -> None:
    """Load the command line and run it."""
    try:
        from dynident.cli import main as run

        interrupts_raise()
        run()
    except KeyboardInterrupt:  # before a command was at work
        print("dynident: Stopped by Ctrl-C; nothing was written.", file=sys.stderr, flush=True)
        sys.exit(130)
    finally:
        ignore_interrupts()  # what comes now would only kill a process that leaves anyway
        exec("")  # CPython ends by a signal, not by 130, if an interrupt ever left an `exec` (a dataclass) before this


if __name__ == "__main__":
    main()
