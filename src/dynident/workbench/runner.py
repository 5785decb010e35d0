"""Runner: one job at a time in its own process, with progress to every page; stopped, it keeps the best point."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

from dynident.workbench import results
from dynident.workbench.processes import ProcessEnded
from dynident.workbench.session import LOAD_SECONDS, Refused, Session

KINDS = ("check", "fit", "compare", "validate", "profile", "design")
MOST_METHODS = 12


class Runner:
    """The job at work, and what the last ones gave."""

    def __init__(self, session: Session):
        self.session, self.lock = session, threading.Lock()
        self.numbers = itertools.count(1)
        self.current: dict[str, Any] | None = None
        self.details: dict[str, dict[str, Any]] = {}  # by result, as far as it was looked at

    def begin(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        """The job's number and kind; refused while another one runs."""
        message, facts = self._message(kind, request)
        with self.lock:
            if self.current is not None:
                raise Refused(409, f"A {self.current['kind']} is running already; stop it first.")
            self.current = {"id": next(self.numbers), "kind": kind, "revision": self.session.opened.revision, **facts}
            job = dict(self.current)
        self.session.events.tell("job", state="running", job=job)
        threading.Thread(target=self._run, args=(job, message), daemon=True).start()
        return job

    def stop(self, hard: bool) -> None:
        """As Ctrl-C; hard: the process is ended, and nothing is kept."""
        if self.current is None:
            raise Refused(409, "No job is running.")
        if hard:
            self.session.worker.kill()
        else:
            self.session.worker.stop()

    def result(self, result: str) -> dict[str, Any]:
        """The details of a listed result; loaded from its folder where they are not at hand."""
        if result not in self.details:
            folder = self.folder(result)
            request = {"call": "result", "folder": str(folder), "allow_code": self.session.allowed_code()}
            head, _ = self.session.ask(request, LOAD_SECONDS)
            self.details[result] = head["details"]
        return self.details[result]

    def folder(self, result: str) -> Path:
        file = self.session.opened.file
        folder = results.folder_of(file, result) if file is not None else None
        if folder is None:
            raise Refused(404, "There is no such result.")
        return folder

    def _message(self, kind: str, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the worker is told, and what the pages are told about it."""
        if kind not in KINDS:
            raise Refused(422, "There is no such job.")
        problem = self.session.problem()
        assert self.session.opened.file is not None
        given = str(request.get("result") or "")
        if kind == "fit":
            folder = results.next_folder(self.session.opened.file)
            return {"call": "fit", **problem, "folder": str(folder)}, {"result": folder.name}
        if kind == "compare":
            methods = [str(name) for name in request.get("methods") or []][:MOST_METHODS]
            return {"call": "compare", **problem, "methods": methods}, {}
        if kind == "validate":
            return {"call": "validate", **problem, "folder": str(self.folder(given))}, {"result": given}
        if kind == "profile":
            return {"call": "profile", "folder": str(self.folder(given)), "allow_code": problem["allow_code"],
                    "names": [str(name) for name in request.get("names") or []]}, {"result": given}
        if kind == "design":
            out = self.session.opened.file.with_name("next_input.csv")
            return {"call": "design", **problem, "folder": str(self.folder(given)) if given else "", "out": str(out)}, {}
        return {"call": "check", **problem}, {}

    def _run(self, job: dict[str, Any], message: dict[str, Any]) -> None:
        def heard(event: dict[str, Any]) -> None:
            self.session.events.tell("progress", job=job["id"], says={**event})

        try:
            head, _ = self.session.worker.call(message, None, heard)
        except ProcessEnded as lost:
            head = {"faults": [f"The process that works {lost}. Nothing was written; start the job again."]}
        ended = "failed" if "faults" in head else "stopped" if "stopped" in head or (
            head.get("details") or {}).get("interrupted") else "done"
        if "details" in head:
            self.details[job["result"]] = head["details"]
        with self.lock:
            self.current = None
        self.session.events.tell("job", state=ended, job=job, answer={k: v for k, v in head.items() if k != "number"})
