"""Executors that come a few at a time."""

from types import SimpleNamespace

import pytest

from flamestream.spark.streaming import gradual


class Asked:
    """Executors that are there as soon as they are asked for, but for those that find no node."""

    def __init__(self, first: int, room: int = 1_000) -> None:
        self.wanted, self.room = [first], room
        self.looks = 0

    def there(self) -> int:
        self.looks += 1
        return min(self.wanted[-1], self.room, self.looks)  # one more at each look

    def want(self, count: int) -> None:
        assert self.there() >= min(self.wanted[-1], self.room), "those before have started"
        self.wanted.append(count)
        self.looks = 0


@pytest.mark.parametrize(
    ("tasks", "needed", "steps"),
    [
        (1, 1, [1]),
        (3, 2, [1, 2, 3]),
        (8, 8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (20, 20, [3, 6, 9, 12, 15, 18, 20]),
        (20, 16, [3, 6, 9, 12, 15, 16, 19, 20]),
        (20, 1, [3, 6, 9, 12, 15, 18, 20]),
    ],
)
def test_the_next_come_when_those_before_have_started(tasks: int, needed: int, steps: list[int]) -> None:
    asked = Asked(gradual.at_once(tasks))
    gradual.grow(asked, tasks, needed, look=0.0, rest=0.0, settled=0.0)
    assert asked.wanted == steps


def test_standbys_leave_the_cut_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(1)
    rests: list[tuple[float, int]] = []

    def slept(seconds: float) -> None:
        rests.append((seconds, asked.wanted[-1]))

    monkeypatch.setattr(gradual, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=slept))
    gradual.grow(asked, 5, 3, look=0.0, rest=1.0, settled=2.0)
    assert [rest for rest in rests if rest[0]] == [
        (1.0, 1),
        (1.0, 2),
        (2.0, 3),
        (1.0, 4),
    ]


def test_one_that_finds_no_node_keeps_nobody_waiting_for_ever() -> None:
    asked = Asked(gradual.at_once(4), room=1)
    gradual.grow(asked, 4, 4, look=0.0, rest=0.0, within=0.001)
    assert asked.wanted == [1, 2, 3, 4]
