"""The conformance kit of sinks: checks of what every consumer must do, which any adapter can be run through
(docs/reference/connectors.md).

    @pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
    def test_my_sink(check, tmp_path):
        check(MyOutside(tmp_path))

An `Outside` is one consumer's durable half, empty at first; `connect` gives a worker's adapter to it. Each
check states one promise:

| promise                    | checks |
|----------------------------|-----|
| the last bundle is kept    | for the next owner, over attempts without output and changes of owners |
| fencing                    | an older attempt or layout is refused, also when its delivery and the new opening race |
| each item once, in order   | resends (known in part, changed), gaps; slots and workers side by side |
| an acknowledgement is true | what is acknowledged is there; nothing is said after `close` |

Outsides that can do more have more checks: `check_torn_at_any_byte` (its log can be cut), consumer_outages.py
(its server can be killed and started) and consumer_kills.py (workers that are processes of their own are
killed).

Does not: measure.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import (
    BundlesAcknowledged,
    LastBundle,
    SinkFailed,
    SinkFenced,
    SinkOpened,
)
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, SinkName, Slot
from flamestream.model.payload import encode_items
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.port_driver import PortDriver, checks_in

SINK: Final = SinkName("out")


class Reachable(Protocol):
    """An outside that a worker can be connected to."""

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        """The adapter of a new worker, for sink `out`."""
        ...


class Outside(Reachable, Protocol):
    """The consumer itself, which outlives every worker."""

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        """(slot, sequence, items) of everything it has taken, in order per slot."""
        ...


class TearableOutside(Outside, Protocol):
    """A consumer whose newest write can be cut."""

    def tear(self) -> bool:
        """Cut one more byte off the newest log; False if nothing is left of it."""
        ...


def fence(attempt: int, layout: int = 1) -> Fence:
    """A fence."""
    return Fence(Attempt(attempt), LayoutVersion(layout))


def bundle(slot: int, sequence: int, text: str = "") -> Bundle:
    """A bundle of one item whose bytes depend on the arguments alone."""
    meta = sequence.to_bytes(9, "big") + bytes([slot])
    return Bundle(
        Slot(slot), SequenceNumber(sequence), meta, encode_items([(meta, text or f"{slot}/{sequence}")])
    )


class Worker:
    """The side of one worker of a sink, driven by hand."""

    def __init__(self, outside: Reachable, writer: str, driver: PortDriver) -> None:
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


@contextmanager
def one_worker(outside: Outside) -> Iterator[Worker]:
    """Worker `w1`, in a loop of its own that ends with the check."""
    with PortDriver() as driver:
        yield Worker(outside, "w1", driver)


def check_new_slots_have_no_last_bundle(outside: Outside) -> None:
    with PortDriver() as driver:
        assert Worker(outside, "w1", driver).open(fence(1), 0, 1) == {}


def check_last_bundle_is_kept_for_the_next_owner(outside: Outside) -> None:
    with one_worker(outside) as first:
        first.open(fence(1), 0, 1)
        first.deliver(fence(1), bundle(0, 1), bundle(1, 1))
        first.deliver(fence(1), bundle(1, 2))
        last = Worker(outside, "w2", first.driver).open(fence(2), 0, 1)
    assert last == {
        Slot(slot): LastBundle(b.sequence, b.t_last, b.items)
        for slot, b in enumerate([bundle(0, 1), bundle(1, 2)])
    }


def check_last_bundle_survives_attempts_without_output(outside: Outside) -> None:
    with one_worker(outside) as first:
        first.open(fence(1), 0)
        first.deliver(fence(1), bundle(0, 1))
        # Attempts that die before their first delivery must not hide what was delivered before them.
        for attempt in (2, 3, 4):
            last = Worker(outside, f"w{attempt}", first.driver).open(fence(attempt), 0)
        assert last[Slot(0)].sequence == 1


def check_the_same_worker_can_open_anew(outside: Outside) -> None:
    with one_worker(outside) as survivor:
        survivor.open(fence(1), 0)
        survivor.deliver(fence(1), bundle(0, 1))
        # A recovery opens all slots, also those that stay where they are (!).
        assert survivor.open(fence(2), 0)[Slot(0)].sequence == 1
        survivor.deliver(fence(2), bundle(0, 2))
    assert [sequence for _, sequence, _ in outside.taken()] == [1, 2]


def check_a_writer_may_open_again_and_again(outside: Outside) -> None:
    """Each batch of a micro-batch job opens anew, under one fence."""
    openings = range(1, 13)
    for number in openings:
        with one_worker(outside) as writer:
            last = writer.open(fence(1), 0)
            assert [bundle.sequence for bundle in last.values()] == [number - 1] * (number > 1)
            writer.deliver(fence(1), bundle(0, number))
    assert [sequence for _, sequence, _ in outside.taken()] == [*openings]


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
        # With the heir's next number: if it were taken, the heir's own would be a repeat that differs.
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
    with one_worker(outside) as first:
        first.open(fence(1), 0)
        first.deliver(fence(1), bundle(0, 1))
        heir = Worker(outside, "w2", first.driver)
        heir.open(fence(2), 0)
        heir.deliver(fence(2), bundle(0, 1))
    assert len(outside.taken()) == 1


def check_a_delivery_may_be_partly_known(outside: Outside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0, 1)
        worker.deliver(fence(1), bundle(0, 1))
        worker.deliver(fence(1), bundle(0, 1), bundle(1, 1))
    assert sorted(slot for slot, _, _ in outside.taken()) == [0, 1]


def check_a_changed_resend_is_refused(outside: Outside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        worker.send(fence(1), bundle(0, 1, "something else"))
        assert "slot 0" in worker.driver.take(SinkFailed).message
    assert [items for _, _, items in outside.taken()] == [bundle(0, 1).items]


def check_a_missing_bundle_is_noticed(outside: Outside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 2))
        assert "slot 0" in worker.driver.take(SinkFailed).message
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
    assert sorted((slot, sequence) for slot, sequence, _ in outside.taken()) == [
        (slot, s) for slot in (0, 1) for s in (1, 2, 3)
    ]


def check_each_slot_keeps_its_order(outside: Outside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0, 1, 2)
        for sequence in range(1, 20):
            worker.deliver(fence(1), *(bundle(slot, sequence) for slot in range(3)))
    for slot in range(3):
        assert [sequence for found, sequence, _ in outside.taken() if found == slot] == list(range(1, 20))


def check_what_is_acknowledged_is_there(outside: Outside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0, 1)
        for sequence in (1, 2, 3):
            worker.deliver(fence(1), bundle(0, sequence), bundle(1, sequence))
            assert sorted(outside.taken()) == [
                (slot, s, bundle(slot, s).items) for slot in (0, 1) for s in range(1, sequence + 1)
            ]


def check_a_delivery_of_many_slots(outside: Outside) -> None:
    slots = range(256)
    with one_worker(outside) as worker:
        worker.open(fence(1), *slots)
        for sequence in (1, 2):
            worker.deliver(fence(1), *(bundle(slot, sequence) for slot in slots))
        worker.deliver(fence(1), *(bundle(slot, 3) for slot in slots[::7]))
        last = Worker(outside, "w2", worker.driver).open(fence(2), *slots)
    assert {slot: found.items for slot, found in last.items()} == {
        slot: bundle(slot, 2 + (slot % 7 == 0)).items for slot in slots
    }


def check_an_item_may_be_big(outside: Outside) -> None:
    text = "much " * 100_000
    with one_worker(outside) as worker:
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1, text))
        assert (
            Worker(outside, "w2", worker.driver).open(fence(2), 0)[Slot(0)].items == bundle(0, 1, text).items
        )


def check_slots_change_their_owners(outside: Outside) -> None:
    with PortDriver() as driver:
        owners = [Worker(outside, "w1", driver), Worker(outside, "w2", driver)]
        for layout in range(1, 5):
            for number, worker in enumerate(owners):
                slot = (number + layout) % 2
                last = worker.open(fence(1, layout), slot)
                assert (last[Slot(slot)].sequence if last else 0) == layout - 1
            for number, worker in enumerate(owners):
                worker.deliver(fence(1, layout), bundle((number + layout) % 2, layout))
    assert sorted((slot, sequence) for slot, sequence, _ in outside.taken()) == [
        (slot, s) for slot in (0, 1) for s in range(1, 5)
    ]


def check_a_delivery_that_races_with_a_new_owner(outside: Outside) -> None:
    """Either it is acknowledged, then the new owner knows it; or it is refused, and then it may be there or
    not, but only once."""
    with PortDriver() as driver:
        owner, sequence = Worker(outside, "w0", driver), 0
        owner.open(fence(1), 0)
        for attempt in range(2, 12):
            heir = Worker(outside, f"w{attempt}", driver)
            number = owner.send(fence(attempt - 1), bundle(0, sequence + 1))
            # at another moment of the delivery each time
            driver.settle(attempt % 4)
            heir.consumer.open(OpenSink(fence(attempt), SINK, [Slot(0)]))
            last = driver.take(SinkOpened).last
            known = last[Slot(0)].sequence if last else 0
            assert known in (sequence, sequence + 1)
            if _is_acknowledged(driver, fence(attempt - 1), number):
                assert known == sequence + 1, "it was acknowledged, and its new owner does not know it"
            owner, sequence = heir, known
            owner.deliver(fence(attempt), bundle(0, sequence + 1))
            sequence += 1
    assert [found for _, found, _ in outside.taken()] == list(range(1, sequence + 1))


def _is_acknowledged(driver: PortDriver, under: Fence, number: int) -> bool:
    """Wait for the answer of a delivery: acknowledged, or fenced."""
    answers = (BundlesAcknowledged(under, SINK, number), SinkFenced(under, SINK))
    driver.until(
        lambda: any(event in answers for event in driver.events), f"an answer to delivery {number} of {under}"
    )
    found = next(event for event in driver.events if event in answers)
    driver.events.remove(found)
    return found == answers[0]


def check_a_closed_one_is_silent(outside: Outside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 1))
        worker.consumer.close()
        # an answer from before `close` may be among them
        before = list(worker.driver.events)
        worker.driver.settle()
        assert worker.driver.events == before


def check_torn_at_any_byte(outside: TearableOutside) -> None:
    """Whatever is left of the last write, the delivery before it is whole, and the next attempt goes on
    behind it."""
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
            assert [sequence for slot, sequence, _ in outside.taken() if slot == 0] == [1], (
                f"{tears} bytes torn off"
            )
        assert tears > 8, "there was nothing to tear"


def check_nothing_behind_a_newer_fence(outside: Outside) -> None:
    """A delivery that a zombie had under way when it was replaced is taken before the heir has looked, or
    never."""
    with PortDriver() as driver:
        for attempt in range(1, 6):
            zombie, heir = Worker(outside, f"z{attempt}", driver), Worker(outside, f"h{attempt}", driver)
            older, newer = fence(2 * attempt - 1), fence(2 * attempt)
            had = zombie.open(older, 0).get(Slot(0))
            next_one = bundle(0, had.sequence + 1 if had else 1)
            zombie.send(older, next_one)
            last = heir.open(newer, 0).get(Slot(0))
            # Time for what the zombie had under way to come too late.
            driver.settle()
            taken = [sequence for _, sequence, _ in outside.taken()]
            assert taken == list(range(1, (last.sequence if last else 0) + 1)), (
                f"taken {taken}, but the heir was told {last}"
            )
            driver.events.clear()


CONSUMER_CHECKS: Final[list[Callable[[Outside], None]]] = checks_in(globals(), but=[check_torn_at_any_byte])
