"""Nothing is shown where nobody looks; a person sees one live line, a log at most one line a second."""

from __future__ import annotations

import io

import pytest

from dynident._util import progress
from dynident._util.progress import line, live_line, plain_lines, reporter
from dynident.estimate.estimate import Iteration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def iteration(number: int, max_defect: float = 0.0) -> Iteration:
    return Iteration(number, cost=12.5, step=0.1, max_defect=max_defect)


def test_a_callable_gets_every_iteration():
    seen = []
    with reporter(seen.append) as tell:
        for k in range(3):
            tell(iteration(k))
    assert [i.number for i in seen] == [0, 1, 2]


def test_nothing_is_shown_without_a_terminal(capsys):
    with reporter(None) as tell:
        tell(iteration(1))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("said", [None, True])
def test_terminal_shows_a_line_only_after_a_second(monkeypatch, clock, said):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    with reporter(said) as tell:
        clock.now += 0.5
        tell(iteration(7))
        assert "iteration" not in terminal.getvalue()
        clock.now += 0.6
        tell(iteration(8))
        assert "iteration    8" in terminal.getvalue()
    assert "iteration    7" not in terminal.getvalue()


def test_false_is_silent_even_on_a_terminal(monkeypatch, clock):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    with reporter(False) as tell:
        clock.now += 5
        tell(iteration(1))
    assert terminal.getvalue() == ""


def test_live_line_restores_the_cursor_when_the_fit_raises():
    terminal = Terminal()
    with pytest.raises(RuntimeError), live_line(terminal) as tell:
        tell(iteration(1))
        raise RuntimeError
    hidden, visible = terminal.getvalue().rfind("\x1b[?25l"), terminal.getvalue().rfind("\x1b[?25h")
    assert visible > hidden


def test_a_log_gets_at_most_one_line_a_second(clock):
    log = io.StringIO()
    with plain_lines(log) as tell:
        for k in range(31):  # three seconds, ten iterations in each
            tell(iteration(k))
            clock.now += 0.125
    numbers = [int(text.split()[1]) for text in log.getvalue().splitlines()]
    assert numbers == [0, 8, 16, 24]


def test_max_defect_is_told_only_where_segments_have_to_meet():
    assert "max defect" not in line(iteration(1), 2.0)
    assert "max defect 3.0e-05" in line(iteration(1, max_defect=3e-5), 2.0)
