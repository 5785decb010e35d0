"""A server in this process, and what a page says to it, without a browser."""

from __future__ import annotations

import http.client
import json
import struct
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dynident.workbench.server import WorkbenchServer
from dynident.workbench.session import Session

PATIENCE = 120.0  # s; a worker has to load, and the machine may be busy


class Page:
    """One tab: its connection and its key."""

    def __init__(self, server: WorkbenchServer, token: str | None = None):
        self.server, self.key = server, ""
        if token is not None:
            self.key = self.call("POST", "/api/session", {"token": token})[1]["key"]

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, Any]:
        """Status, content and headers; a header of `Host_` and so on replaces the usual one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        given = {"Host": f"127.0.0.1:{self.server.port}"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        text = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if text is not None:
            given |= {"Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, text, given)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        status, content, _ = self.send(method, path, body, **headers)
        return status, json.loads(content)

    def state(self) -> dict[str, Any]:
        status, found = self.call("GET", "/api/state")
        assert status == 200, found
        return found

    def edit(self, *edits: dict[str, Any]) -> dict[str, Any]:
        status, found = self.call("PATCH", "/api/problem", {"revision": self.state()["revision"], "edits": list(edits)})
        assert status == 200, found
        return found

    def columns(self, path: str, body: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        """A head and columns, as the page takes them apart."""
        status, content, _ = self.send("POST", path, body)
        assert status == 200, content
        (length,) = struct.unpack("<I", content[:4])
        head = json.loads(content[4:4 + length])
        numbers = np.frombuffer(content[4 + length:], "<f8").reshape(head["columns"], head["rows"])
        return head, list(numbers)

    def job(self, kind: str, **request: Any) -> dict[str, Any]:
        """Begin a job, wait for its end, and give the event that tells it."""
        status, begun = self.call("POST", "/api/jobs", {"kind": kind, **request})
        assert status == 200, begun
        return self.ended(begun["job"]["id"])

    def ended(self, job: int) -> dict[str, Any]:
        return self.heard(lambda event: event["event"] == "job" and event["job"]["id"] == job and event["state"] != "running")

    def heard(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event of this kind, old or to come."""
        number, until = 0, time.monotonic() + PATIENCE
        while time.monotonic() < until:
            told = self.server.session.events.after(number, 1.0)
            number = told[-1][0] if told else number
            found = [event for _, event in told if wanted(event)]
            if found:
                return found[0]
        raise AssertionError("nothing of the kind was told")


@contextmanager
def running(folder: Path, **rights: bool):
    """A server on this folder; its end ends its workers."""
    server = WorkbenchServer(Session(folder, **rights))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        server.session.close()
        thread.join(5)


def connected(server: WorkbenchServer) -> Page:
    return Page(server, server.keys.new_token())
