"""The rolling sink's argument, held at every operation: whoever dies, stands still or takes over between two
requests to the store, what was acknowledged is there once, in files and out of them.
"""

import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors.rolling import reading
from flamestream.connectors.rolling.chain import CHECKPOINT_EVERY, CHECKPOINTS, Chain
from flamestream.connectors.rolling.connector import Rolling
from flamestream.connectors.rolling.opening import FORMAT, Owner
from flamestream.connectors.rolling.parts import PartFormat, part_format
from flamestream.connectors.rolling.writing import Behind, Log
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import Fence, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.store.folder import LocalStore
from flamestream.testing.consumer_contract import SINK, bundle, fence

MINE = Owner(FORMAT, "job", "out", "jsonl", None)
SETTINGS = Rolling(path="unused", format="jsonl", roll_bytes=1 << 20)


class Died(BaseException):
    """The process is gone: nothing catches it."""


class MemoryStore:
    """`ports.ObjectStore`."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_new(self, name: str, data: bytes | memoryview) -> bool:
        if name in self.objects:
            return False
        self.objects[name] = bytes(data)
        return True

    def get(self, name: str) -> bytes:
        if name not in self.objects:
            raise Corrupt(f"object {name!r} is missing")
        return self.objects[name]

    def delete(self, *names: str) -> None:
        for name in names:
            self.objects.pop(name, None)

    def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self.objects if name.startswith(prefix))


class Watched:
    """A store as one process sees it: `interrupt` happens at its operation number `at`, before it or behind
    it."""

    def __init__(self, store: MemoryStore, at: int, behind: bool, interrupt: Callable[[], None]) -> None:
        self.store, self.left, self.behind, self.interrupt = store, at, behind, interrupt

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self.store, name)

        def call(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.behind:
                self.interrupt()
            now = self.left == 0
            try:
                return operation(*arguments)
            finally:
                if now and self.behind:
                    self.interrupt()

        return call


def form() -> PartFormat:
    return part_format("jsonl", None, "w")


class Process:
    """A worker's log of slot 0 and 1, and what it was told."""

    def __init__(
        self, store: Any, attempt: int, writer: str = "w", slots: tuple[int, ...] = (0, 1), layout: int = 1
    ) -> None:
        self.fence = fence(attempt, layout)
        action = OpenSink(self.fence, SinkName(SINK), [Slot(slot) for slot in slots])
        self.log = Log(store, SETTINGS, form(), MINE, WorkerId(writer), action)
        self.next = {
            slot: self.log.last[Slot(slot)].sequence + 1 if slot in self.log.last else 1 for slot in slots
        }
        self.acknowledged: dict[int, int] = {}

    def deliver(self, times: int = 1) -> None:
        for _ in range(times):
            bundles = [bundle(slot, sequence) for slot, sequence in self.next.items()]
            self.log.deliver(Deliver(self.fence, SinkName(SINK), 1, bundles))
            self.acknowledged = dict(self.next)
            self.next = {slot: sequence + 1 for slot, sequence in self.next.items()}


def life(store: Any, attempt: int, told: dict[int, int], writer: str = "w") -> None:
    """Open, deliver, roll, deliver, roll: what every process does. `told` gets what was acknowledged, also if
    it dies."""
    process = Process(store, attempt, writer)
    for _ in range(2):
        process.deliver(2)
        told.update(process.acknowledged)
        process.log.roll()
    process.deliver()
    told.update(process.acknowledged)


def held(store: MemoryStore) -> dict[int, list[int]]:
    """Sequences by slot, in the order of reading."""
    found: dict[int, list[int]] = {}
    for _, slot, sequence, payload in reading.rows(store, "w"):
        assert payload == f"{slot}/{sequence}"
        found.setdefault(slot, []).append(sequence)
    return found


def in_files(store: MemoryStore) -> dict[int, list[int]]:
    """By plain path: what all parts hold together."""
    found: dict[int, list[int]] = {}
    for name in store.names("part-"):
        for line in store.objects[name].splitlines():
            row = json.loads(line)
            found.setdefault(row["_slot"], []).append(row["_sequence"])
    return found


def check(store: MemoryStore, told: dict[int, int], at_least: dict[int, int]) -> None:
    """Nothing that was acknowledged is lost, nothing is there twice; files hold a prefix."""
    sequences = held(store)
    for slot, last in at_least.items():
        assert sequences[slot] == list(range(1, len(sequences[slot]) + 1))
        assert len(sequences[slot]) >= max(last, told.get(slot, 0))
    for slot, inside in in_files(store).items():
        assert sorted(inside) == list(range(1, len(inside) + 1)), f"slot {slot} in files: {inside}"


def operations(run: Callable[[Any], object]) -> int:
    """How many requests `run` makes."""
    counted = Watched(MemoryStore(), 0, False, lambda: None)
    run(counted)
    return -counted.left


COUNT = operations(lambda store: life(store, 1, {}))


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_killed_at_every_operation(behind: bool) -> None:
    """Then a successor goes on, and is killed at the same operation; the third lives."""
    for at in range(1, COUNT + 1):
        store, told = MemoryStore(), dict[int, int]()
        with pytest.raises(Died):
            life(Watched(store, at, behind, died), 1, told)
        with contextlib.suppress(Died):
            life(Watched(store, at, behind, died), 2, told)
        life(store, 3, told)
        check(store, told, {0: 5, 1: 5})


def died() -> None:
    raise Died


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_a_successor_takes_over_between_any_two_operations_and_the_zombie_goes_on(behind: bool) -> None:
    for at in range(1, COUNT + 1):
        store, of_first, of_second = MemoryStore(), dict[int, int](), dict[int, int]()

        def take_over(store: MemoryStore = store, of_second: dict[int, int] = of_second) -> None:
            life(store, 2, of_second, "heir")

        known: dict[int, int] = {}
        try:
            life(Watched(store, at, behind, take_over), 1, of_first)
        except Fenced:
            known = of_first
        assert known or at > COUNT - 30, f"operation {at}: the zombie was not fenced"
        check(store, of_first, of_second)
        last = Process(store, 3)
        last.deliver()
        last.log.roll()
        check(store, last.acknowledged, of_second)
        assert in_files(store) == {slot: sorted(found) for slot, found in held(store).items()}, (
            "everything is in files, once"
        )


def test_a_successor_that_only_opens_and_closes_older_logs_between_any_two_operations() -> None:
    for at in range(1, COUNT + 1):
        store, told = MemoryStore(), dict[int, int]()
        opened: list[Process] = []

        def open_anew(store: MemoryStore = store, opened: list[Process] = opened) -> None:
            opened.append(Process(store, 2, "heir"))
            opened[0].log.close_older()

        with contextlib.suppress(Fenced):
            life(Watched(store, at, False, open_anew), 1, told)
        assert opened
        opened[0].deliver()
        opened[0].log.roll()
        check(store, told, {0: 1})
        assert len(held(store)[0]) >= told.get(0, 0)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_deliveries_go_on_while_a_part_is_made_and_then_the_process_dies(behind: bool) -> None:
    """The successor finds a part that holds fewer segments than it sees."""
    for at in range(1, 12):
        store = MemoryStore()
        watched = Watched(store, 0, behind, died)
        process = Process(watched, 1)
        process.deliver(2)

        def deliver_and_die(process: Process = process) -> None:
            process.deliver(2)
            raise Died

        watched.left, watched.interrupt = at, deliver_and_die
        with contextlib.suppress(Died):
            process.log.roll()
        heir = Process(store, 2)
        heir.deliver()
        heir.log.roll()
        check(store, heir.acknowledged, process.acknowledged)
        assert in_files(store) == held(store)


def test_a_seal_at_a_number_that_was_freed_is_void() -> None:
    """The owner makes a part and frees numbers between a successor's listing and its seal."""
    for at in range(1, 30):
        store = MemoryStore()
        owner = Process(store, 1)
        owner.deliver(2)

        def roll(owner: Process = owner) -> None:
            with contextlib.suppress(Fenced):
                owner.deliver(2)
                owner.log.roll()

        heir = Process(Watched(store, at, False, roll), 2, "heir")
        acknowledged = owner.acknowledged
        with pytest.raises(Fenced):
            owner.deliver()
        heir.deliver()
        check(store, heir.acknowledged, acknowledged)


def test_parts_of_older_logs_come_before_parts_of_ones_own() -> None:
    """So that by plain path too a slot has a prefix."""
    store = MemoryStore()
    first = Process(store, 1)
    first.deliver(3)
    Process(store, 2, "idle")
    heir = Process(store, 2, "heir")
    assert not heir.log.closes_older, "the first that opened under this fence does it, and it is idle"
    heir.deliver()
    heir.log.roll()
    assert {slot: len(found) for slot, found in in_files(store).items()} == {0: 4, 1: 4}


def test_many_attempts_leave_checkpoints_and_stay_readable() -> None:
    store = MemoryStore()
    for attempt in range(1, 2 * CHECKPOINT_EVERY):
        process = Process(store, attempt)
        process.deliver()
        if attempt % 2:
            process.log.finish(1)
    assert len(store.names(CHECKPOINTS)) >= 2
    assert held(store) == {slot: list(range(1, 2 * CHECKPOINT_EVERY)) for slot in (0, 1)}
    chain = Chain(store)
    chain.refresh()
    assert sorted(part.file for part in chain.parts()) == store.names("part-")


def test_a_missing_decision_segment_or_part_is_an_error() -> None:
    store = MemoryStore()
    process = Process(store, 1)
    process.deliver(3)
    process.log.roll()
    process.deliver(3)
    whole = dict(store.objects)
    for name in whole:
        if "/chain/" in name or name.startswith("part-") or name.endswith("/000000000005"):
            store.objects = {other: data for other, data in whole.items() if other != name}
            with pytest.raises(Corrupt):
                list(reading.rows(store, "w"))


def test_deliveries_wait_when_parts_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flamestream.connectors.rolling.writing.BEHIND", 0.00001)
    process = Process(MemoryStore(), 1)
    process.deliver()
    with pytest.raises(Behind, match="wait to be made into files"):
        process.deliver()
    process.log.roll()
    process.deliver()


def test_a_place_of_another_sink_or_with_other_settings_is_refused() -> None:
    store = MemoryStore()
    Process(store, 1)
    action = OpenSink(fence(2), SinkName(SINK), [Slot(0)])
    for other in (Owner(FORMAT, "other", "out", "jsonl", None), Owner(FORMAT, "job", "out", "parquet", None)):
        with pytest.raises(UserError, match="this place holds the output of job 'job', sink 'out'"):
            Log(store, SETTINGS, form(), other, WorkerId("w"), action)


def test_items_of_two_logs_are_merged_in_the_total_order(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    action = [OpenSink(fence(1), SinkName(SINK), [Slot(slot)]) for slot in (0, 1)]
    logs = [Log(store, SETTINGS, form(), MINE, WorkerId(f"w{slot}"), action[slot]) for slot in (0, 1)]
    for sequence, slot in itertools.product((1, 2, 3), (0, 1)):
        logs[slot].deliver(
            Deliver(Fence(*fence(1)), SinkName(SINK), sequence, [bundle(slot, SequenceNumber(sequence))])
        )
        if sequence == 2:
            logs[slot].roll()
    metas = [meta for meta, *_ in reading.rows(store, "w")]
    assert metas == sorted(metas)
    assert len(metas) == 6


def test_a_bundle_that_is_missing_below_the_last_of_its_slot_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    Process(store, 1).deliver(3)
    held = reading.look(store)
    left = [[numbered for numbered in segments if numbered[0] != 2] for segments in held.segments]
    monkeypatch.setattr(reading, "look", lambda _: reading.Held(held.parts, left))
    with pytest.raises(Corrupt, match="bundle 2 of slot 0 is not there, and 3 is"):
        list(reading.rows(store, "w"))
