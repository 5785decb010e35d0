"""Routes: which request is answered by what? Each takes what the page sent and gives plain data or bytes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynident.workbench import results
from dynident.workbench.folder import listed_files
from dynident.workbench.processes import ProcessEnded
from dynident.workbench.runner import Runner
from dynident.workbench.security import Keys
from dynident.workbench.session import LOAD_SECONDS, Refused, Session

# all methods; tests compare them with the registry, which takes long to load
METHODS = ("automatic", "single_shooting", "multiple_shooting", "full_discretization", "least_squares", "prediction_error",
           "kalman", "moving_horizon", "boundary_value", "multistart", "inverse_dynamics", "set_membership")
NARROWEST, WIDEST = 16, 8192  # pixels
Request = dict[str, Any]
RequestBody = dict[str, Any] | bytes


class Routes:
    """The page's requests, by method and path."""

    def __init__(self, session: Session, runner: Runner, keys: Keys, link: Callable[[str], str]):
        self.session, self.runner, self.keys, self.link = session, runner, keys, link
        self.table: dict[tuple[str, str], Callable[[Request], RequestBody]] = {
            ("GET", "/api/state"): self.state, ("GET", "/api/files"): self.files, ("GET", "/api/templates"): self.templates,
            ("PATCH", "/api/problem"): self.edit, ("POST", "/api/text"): self.rewrite,
            ("POST", "/api/undo"): self.undo, ("POST", "/api/redo"): self.redo,
            ("POST", "/api/open"): self.open, ("POST", "/api/demo"): self.demo, ("POST", "/api/preview"): self.preview,
            ("POST", "/api/record"): self.record, ("POST", "/api/simulate"): self.simulate,
            ("POST", "/api/equations"): self.equations, ("POST", "/api/jobs"): self.job, ("POST", "/api/stop"): self.stop,
            ("POST", "/api/result"): self.result, ("POST", "/api/report"): self.report, ("POST", "/api/save"): self.save,
            ("POST", "/api/reload"): self.reload, ("POST", "/api/consent"): self.consent, ("POST", "/api/keep"): self.keep,
            ("POST", "/api/link"): self.new_link}

    def state(self, request: Request) -> RequestBody:
        found = self.session.state()
        opened = self.session.opened
        return {**found, "job": self.runner.current, "methods": list(METHODS),
                "commands": same_elsewhere(opened.file, opened.dirty, self.session.folder)}

    def files(self, request: Request) -> RequestBody:
        return {"files": listed_files(self.session.folder), "folder": self.session.folder.name}

    def templates(self, request: Request) -> RequestBody:
        return {"templates": self.session.ask({"call": "templates"}, LOAD_SECONDS)[0]["templates"]}

    def edit(self, request: Request) -> RequestBody:
        edits = request.get("edits")
        if not isinstance(edits, list) or not all(isinstance(one, dict) for one in edits):
            raise Refused(422, "edits is a list of changes.")
        self.session.edit(_whole(request, "revision"), edits)
        return self.state(request)

    def rewrite(self, request: Request) -> RequestBody:
        text = request.get("text")
        if not isinstance(text, str):
            raise Refused(422, "text is the problem file.")
        self.session.rewrite(_whole(request, "revision"), text)
        return self.state(request)

    def undo(self, request: Request) -> RequestBody:
        self.session.step(_whole(request, "revision"), back=True)
        return self.state(request)

    def redo(self, request: Request) -> RequestBody:
        self.session.step(_whole(request, "revision"), back=False)
        return self.state(request)

    def open(self, request: Request) -> RequestBody:
        self._idle()
        self.session.open_file(str(request.get("file")))
        return self.state(request)

    def demo(self, request: Request) -> RequestBody:
        from dynident.demo import copy_to

        self._idle()
        copy_to(self.session.folder / "dynident-demo")
        self.session.open_file("dynident-demo/servo.toml")
        return self.state(request)

    def _idle(self) -> None:
        if self.runner.current is not None:
            raise Refused(409, f"A {self.runner.current['kind']} is running; stop it first.")
        self.runner.details.clear()

    def preview(self, request: Request) -> RequestBody:
        return self.session.preview(str(request.get("file")))

    def record(self, request: Request) -> RequestBody:
        self.session.load()
        return self.session.ask({"call": "record", **_view(request), "whole": request.get("whole") is True}, LOAD_SECONDS)[1]

    def simulate(self, request: Request) -> RequestBody:
        values = request.get("values")
        if not isinstance(values, dict) or not all(_is_number(value) for value in values.values()):
            raise Refused(422, "values are numbers by name.")
        spectrum = request.get("spectrum") is True
        head, body = self.session.simulate({**_view(request), "values": values, "spectrum": spectrum})
        if "diverged" in head:
            raise Refused(422, head["diverged"], diverged=True)
        return body

    def equations(self, request: Request) -> RequestBody:
        model = request.get("model")
        if not isinstance(model, dict):
            raise Refused(422, "model is a table.")
        head, _ = self.session.ask({"call": "equations", "model": model}, LOAD_SECONDS)
        return {key: head[key] for key in ("formulas", "line_faults", "parameters")}

    def job(self, request: Request) -> RequestBody:
        return {"job": self.runner.begin(str(request.get("kind")), request)}

    def stop(self, request: Request) -> RequestBody:
        self.runner.stop(request.get("hard") is True)
        return {}

    def result(self, request: Request) -> RequestBody:
        return {"details": self.runner.result(str(request.get("result")))}

    def report(self, request: Request) -> RequestBody:
        """A page of its own for a report, opened once by a ticket in its address."""
        folder = self.runner.folder(str(request.get("result")))
        return {"path": f"/report/{self.keys.new_ticket(str(folder / 'report.html'))}"}

    def save(self, request: Request) -> RequestBody:
        name = request.get("as")
        self.session.save(str(name) if name else None, request.get("force") is True)
        return self.state(request)

    def reload(self, request: Request) -> RequestBody:
        self.session.reload()
        return self.state(request)

    def consent(self, request: Request) -> RequestBody:
        self.session.consent(str(request.get("sha256")))
        return self.state(request)

    def keep(self, request: Request) -> RequestBody:
        values = request.get("values")
        if not isinstance(values, dict) or not all(_is_number(value) for value in values.values()):
            raise Refused(422, "values are numbers by name.")
        self.session.keep(str(request.get("label")), values)
        return self.state(request)

    def new_link(self, request: Request) -> RequestBody:
        return {"link": self.link(self.keys.new_token())}

    def answer(self, method: str, path: str, request: Request) -> RequestBody:
        """Raises Refused with the status of the answer."""
        if (method, path) not in self.table:
            known = any(path == each for _, each in self.table)
            raise Refused(405 if known else 404, "There is no such request.")
        try:
            return self.table[method, path](request)
        except ProcessEnded as lost:
            raise Refused(503, f"The process behind the page {lost}; try again.") from None


def _view(request: Request) -> dict[str, Any]:
    """Which record, on how many pixels, from when to when."""
    begin, end = request.get("from"), request.get("to")
    if not all(value is None or _is_number(value) for value in (begin, end)):
        raise Refused(422, "from and to are times.")
    width = min(max(_whole(request, "width"), NARROWEST), WIDEST)
    return {"record": _whole(request, "record"), "width": width, "begin": begin, "end": end}


def _whole(request: Request, name: str) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(422, f"{name} is a whole number.")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def same_elsewhere(file: Path | None, dirty: bool, folder: Path) -> dict[str, Any]:
    """Texts to copy; `save_first` where the file on disk is not what the page shows."""
    if file is None:
        return {}
    out = results.next_folder(file)
    problem, target = (shlex.quote(_relative(path, folder)) for path in (file, out))
    shell = (f"dynident check {problem}\ndynident fit {problem} --out {target}\ndynident report {target}")
    python = (f"import dynident as di\n\nsaid = di.read_problem({_relative(file, folder)!r})\n"
              f"print(di.check(said.problem))\nestimate = di.identify(said.problem, said.method or None)\nprint(estimate)\n"
              "for record in said.validation:\n    print(estimate.validate(record))\n"
              f"estimate.save({_relative(out, folder)!r})\n")
    return {"shell": shell, "python": python, "save_first": dirty}


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
