"""Session: what is open, which edits were made, what is on disk, and which job runs; every page looks at the same one."""

from __future__ import annotations

import hashlib
import os
import threading
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynident._util.atomic import atomic_write
from dynident.workbench import results
from dynident.workbench.document import EditError, edited
from dynident.workbench.folder import listed_files, within
from dynident.workbench.processes import LIVE_ENVIRONMENT, PageWorker, ProcessEnded, TooSlow
from dynident.workbench.wire import Message

MOST_EVENTS = 2000  # that are kept; a page that was away longer asks for the whole state
LOAD_SECONDS = 120.0  # s; records of a gigabyte, or a model that takes a while to compile
LIVE_SECONDS = 2.0  # s; a curve that takes longer does not follow a slider
MOST_UNDONE = 200  # steps back that are kept
NEW = "problem.toml"


class Refused(Exception):
    """A request that cannot be done now: an HTTP status, a sentence, and more facts for the page."""

    def __init__(self, status: int, says: str, **facts: Any):
        super().__init__(says)
        self.status, self.says, self.facts = status, says, facts


@dataclass(frozen=True)
class OpenDocument:
    """A text and where it stands; the next value takes its place whole."""

    file: Path | None = None  # None: nothing is open
    text: str = ""
    saved: str = ""  # what is on disk, as far as we know
    stamp: tuple[int, int] | None = None  # of the file then; None: it is not on disk
    revision: int = 0
    undo: tuple[str, ...] = ()
    redo: tuple[str, ...] = ()

    def with_text(self, text: str) -> OpenDocument:
        """After an edit; what was there can be had back."""
        return replace(self, text=text, revision=self.revision + 1, undo=(*self.undo, self.text)[-MOST_UNDONE:], redo=())

    def undone(self) -> OpenDocument:
        if not self.undo:
            return self
        return replace(self, text=self.undo[-1], undo=self.undo[:-1], redo=(*self.redo, self.text), revision=self.revision + 1)

    def redone(self) -> OpenDocument:
        if not self.redo:
            return self
        return replace(self, text=self.redo[-1], redo=self.redo[:-1], undo=(*self.undo, self.text), revision=self.revision + 1)

    @property
    def dirty(self) -> bool:
        return self.text != self.saved or (self.file is not None and self.stamp is None)


class Session:
    """One folder, at most one problem open in it, two workers, and the pages that watch."""

    def __init__(self, folder: Path, allow_outside: bool = False, allow_code: bool = False):
        self.folder = folder.resolve()
        self.allow_outside, self.allow_code = allow_outside, allow_code
        self.events, self.lock = EventLog(), threading.RLock()
        self.live, self.worker = PageWorker(LIVE_ENVIRONMENT), PageWorker()
        self.opened = OpenDocument()
        self.description: dict[str, Any] = {}
        self.described = -1  # revision that the description is of
        self.loaded: tuple[int, int] = (-1, -1)  # generation of the live worker and revision that it holds
        self.stale = False  # the file was changed by somebody else
        self.consents: set[str] = set()  # SHA-256 of FMUs that may run, for this session only
        self.kept: list[dict[str, Any]] = []  # points that were kept by hand
        self.warm = False  # whether the model that is loaded has been simulated once, so that it is compiled

    # -- what is open

    def open_file(self, name: str, record: str = "") -> None:
        """A problem file, or a record, which becomes a new problem beside it; by a name that is listed.

        Of a fleet file one `record` is opened, as a new problem with the fleet's model and parameters. A problem of PEtab is
        written as one of ours into a new folder beside it, with its records, and that one is opened.
        """
        path = self._listed(name)
        if path.suffix.lower() in (".yaml", ".yml"):
            target = _free_folder(path) / f"{path.stem}.toml"
            self.ask({"call": "petab", "path": str(path), "target": str(target)}, LOAD_SECONDS)
            path = target
        if path.suffix.lower() == ".toml":
            text = _read(path)
            if "fleet" in _tables(text) or record:
                problem = _free_name(path.with_name(f"{path.stem}-{Path(record).stem}"))
                self._replace(OpenDocument(problem, problem_of_record(text, path, record), "", None, self.opened.revision + 1))
                return
            self._replace(OpenDocument(path, text, text, _stamp(path), self.opened.revision + 1))
        else:
            self._replace(OpenDocument(_free_name(path), "", "", None, self.opened.revision + 1))
            guess = self.preview(name)
            self.edit(self.opened.revision, [{"path": ["experiment", "+"], "value": first_table(path.name, guess)}])

    def _listed(self, name: str) -> Path:
        if name not in listed_files(self.folder):
            raise Refused(404, f"There is no file '{name}' in the folder that is open.")
        return within(self.folder, name)

    def _replace(self, opened: OpenDocument) -> None:
        with self.lock:
            self.opened, self.stale, self.kept, self.warm = opened, False, [], False
        self.events.tell("changed", revision=opened.revision)

    def edit(self, revision: int, edits: Sequence[Mapping[str, Any]]) -> None:
        """Change the text; refused where somebody else has changed it since."""
        with self.lock:
            self._current(revision)
            try:
                text = edited(self.opened.text, edits)
            except EditError as error:
                raise Refused(422, str(error)) from None
            if text != self.opened.text:
                self.opened = self.opened.with_text(text)
        self.events.tell("changed", revision=self.opened.revision)

    def rewrite(self, revision: int, text: str) -> None:
        """Take another text as a whole, as somebody typed it."""
        with self.lock:
            self._current(revision)
            if text != self.opened.text:
                self.opened = self.opened.with_text(text)
        self.events.tell("changed", revision=self.opened.revision)

    def step(self, revision: int, back: bool) -> None:
        with self.lock:
            self._current(revision)
            self.opened = self.opened.undone() if back else self.opened.redone()
        self.events.tell("changed", revision=self.opened.revision)

    def _current(self, revision: int) -> None:
        if self.opened.file is None:
            raise Refused(409, "Nothing is open yet.")
        if revision != self.opened.revision:
            raise Refused(409, "This was changed meanwhile, in another tab perhaps. The page shows the present state now; "
                               "make the change again.", revision=self.opened.revision)

    def save(self, name: str | None, force: bool) -> None:
        """Write the text, in place or under another name in the same folder; comments are those of the user."""
        with self.lock:
            file = self.opened.file
            if file is None:
                raise Refused(409, "Nothing is open yet.")
            if name and name != file.name:
                file = _new_file(file.parent, name)
            elif not force and self.check_file():
                raise Refused(409, f"{file.name} was changed on disk since it was opened. Load it again, or save over it.",
                              stale=True)
            with atomic_write(file) as aside:
                aside.write_bytes(self.opened.text.encode())
            self.opened = replace(self.opened, file=file, saved=self.opened.text, stamp=_stamp(file))
            self.stale = False
        self.events.tell("saved", file=file.name)

    def reload(self) -> None:
        """Take what is on disk; the page's own text can be had back by undo."""
        with self.lock:
            file = self.opened.file
            if file is None or not file.is_file():
                raise Refused(409, "The file is not there any more.")
            text = _read(file)
            opened = self.opened.with_text(text) if text != self.opened.text else self.opened
            self.opened, self.stale = replace(opened, saved=text, stamp=_stamp(file)), False
        self.events.tell("changed", revision=self.opened.revision)

    def check_file(self) -> bool:
        """Whether the file on disk is another than the one that was read; said once to all pages."""
        opened = self.opened
        if opened.file is None or opened.stamp is None:
            return False
        stale = _stamp(opened.file) != opened.stamp
        if stale != self.stale:
            self.stale = stale
            self.events.tell("stale", stale=stale)
        return stale

    # -- what the workers know

    def code(self) -> dict[str, Any] | None:
        """The FMU that the problem wants to run and that nobody has allowed: what, how large, and its checksum."""
        content = _tables(self.opened.text)
        model = content.get("model")
        named = model.get("fmu") if isinstance(model, dict) else None
        if self.allow_code or not isinstance(named, str) or self.opened.file is None:
            return None
        path = within(self.opened.file.parent, named)
        if not os.path.isfile(path):
            return None
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        asked = {"kind": "fmu", "file": named, "bytes": path.stat().st_size, "sha256": digest}
        return None if digest in self.consents else asked

    def consent(self, digest: str) -> None:
        """Allow one FMU, by its checksum, until the server ends. Python is allowed on the command line alone."""
        asked = self.code()
        if asked is None or asked["sha256"] != digest:
            raise Refused(409, "This is not the file that the problem names now; look at it again.")
        with self.lock:
            self.consents.add(digest)
            self.described = -1
        self.events.tell("changed", revision=self.opened.revision)

    def allowed_code(self) -> bool | list[str]:
        """All, by the command line; or the very FMUs that were consented to, wherever they lie, and nothing else: a result in
        the folder may bring other code along."""
        return self.allow_code or sorted(self.consents)

    def problem(self) -> dict[str, Any]:
        """The text and its rights, as every job takes it."""
        if self.opened.file is None:
            raise Refused(409, "Nothing is open yet.")
        return {"text": self.opened.text, "file": str(self.opened.file), "allow_outside": self.allow_outside,
                "allow_code": self.allowed_code()}

    def load(self) -> dict[str, Any]:
        """The description of the present text; the live worker holds it afterwards."""
        with self.lock:
            revision = self.opened.revision
            if self.opened.file is None:
                return {}
            self.live.start()
            if self.loaded != (self.live.generation, revision) or self.described != revision:
                head, _ = self.ask({"call": "load", **self.problem()}, LOAD_SECONDS)
                changed = head["description"].get("equations") != self.description.get("equations")
                self.warm = self.warm and not changed and self.loaded[0] == self.live.generation
                self.description, self.described = head["description"], revision
                self.loaded = (self.live.generation, revision)
            return self.description

    def ask(self, message: dict[str, Any], seconds: float) -> Message:
        """The live worker's answer; its faults and its end become refusals with a sentence."""
        try:
            head, body = self.live.call(message, seconds)
        except TooSlow:
            self.events.tell("worker", says="The simulation was ended because it took too long.")
            raise Refused(504, f"The simulation takes longer than {seconds:g} s at these values; the last good curve is shown. "
                               "Change the values back.") from None
        except ProcessEnded as lost:
            self.events.tell("worker", says=f"The process that simulates {lost}; a new one was started.")
            raise Refused(503, f"The process that simulates {lost}. A new one was started; try again.") from None
        if "faults" in head:
            raise Refused(422, head["faults"][0], faults=head["faults"])
        return head, body

    def simulate(self, request: dict[str, Any]) -> Message:
        """A curve; the first one of a model may take the time of a compiler."""
        self.load()
        answer = self.ask({"call": "simulate", **request}, LIVE_SECONDS if self.warm else LOAD_SECONDS)
        self.warm = True
        return answer

    def preview(self, name: str) -> dict[str, Any]:
        head, _ = self.ask({"call": "preview", "path": str(self._listed(name))}, LOAD_SECONDS)
        return head["preview"]

    # -- what the page shows

    def state(self) -> dict[str, Any]:
        """Everything but curves; pages ask for it after each change."""
        self.check_file()
        description = self.load()
        opened = self.opened
        file = opened.file
        return {"revision": opened.revision, "file": file.name if file else None, "folder": self.folder.name,
                "dirty": opened.dirty, "stale": self.stale, "on_disk": opened.stamp is not None, "text": opened.text,
                "undo": len(opened.undo), "redo": len(opened.redo), "description": description, "code": self.code(),
                "results": results.listed(file, opened.text) if file else [], "kept": list(self.kept),
                "events": self.events.last}

    def keep(self, label: str, values: Mapping[str, float]) -> None:
        """Put a point into the history."""
        with self.lock:
            self.kept.append({"id": f"kept-{len(self.kept) + 1}", "label": label[:80], "values": dict(values)})
        self.events.tell("kept")

    def close(self) -> None:
        self.live.close()
        self.worker.close()


def _new_file(folder: Path, name: str) -> Path:
    """A file that is not there yet, beside the problem."""
    if Path(name).name != name or "\\" in name or not name.endswith(".toml") or name.startswith("."):
        raise Refused(422, "Give a plain file name that ends in .toml.")
    if (folder / name).exists():
        raise Refused(409, f"{name} is there already; choose another name.")
    return folder / name


def problem_of_record(text: str, fleet: Path, record: str) -> str:
    """A fleet file as the problem of one of its records; comments stay."""
    content = _tables(text)
    table = content.get("record")
    if "fleet" not in content or not isinstance(table, dict):
        raise Refused(422, f"{fleet.name} is no fleet file; open it without naming a record.")
    if not record or not os.path.isfile(within(fleet.parent, record)):
        raise Refused(422, f"{fleet.name} is a fleet file, of which one record is opened at a time: "
                           f"dynident open {fleet.name} --record FILE.")
    edits: list[dict[str, Any]] = [
        {"path": ["record"], "value": None}, {"path": ["fleet"], "value": None},
        {"path": ["experiment", "+"], "value": {"file": record, **table}}]
    return edited(text, edits)


def first_table(file: str, guess: Mapping[str, Any]) -> dict[str, Any]:
    """An [[experiment]] from a preview: which column is what, as guessed."""
    columns = [(column["name"] if guess["headed"] else k, column) for k, column in enumerate(guess["columns"])]
    by_role = {role: {_name(c["name"], k): key for k, (key, c) in enumerate(columns) if c["role"] == role}
               for role in ("time", "input", "output")}
    table: dict[str, Any] = {"file": file}
    if by_role["time"]:
        table["time"] = next(iter(by_role["time"].values()))
    if by_role["input"]:
        table["inputs"] = by_role["input"]
    return table | {"outputs": by_role["output"]}


def _name(header: str, place: int) -> str:
    """A name that equations can use."""
    plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in header).strip("_")
    return plain if plain and plain[0].isalpha() else f"y{place}"


def _tables(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(422, f"{path.name} is not valid TOML: {error}.") from None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _free_folder(problem: Path) -> Path:
    """Where a problem of another kind is written as one of ours."""
    names = (f"{problem.stem}-dynident", *(f"{problem.stem}-dynident-{k}" for k in range(2, 1000)))
    return next((place for name in names if not (place := problem.with_name(name)).exists()), problem.with_name(names[0]))


def _free_name(record: Path) -> Path:
    """The problem file of a record: its own name, or one that is not taken."""
    for name in (f"{record.stem}.toml", *(f"{record.stem}-{k}.toml" for k in range(2, 1000))):
        if not record.with_name(name).exists():
            return record.with_name(name)
    return record.with_name(NEW)


class EventLog:
    """Numbered events; whoever waits is woken by the next one."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.kept: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MOST_EVENTS)
        self.last = 0

    def tell(self, kind: str, **facts: Any) -> None:
        with self.changed:
            self.last += 1
            self.kept.append((self.last, {"event": kind, **facts}))
            self.changed.notify_all()

    def after(self, number: int, seconds: float) -> list[tuple[int, dict[str, Any]]]:
        """Those after this number, as soon as there are any; none when so many seconds have passed."""
        with self.changed:
            if self.last <= number:
                self.changed.wait(seconds)
            return [(n, event) for n, event in self.kept if n > number]
