"""Claims about simulating on several processes: it is done where it pays, and changes no number."""

from __future__ import annotations

import threading
import time

import pytest

from dynident.black_box import evaluation_cache
from dynident.black_box.evaluation_cache import AdaptivePool


def test_results_come_in_the_order_of_the_tasks(monkeypatch):
    monkeypatch.setattr(evaluation_cache, "PROCESS_START", 0.0)
    here = AdaptivePool(True, processes=3)
    waits = [0.02, 0.03, 0.0, 0.02, 0.01]
    assert here.map(lambda i: (time.sleep(waits[i]), i)[1], range(5)) == list(range(5))
    assert here.used == 3 and "3 processes" in here.notes[0]


@pytest.mark.parametrize("seconds, tasks, processes", [(1.0, 7, 2), (0.001, 7, 1), (1.0, 1, 1)])
def test_processes_are_taken_where_they_pay(seconds, tasks, processes):
    here = AdaptivePool(True, processes=2, seconds=seconds)
    assert here.processes_for(tasks) == processes


def test_what_has_no_process_of_its_own_stays_in_one_thread():
    here = AdaptivePool(False, processes=8, seconds=10.0)
    assert {*here.map(lambda _: threading.get_ident(), range(4))} == {threading.get_ident()} and not here.notes


def test_who_is_done_takes_the_next(monkeypatch):
    monkeypatch.setattr(evaluation_cache, "PROCESS_START", 0.0)
    here, who, others_done = AdaptivePool(True, processes=2, seconds=1.0), {}, threading.Event()

    def task(i):
        who[i] = threading.get_ident()
        if i == 0:
            others_done.wait(30)
        if i == 6:
            others_done.set()

    here.map(task, range(7))
    assert {who[i] for i in range(1, 7)} == {who[1]} != {who[0]}
