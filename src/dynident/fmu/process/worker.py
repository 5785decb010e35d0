"""Worker: the process in which a foreign FMU runs; it may crash here without harm.

The FMU's words on stdout and stderr go to the parent's log file; the conversation uses the original stdin and stdout.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from dynident.fmu.in_process import InProcessSimulator
from dynident.fmu.instance import SimulationFailed
from dynident.fmu.process.ipc import ReceivedInputs, receive, send
from dynident.fmu.simulation_spec import SimulationSpec

PARENT_CHECKED = 1.0  # seconds between looks; an FMU that hangs must not outlive the session


def exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECKED)
    os._exit(1)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts means the session, which ends this process itself
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
                simulator = InProcessSimulator(SimulationSpec.from_data(message["spec"]))
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
