"""Is a fit a chain of steps, each of which takes a state and gives another one without touching the first?"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest

import dynident as di
from dynident.errors import SimulatorLost
from dynident.methods import direct_steps
from dynident.methods.direct_loop import DIRECT_LOOP
from dynident.methods.direct_steps import DirectSetup, OuterState, initial_state
from dynident.methods.outer_loop import OuterLoop, RunLog
from dynident.status import Status, StatusCode
from problems import MACHINES

MSD = MACHINES["mass_spring_damper"]


def setup_for(method=None) -> DirectSetup:
    return DirectSetup(MSD.problem(3), method or di.multiple_shooting(), lambda _: None)


def states(setup: DirectSetup) -> list[OuterState]:
    return [initial_state(setup), *DIRECT_LOOP.states(setup, initial_state(setup))]


def parts(state: OuterState) -> list:
    return [getattr(state, f.name) for f in fields(state)]


# the steps


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.full_discretization()],
                         ids=lambda m: m.kind)
def test_every_step_leaves_the_state_that_it_was_given_as_it_was(method):
    setup = setup_for(method)
    steps = [*DIRECT_LOOP.prepare, *DIRECT_LOOP.round, *DIRECT_LOOP.conclude]
    state = initial_state(setup)
    for step in steps:
        before = parts(state)
        after = step(setup, state)
        assert all(a is b for a, b in zip(before, parts(state), strict=True)), step.__name__
        state = after
    assert state.converged


def test_a_step_from_the_same_state_gives_the_same_again():
    setup = setup_for(di.single_shooting())
    state = initial_state(setup)
    for step in DIRECT_LOOP.prepare:
        state = step(setup, state)
    first, second = (direct_steps.solve(setup, state) for _ in range(2))
    assert first.solved.result.evaluation.cost == second.solved.result.evaluation.cost
    assert first.log.counts == second.log.counts and state.log.counts["iterations"] == 0


def test_a_run_that_is_taken_up_in_the_middle_ends_the_same():
    setup = setup_for()
    whole = states(setup)
    solved = next(state for state in whole if state.solved is not None)
    resumed = solved
    for step in DIRECT_LOOP.round[2:] + DIRECT_LOOP.conclude:
        resumed = step(setup, resumed)
    assert resumed.solved.result.point.unknowns == pytest.approx(whole[-1].solved.result.point.unknowns, rel=1e-12)


def test_steps_of_a_round_do_nothing_to_what_did_not_converge():
    setup = setup_for(di.single_shooting(max_iterations=1))
    stopped = next(state for state in states(setup) if state.solved is not None)
    assert not stopped.converged and stopped.solved.result.reason.code is StatusCode.ITERATION_LIMIT
    for step in (*DIRECT_LOOP.round[2:], *DIRECT_LOOP.conclude):
        assert step(setup, stopped) is stopped


def test_history_and_counts_of_a_state_are_those_of_all_steps_before_it():
    last = states(setup_for())[-1]
    assert [page.number for page in last.log.history] == list(range(len(last.log.history)))
    assert 0 < last.log.counts["iterations"] < len(last.log.history)  # each solve tells its start too


# the driver


@dataclass(frozen=True)
class Count:
    number: int = 0
    ended_by: str = ""

    def ended(self, reason: Status, interrupted: bool) -> Count | None:
        return replace(self, ended_by=reason.code.value) if self.number else None


def one_more(limit: int, count: Count) -> Count:
    return replace(count, number=count.number + 1)


def loop_of(*steps) -> OuterLoop[int, Count]:
    return OuterLoop((), steps, (), lambda limit, count: count.number >= limit)


def test_rounds_go_on_until_they_settle():
    assert loop_of(one_more).run(7, Count()).number == 7
    assert [count.number for count in loop_of(one_more).states(3, Count())] == [1, 2, 3]


@pytest.mark.parametrize("error, code", [(KeyboardInterrupt, "interrupted"), (SimulatorLost, "simulator_lost")])
def test_what_stops_a_run_between_two_steps_leaves_the_best_so_far(error, code):
    def stop(limit: int, count: Count) -> Count:
        if count.number == 3:
            raise error("no simulator is left.")
        return count

    assert loop_of(one_more, stop).run(7, Count()) == Count(3, code)
    with pytest.raises(error):  # nothing is there yet
        loop_of(lambda limit, count: stop(limit, Count(3))).run(7, Count())


def test_a_log_adds_up_and_is_never_changed():
    log = RunLog()
    more = log.with_counts({"iterations": 3}).with_counts({"iterations": 2, "attempts": 1})
    assert log.counts["iterations"] == 0 and more.counts["iterations"] == 5 and more.counts["attempts"] == 1
    assert more.spent() == "5 iterations" and more.spent(2) == "5 iterations in 2 rounds"
