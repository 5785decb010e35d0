"""The command `dynident`, and `python -m dynident`: Ctrl-C is one line from here on, while the commands are loaded too."""

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from dynident.cli import main as run

        run()
    except KeyboardInterrupt:  # before a command was at work, or while it was leaving
        print("dynident: Stopped by Ctrl-C; nothing was written.", file=sys.stderr, flush=True)
        sys.exit(130)
    finally:
        from dynident._util.operating_system import ignore_interrupts

        ignore_interrupts()  # what comes now would only kill a process that leaves anyway


if __name__ == "__main__":
    main()
