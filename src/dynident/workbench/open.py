"""Open: start the server, print its link, show it in a browser, and end with Ctrl-C."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path

from dynident.errors import ProblemError
from dynident.workbench.folder import PROBLEMS, RECORDS
from dynident.workbench.server import WorkbenchServer, free_port
from dynident.workbench.session import Refused, Session

REDIRECT = """<!doctype html><meta charset="utf-8"><title>dynident</title>
<meta http-equiv="refresh" content="0; url={link}"><p><a href="{link}">Open the workbench</a></p>
"""


def open_workbench(target: Path | None, record: str, browser: bool, port: int, allow_outside: bool, allow_code: bool) -> None:
    """Serve until Ctrl-C; `record` is the one of a fleet file that is opened."""
    folder, file = folder_and_file(target)
    if port and not free_port(port):
        raise ProblemError(f"--port {port}: another program uses this port. Take another one, or leave it out.")
    session = Session(folder, allow_outside, allow_code)
    server = WorkbenchServer(session, port)
    link = server.link(server.keys.new_token())
    print(f"The workbench is at\n  {link}\nIt opens once; Ctrl-C here ends it.", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = redirect_page(link) if browser else None
    try:
        session.live.start()
        session.worker.start()
        if page is not None:
            webbrowser.open(page.as_uri())
        if file is not None:
            try:
                session.open_file(file, record)
            except Refused as refused:
                print(f"dynident: {refused.says}", file=sys.stderr, flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        lost = "; what was not saved is gone" if session.opened.dirty else ""
        print(f"\nThe workbench has ended{lost}.")
    finally:
        server.shutdown()
        server.server_close()
        session.close()
        if page is not None:
            page.unlink(missing_ok=True)


def folder_and_file(target: Path | None) -> tuple[Path, str | None]:
    """The folder that the page may look into, and the file in it that is opened first."""
    target = Path() if target is None else target
    if not target.exists():
        raise ProblemError(f"{target} does not exist. Name a problem file, a record or a folder.")
    if target.is_dir():
        return target, None
    if target.suffix.lower() not in (*PROBLEMS, *RECORDS):
        raise ProblemError(f"{target.name}: a problem file ends in .toml (of PEtab in .yaml), a record in "
                           f"{', '.join(RECORDS)}.")
    return target.resolve().parent, target.name


def redirect_page(link: str) -> Path:
    """A file that only this user can read and that leads to the link, so that no list of processes shows the token."""
    descriptor, name = tempfile.mkstemp(prefix="dynident-", suffix=".html")  # made with mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(REDIRECT.format(link=link))
    return Path(name)
