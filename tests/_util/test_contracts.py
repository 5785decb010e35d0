"""A class is asked once whether it meets a contract, and answers as `isinstance` does."""

from typing import Protocol, runtime_checkable

from dynident._util.contracts import meets


@runtime_checkable
class Sounds(Protocol):
    volume: float

    def play(self) -> None: ...


class Bell:
    def __init__(self):
        self.volume = 1.0

    def play(self) -> None: ...


class Stone:
    volume = 2.0


def test_answers_are_those_of_isinstance():
    for value in (Bell(), Stone(), Bell, None, 3):
        assert meets(value, Sounds) == isinstance(value, Sounds)
        assert meets(value, Sounds) == isinstance(value, Sounds)  # also when asked again
