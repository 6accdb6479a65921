"""Slots move from a worker that has too much to do for long, if that is worth it, and few of them."""

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.coordinator.assignment import next_layout, relaid
from flamestream.core.coordinator.balance import (
    ABOVE,
    GAIN,
    Balance,
    Loads,
    WorkerLoad,
    fullness,
    levelled,
    loads_of,
)
from flamestream.core.protocol.messages import MOST_SLOTS, Busy
from flamestream.model import payload as codec
from flamestream.model.ids import NO_FENCE, Slot, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.slot import slot_of

NAMES = [WorkerId(f"w{number}") for number in range(8)]
MINUTE = 60_000_000
costs = st.lists(st.integers(0, 10_000), min_size=8, max_size=64)


def told(layout: Layout, slots: Sequence[int], us: int = MINUTE) -> dict[WorkerId, Busy]:
    """What each worker says when its slots have cost so much: the greatest by name, the rest as a sum."""
    said = {}
    for worker in layout.workers:
        mine = sorted(((slot, slots[slot]) for slot in layout.slots_of(worker)), key=lambda each: -each[1])
        rest = sum(cost for _, cost in mine[MOST_SLOTS:])
        keys = [(slot, f"key of {slot}") for slot, _ in mine[:1]]
        busy = sum(cost for _, cost in mine)
        said[worker] = Busy(NO_FENCE, us, busy, mine[:MOST_SLOTS], rest, keys)
    return said


def hear(balance: Balance, layout: Layout, slots: Sequence[int], rounds: int = 1) -> Balance:
    for _ in range(rounds):
        for worker, report in told(layout, slots).items():
            balance.hear(worker, report, layout)
    return balance


def zipf(keys: int, exponent: float, whole: int) -> list[int]:
    """The cost of each of 256 slots, of records whose keys are drawn so."""
    shares = [1 / rank**exponent for rank in range(1, keys + 1)]
    slots = [0.0] * 256
    for rank, share in enumerate(shares):
        slots[slot_of(codec.encode(f"key-{rank}"), 256)] += share
    return [round(share / sum(shares) * whole) for share in slots]


@given(costs, st.integers(2, 8), st.randoms(use_true_random=False))
def test_the_fullest_is_never_fuller_than_before(slots: list[int], workers: int, rng: Random) -> None:
    names = NAMES[:workers]
    owners = [*names, *(rng.choice(names) for _ in slots[workers:])]
    loads = Loads(slots, {name: rng.randint(0, 5_000) for name in names})
    better = levelled(owners, loads)
    assert set(better) == set(names), "each keeps a slot"
    assert fullness(better, loads) <= fullness(owners, loads)
    assert sum(loads.of_workers(better).values()) == sum(loads.of_workers(owners).values())


@given(costs, st.integers(2, 8))
def test_no_two_workers_differ_by_more_than_any_slot_of_the_fuller_one_costs(
    slots: list[int], workers: int
) -> None:
    names, layout = NAMES[:workers], next_layout(None, NAMES[:workers], len(slots), 0)
    loads = Loads(slots, dict.fromkeys(names, 0))
    better = levelled(layout.owners, loads)
    found = loads.of_workers(better)
    full = max(found, key=lambda name: (found[name], name))
    least = min(
        [slots[slot] for slot, owner in enumerate(better) if owner == full and slots[slot]], default=0
    )
    assert fullness(better, loads) <= 1.02 or found[full] - min(found.values()) <= least


def test_zipf_over_eight_workers_becomes_even_by_few_moves() -> None:
    layout, slots = next_layout(None, NAMES, 256, 0), zipf(100_000, 1.0, 8 * MINUTE // 2)
    balance = hear(Balance(5 * MINUTE), layout, slots, rounds=5)
    target = balance.target(layout)
    assert target is not None
    loads = Loads(slots, dict.fromkeys(NAMES, 0))
    assert fullness(layout.owners, loads) > 1.5
    assert fullness(target, loads) <= 1.1
    assert sum(one != other for one, other in zip(layout.owners, target, strict=True)) <= 25


def test_nothing_moves_before_the_fullest_was_too_full_for_long_enough_without_a_break() -> None:
    layout = next_layout(None, NAMES[:2], 8, 0)
    uneven, even = [MINUTE // 8] * 4 + [MINUTE // 100] * 4, [MINUTE // 16] * 8
    balance = hear(Balance(5 * MINUTE), layout, uneven, rounds=4)
    assert balance.target(layout) is None
    hear(balance, layout, even)
    hear(balance, layout, uneven, rounds=4)
    assert balance.target(layout) is None
    assert hear(balance, layout, uneven).target(layout) is not None


def test_a_report_of_one_worker_alone_decides_nothing() -> None:
    layout = next_layout(None, NAMES[:2], 8, 0)
    balance, said = Balance(1), told(layout, [MINUTE // 8] * 4 + [0] * 4)
    for _ in range(10):
        balance.hear(NAMES[0], said[NAMES[0]], layout)
    assert balance.target(layout) is None
    balance.hear(NAMES[1], said[NAMES[1]], layout)
    assert balance.target(layout) is not None


def test_workers_with_little_to_do_are_left_alone_however_uneven() -> None:
    layout = next_layout(None, NAMES[:2], 8, 0)
    assert hear(Balance(1), layout, [MINUTE // 40] * 4 + [0] * 4, 9).target(layout) is None


def test_what_gains_less_than_a_tenth_moves_nothing() -> None:
    layout = next_layout(None, NAMES[:2], 4, 0)
    # the one great slot cannot be split, and the small one beside it is not worth a move
    slots = [MINUTE // 2, MINUTE // 50, MINUTE // 4, 0]
    balance = hear(Balance(1), layout, slots)
    assert fullness(layout.owners, balance.loads(layout)) > ABOVE
    assert balance.target(layout) is None


def test_a_slot_hotter_than_a_worker_is_named_with_its_key() -> None:
    layout = next_layout(None, NAMES[:2], 4, 0)
    balance = hear(Balance(1), layout, [MINUTE // 2, MINUTE // 50, MINUTE // 4, 0])
    (hot,) = balance.hot
    assert (hot.slot, hot.key) == (0, "key of 0")
    assert 1.2 < hot.times < 1.4
    balance.restart()
    assert balance.hot, "it is as hot in the next layout"
    assert not hear(balance, layout, [MINUTE // 4] * 4).hot


def test_time_beside_the_slots_stays_where_it_is() -> None:
    layout = next_layout(None, NAMES[:2], 4, 0)
    balance = Balance(1)
    half = MINUTE // 2
    balance.hear(NAMES[0], Busy(NO_FENCE, MINUTE, half, [(Slot(0), 1000), (Slot(1), 1000)]), layout)
    balance.hear(NAMES[1], Busy(NO_FENCE, MINUTE, 2000, [(Slot(2), 1000), (Slot(3), 1000)]), layout)
    assert balance.is_due
    assert balance.target(layout) is None, "no slot makes it full, so none is worth a move"


@given(st.integers(2, 8), st.randoms(use_true_random=False), st.integers(1, 40))
def test_a_load_that_stays_the_same_moves_slots_once_at_most(
    workers: int, rng: Random, frequent: int
) -> None:
    layout = next_layout(None, NAMES[:workers], 64, 0)
    slots = [rng.randint(0, MINUTE // 300) * (frequent if rng.random() < 0.1 else 1) for _ in range(64)]
    balance, moves = Balance(5 * MINUTE), 0
    for _ in range(30):
        hear(balance, layout, slots)
        if (target := balance.target(layout)) is not None:
            before = fullness(layout.owners, Loads(slots, dict.fromkeys(layout.workers, 0)))
            layout, moves = relaid(layout, target, 0), moves + 1
            after = fullness(layout.owners, Loads(slots, dict.fromkeys(layout.workers, 0)))
            assert after <= (1 - GAIN) * before
            balance.restart()
    assert moves <= 1


def test_a_balance_without_patience_moves_nothing() -> None:
    layout = next_layout(None, NAMES[:2], 8, 0)
    assert hear(Balance(None), layout, [MINUTE // 8] * 4 + [0] * 4, 99).target(layout) is None


def test_what_a_slot_costs_is_told_by_all_reports_though_each_names_but_a_few() -> None:
    layout = next_layout(None, NAMES[:1], slots=64, fronts=1)
    rng, load = Random(1), WorkerLoad()
    for _ in range(15):
        costs = sorted(((rng.randint(900, 1_100), slot) for slot in range(64)), reverse=True)
        top = [(Slot(slot), cost) for cost, slot in costs[:MOST_SLOTS]]
        rest = sum(cost for cost, _ in costs[MOST_SLOTS:])
        load.add(Busy(NO_FENCE, MINUTE, 70_000, top, rest, []))
    found = loads_of({NAMES[0]: load}, layout)
    assert all(14_000 < cost < 16_000 for cost in found.slots)
