"""The judgement of priced orders sees each kind of damage, and nothing where there is none."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from support.calls.asked_service import Log
from support.runs.after_lambda import Verdict, judged, orders

ROWS = orders(3)


class Priced(NamedTuple):
    """As the example has it."""

    order: str
    voucher: str
    percent: int
    cents: int


class Story:
    """Three orders, each priced once at 200 cents with half of it off."""

    def __init__(self) -> None:
        self.results = [Priced(f"o{number}", f"v{number}", 50, 100) for number in range(3)]
        self.log = Log()
        for number in range(3):
            self.asked(f"k{number}", f"v{number}", did=True)

    def asked(self, key: str, voucher: str, *, did: bool, gave: int = 200) -> None:
        item = f"article/{voucher}"
        self.log.take({"key": key, "item": item, "gave": gave, "did": did, "fault": ""})

    def verdict(self) -> Verdict:
        return judged(ROWS, self.results, self.log)


def test_all_is_well_where_a_request_came_twice_and_had_one_effect() -> None:
    story = Story()
    story.asked("k1", "v1", did=False)
    assert story.verdict().clean


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (lambda story: story.results.pop(), {"lost"}),
        (lambda story: story.results.append(story.results[0]), {"doubled"}),
        (lambda story: story.results.append(Priced("o9", "v1", 50, 100)), {"doubled", "wrong"}),
        (lambda story: story.log.effects.pop("k2"), {"effects_lost", "wrong"}),
        (lambda story: story.asked("k1", "v1", did=True, gave=300), {"effects_doubled"}),
        (lambda story: story.asked("k7", "v1", did=True), {"effects_doubled"}),
        (lambda story: story.results.__setitem__(0, Priced("o0", "v0", 50, 101)), {"wrong"}),
        (lambda story: story.results.__setitem__(0, Priced("o0", "v1", 50, 100)), {"wrong"}),
        (lambda story: story.asked("k1", "v8", did=False), {"changed"}),
    ],
    ids=[
        "a result is gone", "a result is there twice", "a result of no order", "nothing was done",
        "it was done twice", "it was done under two ids", "another price", "another's voucher",
        "another voucher at another try",
    ],
)  # fmt: skip
def test_damage_is_seen(damage: Callable[[Story], object], seen: set[str]) -> None:
    story = Story()
    damage(story)
    verdict = story.verdict()
    assert {name for name in verdict.__dataclass_fields__ if getattr(verdict, name)} == seen
