"""What slots cost is measured without a word in what is computed, and by the kernel as by the reference."""

import itertools
from random import Random

import pytest

from flamestream.core.dataflow.meter import Meter
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.model.ids import Slot
from flamestream.model.kernel import kernel
from support.core.one_worker import OneWorker
from unit.core.dataflow.test_native import graphs

PARTS = [REFERENCE, *([] if kernel is None else [native(kernel)])]


def lived(name: str, parts: Parts, every: int = 0) -> OneWorker:
    life, rng = OneWorker(graphs()[name], parts, debug=False), Random(7)
    if every:
        life.worker.flow.measure(every)
    for number in range(300):
        life.records(number, [(rng.choice("aaaabc") + str(rng.randrange(3)), number)])
    return life


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel")
@pytest.mark.parametrize("name", graphs())
def test_entrances_are_counted_alike_by_both(name: str) -> None:
    told = [lived(name, parts, every=1).worker.flow.measured() for parts in PARTS]
    assert [cost[:2] for cost in told[0]] == [cost[:2] for cost in told[1]]
    assert sum(cost for _, cost, _ in told[0]) >= 300


@pytest.mark.parametrize("name", ["vectors", "sums", "windows"])
def test_measuring_changes_no_action(name: str) -> None:
    for parts in PARTS:
        assert lived(name, parts, every=1).done == lived(name, parts).done


def test_nothing_is_told_unless_it_is_measured_and_nothing_twice() -> None:
    for parts in PARTS:
        assert lived("vectors", parts).worker.flow.measured() == []
        life = lived("vectors", parts, every=1)
        assert life.worker.flow.measured() and life.worker.flow.measured() == []


def test_the_key_that_most_items_are_of_is_known() -> None:
    for parts in PARTS:
        life = OneWorker(graphs()["vectors"], parts, debug=False)
        life.worker.flow.measure(1)
        for number in range(40):
            life.records(number, [("hot" if number % 4 else "cold", number)])
        costs = life.worker.flow.measured()
        assert any(key is not None and b"hot" in key for _, _, key in costs)


def test_samples_come_to_the_same_as_all_of_it() -> None:
    """A clock that says how long each stretch lasts; one in eight is timed."""
    readings, now = itertools.count(), [0]

    def clock() -> int:
        next(readings)
        return now[0]

    meter, rng, spent = Meter(8, clock), Random(1), {Slot(1): 0, Slot(2): 0, Slot(3): 0}
    for _ in range(20_000):
        slot = Slot(rng.choice([1, 1, 1, 2, 3]))
        before = meter.enter(slot, slot + 10, b"k")
        lasts = rng.randint(1, 10) * (5 if slot == 3 else 1)
        now[0] += lasts
        spent[slot] += lasts
        meter.leave(before)
        meter.take_up(7)
        now[0] += 3  # no slot's, on the way from vertex 7 to a door
    for slot, cost, _ in meter.take():
        assert abs(cost - spent[slot]) < spent[slot] / 10
        assert meter.by_vertex[slot + 10] == cost
    assert abs(meter.by_vertex[7] - 60_000) < 6_000
    assert next(readings) < 20_000, "a few readings for many items"
