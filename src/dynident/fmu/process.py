"""Process isolation: simulate an FMU in a process of its own, and outlive whatever it does there.

Above, the side that asks; below, messages (numbers and text, no code) and the worker, which this file is when it is run. The
FMU's words on stdout and stderr go to the parent's log file; the conversation uses the original stdin and stdout.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from dynident._util.codec import decode, encode
from dynident._util.new_process import own_environment, python_module
from dynident._util.operating_system import how_it_ended, ignore_interrupts, is_orphan_of, own_process_group
from dynident.fmu.in_process import InProcessSimulator
from dynident.fmu.instance import SimulationFailed
from dynident.fmu.simulation_spec import FmuInputs, SimulationSpec

START_LIMIT = 60.0  # seconds for the process and the FMU's code to be loaded
INPUTS_KEPT = 128  # records, and pieces of them, whose inputs the process keeps
HEAD = struct.Struct("<QQ")  # lengths of the text and of the numbers
MAX_WARM = 4  # idle processes that are kept
PARENT_CHECKED = 1.0  # seconds between looks; an FMU that hangs must not outlive the session


class IsolatedSimulator:
    """The calls of InProcessSimulator; a crash or a hang is a failed simulation, and the next call starts a new process."""

    def __init__(self, spec: SimulationSpec, limit: float):
        self.spec, self.limit = spec, limit
        self.worker: WorkerProcess | None = None
        self.notes: list[str] = []
        self.log: list[str] = []
        self.sent: list[FmuInputs] = []
        self.answered = 0  # simulations that this process has finished
        self.most_per_process = sys.maxsize  # simulations for which one process is used

    def run(self, values: np.ndarray, inputs: FmuInputs, states: bool = False, directions: Sequence[int] = ()) -> np.ndarray:
        try:
            return self._run(values, inputs, states, directions)
        except SimulationFailed as error:
            if not error.crash or error.hung or not self.answered:
                raise
            return self._retry(values, inputs, states, directions)

    def _retry(self, values: np.ndarray, inputs: FmuInputs, states: bool, directions: Sequence[int]) -> np.ndarray:
        """In a fresh process after a crash in a used one: perhaps it was not the values, but what came before."""
        survived = self.answered
        resets = self.spec.reset and survived == 1  # it died where reset is tried
        before = self.spec
        self.spec = replace(before, reset=False) if resets else before
        try:
            outputs = self._run(values, inputs, states, directions)
        except SimulationFailed:
            self.spec = before  # it was the values
            raise
        if resets:
            self.notes.append(f"{self.spec.file} did not survive a reset: each simulation uses a fresh instance.")
        else:
            self.most_per_process = max(1, survived // 2)
            when = "each time" if self.most_per_process == 1 else f"every {self.most_per_process} times"
            self.notes.append(f"{self.spec.file} crashed in simulation {survived + 1} of a process, but not in a fresh one: "
                              f"its process is replaced {when}.")
        return outputs

    def _run(self, values: np.ndarray, inputs: FmuInputs, states: bool, directions: Sequence[int]) -> np.ndarray:
        try:
            return self._request(values, inputs, states, directions)
        except SimulationFailed:
            raise
        except BaseException:  # Ctrl-C: an answer that still comes would be taken for that of the next question
            self._kill()
            raise

    def _request(self, values: np.ndarray, inputs: FmuInputs, states: bool, directions: Sequence[int]) -> np.ndarray:
        if self.answered >= self.most_per_process:
            self.close()
        if self.worker is None:
            self._start()
        try:
            number = self._send_inputs(inputs)
            self._send({"do": "run", "inputs": number, "states": states, "directions": list(directions)},
                       [np.ascontiguousarray(values, dtype=float)])
        except OSError:
            raise self._crashed() from None
        message, arrays = self._receive(self.limit * max(1, len(np.atleast_2d(values))))
        self._keep_messages(message)
        self.answered += 1
        return arrays[0]

    def messages(self) -> tuple[str, ...]:
        return tuple(self.log)

    def close(self) -> None:
        """The process ends."""
        if self.worker is not None:
            worker, self.worker = self.worker, None
            worker.end()

    def release(self) -> None:
        """The process is kept warm for the next who simulates this FMU, where nothing speaks against it."""
        if self.worker is not None and self.answered and self.most_per_process == sys.maxsize and self.spec.reset:
            worker, self.worker = self.worker, None
            warm_workers.keep(self.spec.folder, worker)
        self.close()

    def _start(self) -> None:
        self.worker = warm_workers.take(self.spec.folder) or WorkerProcess()
        self.sent, self.answered = [], 0
        try:
            self._send({"do": "open", "spec": encode(self.spec)})
        except OSError:
            raise self._crashed() from None
        try:
            self._receive(START_LIMIT)
        except SimulationFailed:
            self._kill()  # a process without an FMU answers nothing
            raise

    def _send(self, message: dict[str, Any], arrays: Any = ()) -> None:
        assert self.worker is not None and self.worker.process.stdin is not None
        send(self.worker.process.stdin, message, arrays)  # type: ignore[arg-type]

    def _send_inputs(self, inputs: FmuInputs) -> int:
        for number, known in enumerate(self.sent):
            if known is inputs:
                return number
        keep = len(self.sent) < INPUTS_KEPT
        self.sent = [*self.sent, inputs] if keep else [inputs]
        number = len(self.sent) - 1
        self._send({"do": "inputs", "inputs": number, "keep": keep}, [  # in the order of ReceivedInputs
            inputs.time, inputs.substeps, inputs.u_begin, inputs.u_end, inputs.u_node, inputs.output_mask, inputs.finite_mask])
        return number

    def _receive(self, limit: float) -> tuple[dict[str, Any], list[np.ndarray]]:
        assert self.worker is not None
        try:
            reply = self.worker.replies.get(timeout=limit)
        except queue.Empty:
            self._kill()
            raise SimulationFailed(f"{self.spec.file} did not answer within {limit:g} s and was stopped. Give it more "
                                   "time with time_limit=, if it is slow rather than stuck.", crash=True, hung=True
                                   ) from None
        if reply is None:
            raise self._crashed()
        message, arrays = reply
        if not message["good"]:
            self._keep_messages(message)
            raise SimulationFailed(message["sentence"], float(message["time"]), useless=message["useless"])
        return message, arrays

    def _keep_messages(self, message: dict[str, Any]) -> None:
        self.notes += message.get("notes", ())
        self.log = list(message.get("log", self.log))

    def _crashed(self) -> SimulationFailed:
        assert self.worker is not None
        try:
            code = self.worker.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.worker.process.kill()
            code = self.worker.process.wait()
        last = self._last_output()
        self._kill()
        return SimulationFailed(f"{self.spec.file} {how_it_ended(code)}; its process was started again.{last}", crash=True)

    def _last_output(self) -> str:
        assert self.worker is not None
        said = self.worker.error_output
        said.seek(0, os.SEEK_END)
        said.seek(max(0, said.tell() - 2000))
        lines = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
        self.log = [*self.log, *lines]
        return f" Its last words: {lines[-1].strip()[:200]}" if lines else ""

    def _kill(self) -> None:
        if self.worker is not None:
            worker, self.worker = self.worker, None
            worker.kill()


class WorkerProcess:
    """A process that runs this file, and the streams to it."""

    def __init__(self) -> None:
        self.error_output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(python_module("dynident.fmu.process"), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.error_output, env=own_environment(),
                                        **own_process_group())  # Ctrl-C is for the session, which ends its processes itself
        self.replies: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self.process.stdout, self.replies), daemon=True).start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None and self.replies.empty()  # whose end is an answer too

    def end(self) -> None:
        """By itself; by force where it does not."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()  # type: ignore[union-attr]
        self.error_output.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self.error_output.close()


class WarmWorkers:
    """Idle processes that have an FMU's code loaded, for the next who simulates the same FMU: the start of a process takes
    longer than most simulations. A few are kept, the last used the longest, and all end with the session."""

    def __init__(self) -> None:
        self.idle: list[tuple[str, WorkerProcess]] = []  # by the folder of the FMU; the last used stands last
        self.lock, self.closed = threading.Lock(), False

    def keep(self, folder: str, worker: WorkerProcess) -> None:
        with self.lock:
            if not self.closed:
                self.idle.append((folder, worker))
            ended = [worker] if self.closed else [w for _, w in self.idle[:-MAX_WARM]]
            self.idle = self.idle[-MAX_WARM:]
        for one in ended:
            one.end()

    def take(self, folder: str) -> WorkerProcess | None:
        """One that has this FMU's code loaded and is alive; None where there is none."""
        while True:
            with self.lock:
                place = next((i for i in reversed(range(len(self.idle))) if self.idle[i][0] == folder), None)
                worker = None if place is None else self.idle.pop(place)[1]
            if worker is None or worker.alive:
                return worker
            worker.kill()

    def close(self) -> None:
        with self.lock:
            self.closed, ended, self.idle = True, self.idle, []
        for _, worker in ended:
            worker.end()


warm_workers = WarmWorkers()
atexit.register(warm_workers.close)


def _read(stream: Any, replies: queue.SimpleQueue) -> None:
    """Puts each answer into the queue, and None at the end; a queue can be waited for with a limit everywhere."""
    try:
        while True:
            replies.put(receive(stream))
    except (EOFError, OSError, ValueError):
        replies.put(None)


@dataclass(frozen=True, eq=False)
class ReceivedInputs:
    """Inputs along a record as they arrive on the other side."""

    time: np.ndarray
    substeps: np.ndarray
    u_begin: np.ndarray
    u_end: np.ndarray
    u_node: np.ndarray
    output_mask: np.ndarray
    finite_mask: np.ndarray


def send(stream: BinaryIO, message: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    whole = {**message, "arrays": [(a.dtype.str, a.shape) for a in arrays]}
    text = json.dumps(whole).encode()
    body = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)
    stream.write(HEAD.pack(len(text), len(body)) + text + body)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The next message; EOFError where the other side is gone."""
    head = _read_exactly(stream, HEAD.size)
    text, body = (_read_exactly(stream, n) for n in HEAD.unpack(head))
    message = json.loads(text)
    arrays, place = [], 0
    for kind, shape in message.pop("arrays"):
        count = int(np.prod(shape))
        array = np.frombuffer(body, np.dtype(kind), count, place).reshape(shape)
        arrays.append(array.copy())
        place += array.nbytes
    return message, arrays


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def exit_with_parent(parent: int) -> None:
    while not is_orphan_of(parent):
        time.sleep(PARENT_CHECKED)
    os._exit(1)


def main() -> None:
    ignore_interrupts()
    threading.Thread(target=exit_with_parent, args=(os.getppid(),), daemon=True).start()
    ask = os.fdopen(os.dup(0), "rb")
    answer = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what the FMU prints must not meet the conversation
    simulator: InProcessSimulator | None = None
    records: dict[int, ReceivedInputs] = {}
    while True:
        try:
            message, arrays = receive(ask)
        except EOFError:
            break
        try:
            if message["do"] == "open":
                if simulator is not None:
                    simulator.close()
                    records = {}
                simulator = InProcessSimulator(decode(SimulationSpec, message["spec"], "the FMU's specification"))
                send(answer, {"good": True})
            elif message["do"] == "inputs":
                records = records if message["keep"] else {}
                records[message["inputs"]] = ReceivedInputs(*arrays)
            elif simulator is not None:
                outputs = simulator.run(arrays[0], records[message["inputs"]], message["states"],  # type: ignore[arg-type]
                                        message["directions"])
                send(answer, {"good": True, "notes": simulator.notes, "log": simulator.instance.log()}, [outputs])
                simulator.notes = []
        except SimulationFailed as error:
            log = simulator.instance.log() if simulator is not None else ()
            send(answer, {"good": False, "sentence": str(error), "time": repr(error.time), "useless": error.useless,
                          "log": log})
    os._exit(0)  # no code of the FMU at the end: some hang there


if __name__ == "__main__":
    main()
    sys.exit(0)
