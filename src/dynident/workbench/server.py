"""Server: HTTP on this machine only, by the standard library; static files from a list, everything else through the routes."""

from __future__ import annotations

import json
import re
import socket
import threading
import traceback
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dynident.workbench.routes import Routes
from dynident.workbench.runner import Runner
from dynident.workbench.security import HEADERS, LARGEST_BODY, POLICY, REPORT_POLICY, Keys, foreign
from dynident.workbench.session import Refused, Session
from dynident.workbench.wire import to_json

PAGE = Path(__file__).parent / "static"
REPORT = Path(__file__).parents[1] / "report" / "assets"  # the chart library and the palette are those of the report
MODULES = ("app", "api", "store", "elements", "plots", "charts", "sliders", "records", "model", "fit", "trust", "design",
           "keys", "history")
KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
FILES = {"/": PAGE / "index.html", "/style.css": PAGE / "style.css", "/icon.svg": PAGE / "icon.svg",
         **{f"/{name}.js": PAGE / f"{name}.js" for name in MODULES},
         **{f"/vendor/{name}": REPORT / name for name in ("uPlot.iife.min.js", "uPlot.min.css")}}
CONNECTION_TIMEOUT = 20.0  # s; a connection that says nothing for so long is closed
MOST_CONNECTIONS = 400
PING = 1.0  # s between two looks at the file and at the connection of a page that watches


class WorkbenchServer(ThreadingHTTPServer):
    """One session, its pages, and as many threads as connections."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, session: Session, port: int = 0):
        super().__init__(("127.0.0.1", port), WorkbenchHandler)
        self.session, self.keys = session, Keys()
        self.runner = Runner(session)
        self.routes = Routes(session, self.runner, self.keys, self.link)
        self.connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.ending = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def link(self, token: str) -> str:
        """The token stands behind #, which no browser sends anywhere."""
        return f"http://127.0.0.1:{self.port}/#token={token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed in the middle of an answer is nothing to print."""

    def server_close(self) -> None:
        self.ending.set()
        super().server_close()


class WorkbenchHandler(BaseHTTPRequestHandler):
    """One connection; nothing is answered before host, origin and key are as they must be."""

    server: WorkbenchServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dynident", ""
    timeout = CONNECTION_TIMEOUT
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def log_message(self, format: str, *args: Any) -> None:
        """Addresses and tokens are nobody's business."""

    def _answer(self, method: str) -> None:
        path = urlsplit(self.path).path
        try:
            if reason := foreign(dict(self.headers.items()), self.server.port, navigation=method == "GET" and (
                    path == "/" or path.startswith("/report/"))):
                self.close_connection = True
                raise Refused(403, reason)
            body = self._body() if method != "GET" else {}
            if path.startswith("/api/"):
                self._api(method, path, body)
            elif method != "GET":
                raise Refused(405, "There is no such request.")
            elif path.startswith("/report/"):
                self._report(path.removeprefix("/report/"))
            else:
                self._static(path)
        except Refused as refused:
            self._send(refused.status, to_json({"says": refused.says, **refused.facts}), "application/json")
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except Exception as error:
            traceback.print_exc()
            self._send(500, to_json({"says": f"This is a fault of dynident, not yours: {type(error).__name__}: {error}"}),
                       "application/json")

    def _body(self) -> dict[str, Any]:
        """The table that was sent; refused where it is too long, of another kind, or none."""
        said = self.headers.get("Content-Length", "")
        self.close_connection = True  # until the body was read, nothing that follows can be understood
        if not said.isdigit() or "Transfer-Encoding" in self.headers:
            raise Refused(411, "Say how long the body is.")
        if int(said) > LARGEST_BODY:
            raise Refused(413, f"A request holds at most {LARGEST_BODY:,} bytes.")
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, "Requests are JSON.")
        text = self.rfile.read(int(said))
        if len(text) < int(said):
            raise Refused(400, "The request ends in the middle.")
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise Refused(400, "This is not JSON.") from None
        if not isinstance(found, dict):
            raise Refused(400, "A request is a table.")
        return found

    def _api(self, method: str, path: str, body: dict[str, Any]) -> None:
        if (method, path) == ("POST", "/api/session"):
            key = self.server.keys.exchange(body.get("token"))
            if key is None:
                raise Refused(403, "This link was used already, or is not from this run. Take the one that the terminal shows, "
                                   "or start `dynident open` again.")
            self._send(200, to_json({"key": key}), "application/json")
            return
        if not self.server.keys.holds(self.headers.get("Authorization")):
            raise Refused(401, "This page is not connected. Open the link that the terminal shows.")
        if (method, path) == ("GET", "/api/events"):
            self._events()
            return
        given = self.server.routes.answer(method, path, body)
        if isinstance(given, bytes):
            self._send(200, given, "application/octet-stream")
        else:
            self._send(200, to_json(given), "application/json")

    def _events(self) -> None:
        """Events as they come, each with its number; a line of nothing keeps the connection alive."""
        last = self.headers.get("Last-Event-ID", "")
        number = int(last) if last.isdigit() else self.server.session.events.last
        self.close_connection = True
        self.send_response(200)
        self._headers("text/event-stream", POLICY)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while not self.server.ending.is_set():
                self.server.session.check_file()
                told = self.server.session.events.after(number, PING)
                parts = [b"id: %d\ndata: %s\n\n" % (n, to_json(event)) for n, event in told]
                number = told[-1][0] if told else number
                self.wfile.write(b"".join(parts) or b": here\n\n")
        except (OSError, TimeoutError):  # the page was closed
            return

    def _report(self, ticket: str) -> None:
        """A saved report in an origin of its own: its scripts reach neither the page nor the server."""
        path = self.server.keys.redeem(ticket)
        if path is None or not Path(path).is_file():
            raise Refused(404, "This address opens once. Open the report from the page again.")
        self._send(200, Path(path).read_bytes(), "text/html; charset=utf-8", REPORT_POLICY)

    def _static(self, path: str) -> None:
        found = static_file(path)
        if found is None:
            raise Refused(404, "There is nothing here.")
        self._send(200, found[0], found[1])

    def _headers(self, kind: str, policy: str) -> None:
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)

    def _send(self, status: int, body: bytes, kind: str, policy: str = POLICY) -> None:
        try:
            self.send_response(status)
            self._headers(kind, policy)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # whoever asked is gone
            self.close_connection = True


def free_port(port: int) -> bool:
    """Whether a port can be taken now."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@cache
def static_file(path: str) -> tuple[bytes, str] | None:
    """Content and kind; None for what is not on the list."""
    if path == "/palette.css":
        return palette().encode(), KINDS[".css"]
    file = FILES.get(path)
    return None if file is None else (file.read_bytes(), KINDS[file.suffix])


def palette() -> str:
    """The colours of the report, light and dark: the rules of its style sheet that hold variables of the root alone."""
    text = re.sub(r"/\*.*?\*/", "", (REPORT / "style.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    root = r":root[^{}]*\{[^{}]*\}"
    return "\n".join(re.findall(rf"@media screen[^{{}}]*\{{\s*{root}\s*\}}|{root}", text))
