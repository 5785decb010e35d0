"""Worker: the process behind the page that reads records, simulates and fits (`python -m dynident.workbench.worker`).

Messages come in on stdin, answers go out on what was stdout; what libraries print goes to stderr. The main thread works, a
second one listens: "stop" is what Ctrl-C is, and the end of stdin ends the process.
"""

from __future__ import annotations

import _thread
import functools
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

from dynident.workbench.wire import Message, read_message, write_message

STOP_TIMEOUT = 1.0  # s; work that tells its progress is stopped there, other work is interrupted after so long


class Channel:
    """Both directions. Answers are written by a thread of their own, so that a stop never cuts one in the middle."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]):
        self.incoming, self.outgoing = incoming, outgoing
        self.requests: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.current = 0  # the number of the request at work; 0 between two
        self.stopping = threading.Event()  # it is to stop, and has not heard it yet
        for endless in (self.listen, self.speak):
            threading.Thread(target=endless, daemon=True).start()

    def listen(self) -> None:
        while (message := read_message(self.incoming)) is not None:
            if message[0].get("call") != "stop":
                self.requests.put(message)
            elif self.current == message[0].get("number"):  # of one that has ended meanwhile there is nothing to stop
                self.stopping.set()
                threading.Timer(STOP_TIMEOUT, self.insist, [self.current]).start()
        os._exit(0)  # whoever started this process is gone, or does not need it any more

    def insist(self, number: int) -> None:
        """Interrupt work that did not ask meanwhile, as Ctrl-C does; a library may swallow one, a callback may not."""
        if self.stopping.is_set() and self.current == number:
            self.stopping.clear()
            _thread.interrupt_main()

    def tell(self, number: int, event: dict[str, Any]) -> None:
        """Progress; whoever tells it is stopped here where that was asked for."""
        self.send({"number": number, **event})
        if self.stopping.is_set():
            self.stopping.clear()
            raise KeyboardInterrupt

    def speak(self) -> None:
        while True:
            head, body = self.answers.get()
            write_message(self.outgoing, head, body)

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        self.answers.put((head, body))


def main() -> None:
    """Serve until stdin ends."""
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    channel = Channel(sys.stdin.buffer, outgoing)
    calls = _calls()
    channel.send({"event": "ready"})
    answer: Message | None = None
    while True:
        try:
            if answer is None:
                head, _ = channel.requests.get()
                channel.stopping.clear()
                channel.current = head["number"]
                answer = _answered(calls, dict(head), channel)
                channel.current = 0
            channel.send({"number": head["number"], **answer[0]}, answer[1])
            answer = None
        except KeyboardInterrupt:  # a stop that came when the work was already done
            continue


def _answered(calls: dict[str, Callable[..., Message]], head: dict[str, Any], channel: Channel) -> Message:
    from dynident.errors import DynidentError, sentences_of

    number = head.pop("number")
    try:
        return calls[head.pop("call")](tell=functools.partial(channel.tell, number), **head)
    except KeyboardInterrupt:
        return {"stopped": "Stopped before there was anything to keep."}, b""
    except DynidentError as error:
        return {"faults": list(sentences_of(error))}, b""
    except OSError as error:
        return {"faults": [f"{error.filename or 'A file'}: {error.strerror or error}."]}, b""
    except Exception as error:  # a worker that dies of it would take the page's curves along
        import traceback

        traceback.print_exc()
        return {"faults": [f"This is a fault of dynident, not yours: {type(error).__name__}: {error}"]}, b""


def _calls() -> dict[str, Callable[..., Message]]:
    from dynident.workbench import jobs
    from dynident.workbench.live import Live

    live = Live()
    return {"load": live.load, "record": live.record, "simulate": live.simulate, "preview": live.preview,
            "equations": live.equations, "petab": live.petab, "templates": live.templates,
            "result": jobs.result, "fit": jobs.fit, "check": jobs.check_problem,
            "compare": jobs.compare_methods, "validate": jobs.validate_result,
            "profile": jobs.profile_result, "design": jobs.design_next}


if __name__ == "__main__":
    main()
