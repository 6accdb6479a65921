"""What every consumer must do, as checks that any adapter can be run through.

    @pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
    def test_my_sink(check, tmp_path):
        check(MyOutside(tmp_path))

An `Outside` is one consumer's durable half, empty at first; `connect` gives a worker's adapter to it. Each check states one promise.
A `MortalOutside` is a server that can be killed: MORTAL_CHECKS kill it before, between and during deliveries.

What only some outsides allow has checks of its own: a torn log (`check_torn_at_any_byte`), workers in processes that are killed
(`check_killed_at_any_moment`), a server that is killed (`check_a_killed_server_keeps_all`). Does not: measure.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from flamestream.core.actions import Bundle, Deliver, OpenSink
from flamestream.core.events import BundlesAcknowledged, LastBundle, SinkFailed, SinkFenced, SinkOpened
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, SinkName, Slot
from flamestream.model.payload import decode_items, encode_items
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.delivering import item
from flamestream.testing.port_driver import PortDriver

SINK: Final = SinkName("out")


class Outside(Protocol):
    """The consumer itself, which outlives every worker."""

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        """The adapter of a new worker, for sink `out`."""
        ...

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        """(slot, sequence, items) of everything it has taken, in order per slot."""
        ...


class TearableOutside(Outside, Protocol):
    """Its newest write can be cut."""

    def tear(self) -> bool:
        """Cut one more byte off the newest log; False if nothing is left of it."""
        ...


class SpecOutside(Outside, Protocol):
    """It can be reached by a spec, from any process, as sink `out` of job `job`."""

    spec: dict[str, Any]


class RestartableOutside(Outside, Protocol):
    """Its server can be killed, and started again with what it had."""

    def kill(self) -> None: ...
    def start(self) -> None: ...


class MortalOutside(Outside, Protocol):
    """A server of its own."""

    def kill(self) -> None:
        """SIGKILL; back when it is dead."""
        ...

    def revive(self) -> None:
        """Start it again with what it has on its disk; back when it answers."""
        ...


def fence(attempt: int, layout: int = 1) -> Fence:
    """A fence."""
    return Fence(Attempt(attempt), LayoutVersion(layout))


def bundle(slot: int, sequence: int, text: str = "") -> Bundle:
    """A bundle of one item whose bytes depend on the arguments alone."""
    meta = sequence.to_bytes(9, "big") + bytes([slot])
    return Bundle(Slot(slot), SequenceNumber(sequence), meta, encode_items([(meta, text or f"{slot}/{sequence}")]))


class Worker:
    """One worker's side of a sink, driven by hand."""

    def __init__(self, outside: Outside, writer: str, driver: PortDriver) -> None:
        self.driver = driver
        self.consumer = outside.connect(writer, driver.post, driver.reactor)
        driver.at_exit.append(self.consumer.close)
        self._number = 0

    def open(self, under: Fence, *slots: int) -> dict[Slot, LastBundle]:
        """The last bundles. Fails if it is fenced."""
        self.send_open(under, *slots)
        opened = self.driver.take(SinkOpened)
        assert opened.fence == under, f"opened under {opened.fence}, asked for {under}"
        return dict(opened.last)

    def send_open(self, under: Fence, *slots: int) -> None:
        """Open without waiting."""
        self.consumer.open(OpenSink(under, SINK, [Slot(slot) for slot in slots]))

    def send(self, under: Fence, *bundles: Bundle) -> int:
        """Deliver without waiting. The delivery's number."""
        self._number += 1
        self.consumer.deliver(Deliver(under, SINK, self._number, bundles))
        return self._number

    def deliver(self, under: Fence, *bundles: Bundle) -> None:
        """Deliver and wait for the acknowledgement."""
        number = self.send(under, *bundles)
        acknowledged = self.driver.take(BundlesAcknowledged)
        assert acknowledged == BundlesAcknowledged(under, SINK, number)


def check_new_slots_have_no_last_bundle(outside: Outside) -> None:
    with PortDriver() as driver:
        assert Worker(outside, "w1", driver).open(fence(1), 0, 1) == {}


def check_last_bundle_is_kept_for_the_next_owner(outside: Outside) -> None:
    with PortDriver() as driver:
        first = Worker(outside, "w1", driver)
        first.open(fence(1), 0, 1)
        first.deliver(fence(1), bundle(0, 1), bundle(1, 1))
        first.deliver(fence(1), bundle(1, 2))
        last = Worker(outside, "w2", driver).open(fence(2), 0, 1)
    assert last == {Slot(slot): LastBundle(b.sequence, b.t_last, b.items) for slot, b in enumerate([bundle(0, 1), bundle(1, 2)])}


def check_last_bundle_survives_attempts_without_output(outside: Outside) -> None:
    with PortDriver() as driver:
        first = Worker(outside, "w1", driver)
        first.open(fence(1), 0)
        first.deliver(fence(1), bundle(0, 1))
        for attempt in (2, 3, 4):
            last = Worker(outside, f"w{attempt}", driver).open(fence(attempt), 0)
        assert last[Slot(0)].sequence == 1


def check_the_same_worker_can_open_anew(outside: Outside) -> None:
    with PortDriver() as driver:
        survivor = Worker(outside, "w1", driver)
        survivor.open(fence(1), 0)
        survivor.deliver(fence(1), bundle(0, 1))
        assert survivor.open(fence(2), 0)[Slot(0)].sequence == 1
        survivor.deliver(fence(2), bundle(0, 2))
    assert [sequence for _, sequence, _ in outside.taken()] == [1, 2]


def check_an_older_attempt_is_refused(outside: Outside) -> None:
    _check_refused(outside, older=fence(1), newer=fence(2))


def check_an_older_layout_is_refused(outside: Outside) -> None:
    _check_refused(outside, older=fence(1, 1), newer=fence(1, 2))


def _check_refused(outside: Outside, older: Fence, newer: Fence) -> None:
    with PortDriver() as driver:
        zombie, heir = Worker(outside, "w1", driver), Worker(outside, "w2", driver)
        zombie.open(older, 0)
        zombie.deliver(older, bundle(0, 1))
        heir.open(newer, 0)
        zombie.send(older, bundle(0, 2, "of the zombie"))
        assert driver.take(SinkFenced) == SinkFenced(older, SINK)
        heir.deliver(newer, bundle(0, 2))
    assert [items for _, _, items in outside.taken()] == [bundle(0, 1).items, bundle(0, 2).items]


def check_opening_under_an_older_fence_is_refused(outside: Outside) -> None:
    with PortDriver() as driver:
        Worker(outside, "w2", driver).open(fence(2), 0)
        Worker(outside, "w1", driver).consumer.open(OpenSink(fence(1), SINK, [Slot(0)]))
        assert driver.take(SinkFenced) == SinkFenced(fence(1), SINK)


def check_a_resent_bundle_is_taken_once(outside: Outside) -> None:
    with PortDriver() as driver:
        first = Worker(outside, "w1", driver)
        first.open(fence(1), 0)
        first.deliver(fence(1), bundle(0, 1))
        heir = Worker(outside, "w2", driver)
        heir.open(fence(2), 0)
        heir.deliver(fence(2), bundle(0, 1))
    assert len(outside.taken()) == 1


def check_a_delivery_may_be_partly_known(outside: Outside) -> None:
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), 0, 1)
        worker.deliver(fence(1), bundle(0, 1))
        worker.deliver(fence(1), bundle(0, 1), bundle(1, 1))
    assert sorted(slot for slot, _, _ in outside.taken()) == [0, 1]


def check_a_changed_resend_is_refused(outside: Outside) -> None:
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        worker.send(fence(1), bundle(0, 1, "something else"))
        assert "slot 0" in driver.take(SinkFailed).message
    assert [items for _, _, items in outside.taken()] == [bundle(0, 1).items]


def check_a_missing_bundle_is_noticed(outside: Outside) -> None:
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 2))
        assert "slot 0" in driver.take(SinkFailed).message
    assert list(outside.taken()) == []


def check_workers_of_one_attempt_share_it(outside: Outside) -> None:
    with PortDriver() as driver:
        first, second = Worker(outside, "w1", driver), Worker(outside, "w2", driver)
        first.open(fence(1), 0)
        second.open(fence(1), 1)
        for sequence in (1, 2, 3):
            first.deliver(fence(1), bundle(0, sequence))
            second.deliver(fence(1), bundle(1, sequence))
        assert {last.sequence for last in Worker(outside, "w3", driver).open(fence(2), 0, 1).values()} == {3}
    assert sorted((slot, sequence) for slot, sequence, _ in outside.taken()) == [(slot, s) for slot in (0, 1) for s in (1, 2, 3)]


def check_each_slot_keeps_its_order(outside: Outside) -> None:
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), 0, 1, 2)
        for sequence in range(1, 20):
            worker.deliver(fence(1), *(bundle(slot, sequence) for slot in range(3)))
    for slot in range(3):
        assert [sequence for found, sequence, _ in outside.taken() if found == slot] == list(range(1, 20))


def check_torn_at_any_byte(outside: TearableOutside) -> None:
    """Whatever is left of the last write, the delivery before it is whole, and the next attempt goes on behind it."""
    with PortDriver() as driver:
        worker = Worker(outside, "w0", driver)
        worker.open(fence(1), 0, 1)
        worker.deliver(fence(1), bundle(0, 1), bundle(1, 1))
        heir = Worker(outside, "w1", driver)
        heir.open(fence(2), 0, 1)
        heir.deliver(fence(2), bundle(0, 2), bundle(1, 2))
        tears = 0
        while outside.tear():
            tears += 1
            assert [sequence for slot, sequence, _ in outside.taken() if slot == 0] == [1], f"{tears} bytes torn off"
        assert tears > 8, "there was nothing to tear"


def check_killed_at_any_moment(outside: SpecOutside, seed: int = 1, lives: int = 6, items: int = 400) -> None:
    """Workers die by SIGKILL in the middle of deliveries; each item is taken once, in order, and none that was acknowledged is missing."""
    rng = random.Random(seed)
    slots = list(range(8))
    acknowledged = dict.fromkeys(slots, 0)
    for attempt in range(1, lives + 1):
        config = {"spec": outside.spec, "attempt": attempt, "slots": slots, "items": items, "seed": seed}
        last = attempt == lives
        told = _one_life(config, None if last else rng.randint(1, 25), rng.uniform(0, 0.006))
        acknowledged = {slot: max(acknowledged[slot], told.get(str(slot), 0)) for slot in slots}
    wanted = {slot: [item(slot, number) for number in range(items)] for slot in slots}
    found: dict[int, list[tuple[bytes, object]]] = {slot: [] for slot in slots}
    for slot, _, encoded in outside.taken():
        found[slot] += decode_items(encoded)
    assert acknowledged == dict.fromkeys(slots, items), f"seed {seed}: the last worker did not get through: {acknowledged}"
    for slot in slots:
        assert found[slot] == wanted[slot], f"seed {seed}, slot {slot}: {_difference(found[slot], wanted[slot])}"


def _one_life(config: dict[str, Any], deliveries: int | None, more_seconds: float) -> dict[str, int]:
    """Let a worker live for so many deliveries, and part of the next one. What it was told of last."""
    command = [sys.executable, "-m", "flamestream.testing.delivering", json.dumps(config)]
    told: dict[str, int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for count, line in enumerate(process.stdout):
            told = json.loads(line) or told
            if count == deliveries:
                time.sleep(more_seconds)  # into the delivery that is under way: where in it is the point
                process.kill()
                break
        for line in process.stdout:
            told = json.loads(line) if line.endswith("}\n") else told
    assert deliveries is not None or process.returncode == 0, f"the last worker ended with {process.returncode}"
    return told


def _difference(found: Sequence[object], wanted: Sequence[object]) -> str:
    place = next((i for i, (have, want) in enumerate(zip(found, wanted, strict=False)) if have != want), min(len(found), len(wanted)))
    return (
        f"{len(found)} items instead of {len(wanted)}; from item {place} on {found[place : place + 3]}, wanted {wanted[place : place + 3]}"
    )


def check_a_killed_server_keeps_all(outside: RestartableOutside) -> None:
    """The server is killed behind a delivery and in the middle of one: what was acknowledged is there, the other is taken once."""
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), 0, 1)
        worker.deliver(fence(1), bundle(0, 1), bundle(1, 1))
        outside.kill()
        worker.send(fence(1), bundle(0, 2), bundle(1, 2))
        driver.settle()
        assert not [event for event in driver.events if isinstance(event, BundlesAcknowledged)], "nobody was there to take it"
        outside.start()
        driver.take(BundlesAcknowledged)
        worker.deliver(fence(1), bundle(0, 3))
        outside.kill()
        heir = Worker(outside, "w2", driver)
        heir.consumer.open(OpenSink(fence(2), SINK, [Slot(0), Slot(1)]))
        driver.settle()
        outside.start()
        assert {slot: last.sequence for slot, last in driver.take(SinkOpened).last.items()} == {0: 3, 1: 2}
        heir.deliver(fence(2), bundle(1, 3))
    assert sorted((slot, sequence) for slot, sequence, _ in outside.taken()) == [(slot, s) for slot in (0, 1) for s in (1, 2, 3)]


def check_nothing_behind_a_newer_fence(outside: Outside) -> None:
    """What a zombie had under way when it was replaced is taken before the heir has looked, or never."""
    with PortDriver() as driver:
        for attempt in range(1, 6):
            zombie, heir = Worker(outside, f"z{attempt}", driver), Worker(outside, f"h{attempt}", driver)
            older, newer = fence(2 * attempt - 1), fence(2 * attempt)
            had = zombie.open(older, 0).get(Slot(0))
            next_one = bundle(0, had.sequence + 1 if had else 1)
            zombie.send(older, next_one)
            last = heir.open(newer, 0).get(Slot(0))
            driver.settle()
            taken = [sequence for _, sequence, _ in outside.taken()]
            assert taken == list(range(1, (last.sequence if last else 0) + 1)), f"taken {taken}, but the heir was told {last}"
            driver.events.clear()


def check_what_was_acknowledged_survives_its_death(outside: MortalOutside) -> None:
    with PortDriver() as driver:
        first = Worker(outside, "w1", driver)
        first.open(fence(1), 0, 1)
        first.deliver(fence(1), bundle(0, 1), bundle(1, 1))
        outside.kill()
        outside.revive()
        last = Worker(outside, "w2", driver).open(fence(2), 0, 1)
    assert {slot: bundle.sequence for slot, bundle in last.items()} == {Slot(0): 1, Slot(1): 1}
    assert sorted((slot, sequence) for slot, sequence, _ in outside.taken()) == [(0, 1), (1, 1)]


def check_a_delivery_waits_while_it_is_dead(outside: MortalOutside) -> None:
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        outside.kill()
        worker.send(fence(1), bundle(0, 2))
        driver.until(lambda: bool(getattr(worker.consumer, "problem", "")), "a `problem` that says why nothing is delivered")
        assert driver.events == [], "nothing is acknowledged, and nothing fails, while it is dead"
        outside.revive()
        driver.take(BundlesAcknowledged)
        worker.deliver(fence(1), bundle(0, 3))
        assert not getattr(worker.consumer, "problem", "")
    assert [sequence for _, sequence, _ in outside.taken()] == [1, 2, 3]


def check_opening_waits_while_it_is_dead(outside: MortalOutside) -> None:
    with PortDriver() as driver:
        outside.kill()
        worker = Worker(outside, "w1", driver)
        worker.consumer.open(OpenSink(fence(1), SINK, [Slot(0)]))
        driver.until(lambda: bool(getattr(worker.consumer, "problem", "")), "a `problem` that says why nothing is opened")
        outside.revive()
        assert driver.take(SinkOpened).last == {}


def check_a_zombie_stays_fenced_after_its_death(outside: MortalOutside) -> None:
    with PortDriver() as driver:
        zombie, heir = Worker(outside, "w1", driver), Worker(outside, "w2", driver)
        zombie.open(fence(1), 0)
        zombie.deliver(fence(1), bundle(0, 1))
        heir.open(fence(2), 0)
        outside.kill()
        outside.revive()
        zombie.send(fence(1), bundle(0, 2, "of the zombie"))
        assert driver.take(SinkFenced) == SinkFenced(fence(1), SINK)
        heir.deliver(fence(2), bundle(0, 2))
    assert [items for _, _, items in outside.taken()] == [bundle(0, 1).items, bundle(0, 2).items]


def check_killed_at_any_moment_of_a_delivery(outside: MortalOutside, kills: int = 12) -> None:
    """Whatever it was at when it died, every bundle is there once, and each is acknowledged."""
    slots = range(3)
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), *slots)
        for sequence in range(1, kills + 1):
            worker.send(fence(1), *(bundle(slot, sequence, str(sequence) * 5000) for slot in slots))
            for _ in range(sequence % 4):  # the moment differs: not sent yet, under way, done
                driver.settle(1)
            outside.kill()
            outside.revive()
            driver.take(BundlesAcknowledged)
        assert not driver.events
    for slot in slots:
        taken = [(sequence, items) for found, sequence, items in outside.taken() if found == slot]
        assert taken == [(sequence, bundle(slot, sequence, str(sequence) * 5000).items) for sequence in range(1, kills + 1)]


CONSUMER_CHECKS: Final[list[Callable[[Outside], None]]] = [
    check_new_slots_have_no_last_bundle,
    check_last_bundle_is_kept_for_the_next_owner,
    check_last_bundle_survives_attempts_without_output,
    check_the_same_worker_can_open_anew,
    check_an_older_attempt_is_refused,
    check_an_older_layout_is_refused,
    check_opening_under_an_older_fence_is_refused,
    check_a_resent_bundle_is_taken_once,
    check_a_delivery_may_be_partly_known,
    check_a_changed_resend_is_refused,
    check_a_missing_bundle_is_noticed,
    check_workers_of_one_attempt_share_it,
    check_each_slot_keeps_its_order,
    check_nothing_behind_a_newer_fence,
]
MORTAL_CHECKS: Final[list[Callable[[MortalOutside], None]]] = [
    check_what_was_acknowledged_survives_its_death,
    check_a_delivery_waits_while_it_is_dead,
    check_opening_waits_while_it_is_dead,
    check_a_zombie_stays_fenced_after_its_death,
    check_killed_at_any_moment_of_a_delivery,
]
