"""Checks of a consumer while its outside is away, for an outside whose server can be killed and started
again.

    @pytest.mark.parametrize("check", CONSUMER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
    def test_my_sink_outlives_its_server(check, server):
        check(MyOutside(server))

An outage is nobody's fault: nothing is acknowledged, nothing fails, and when the server is back everything is
there once.

Does not: cut connections of a server that stays (the server's kill does that, and loses what the server had
not written).
"""

from collections.abc import Callable
from typing import Final, Protocol

from flamestream.core.protocol.actions import OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed, SinkOpened
from flamestream.model.ids import Slot
from flamestream.testing.consumer_contract import SINK, Outside, Worker, bundle, fence, one_worker
from flamestream.testing.port_driver import PortDriver, Stoppable, checks_in


class StoppableOutside(Outside, Stoppable, Protocol):
    """A consumer whose server can be killed. `taken` is asked only while it runs."""


def check_what_was_acknowledged_outlives_the_server(outside: StoppableOutside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0, 1)
        for sequence in range(1, 6):
            worker.deliver(fence(1), bundle(0, sequence), bundle(1, sequence))
        outside.stop()
        outside.start()
        last = Worker(outside, "w2", worker.driver).open(fence(2), 0, 1)
    assert {found.items for found in last.values()} == {bundle(slot, 5).items for slot in (0, 1)}
    assert len(outside.taken()) == 10


def check_a_delivery_waits_for_the_server(outside: StoppableOutside) -> None:
    with one_worker(outside) as worker:
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        outside.stop()
        number = worker.send(fence(1), bundle(0, 2))
        worker.driver.settle()
        assert worker.driver.events == [], (
            "nothing is acknowledged and nothing fails while the server is away"
        )
        outside.start()
        assert worker.driver.take(BundlesAcknowledged).number == number
    assert [sequence for _, sequence, _ in outside.taken()] == [1, 2]


def check_an_opening_waits_for_the_server(outside: StoppableOutside) -> None:
    with one_worker(outside) as first:
        first.open(fence(1), 0)
        first.deliver(fence(1), bundle(0, 1))
        outside.stop()
        heir = Worker(outside, "w2", first.driver)
        heir.consumer.open(OpenSink(fence(2), SINK, [Slot(0)]))
        first.driver.settle()
        assert first.driver.events == []
        outside.start()
        assert first.driver.take(SinkOpened).last[Slot(0)].sequence == 1


def check_killed_again_and_again_while_delivering(outside: StoppableOutside) -> None:
    """At another moment of the delivery each time: nothing is lost, doubled or out of order."""
    rounds = 5
    with one_worker(outside) as worker:
        worker.open(fence(1), 0, 1)
        for sequence in range(1, rounds + 1):
            number = worker.send(fence(1), bundle(0, sequence), bundle(1, sequence))
            worker.driver.settle(sequence - 1)
            outside.stop()
            outside.start()
            assert worker.driver.take(BundlesAcknowledged).number == number
        assert not [event for event in worker.driver.events if isinstance(event, SinkFailed)]
    for slot in (0, 1):
        assert [sequence for found, sequence, _ in outside.taken() if found == slot] == list(
            range(1, rounds + 1)
        )


def check_fencing_outlives_the_server(outside: StoppableOutside) -> None:
    with PortDriver() as driver:
        zombie, heir = Worker(outside, "w1", driver), Worker(outside, "w2", driver)
        zombie.open(fence(1), 0)
        heir.open(fence(2), 0)
        outside.stop()
        # It waits for the server, which has to know the newer fence again when it is back.
        zombie.send(fence(1), bundle(0, 1, "of the zombie"))
        outside.start()
        heir.deliver(fence(2), bundle(0, 1))
    assert [items for _, _, items in outside.taken()] == [bundle(0, 1).items]


def check_a_killed_server_keeps_all(outside: StoppableOutside) -> None:
    """Killed behind a delivery and in the middle of one: what was acknowledged is there, the other is taken
    once.

    All in one, for servers that take long to start.
    """
    with one_worker(outside) as worker:
        worker.open(fence(1), 0, 1)
        worker.deliver(fence(1), bundle(0, 1), bundle(1, 1))
        outside.stop()
        worker.send(fence(1), bundle(0, 2), bundle(1, 2))
        worker.driver.settle()
        assert not [event for event in worker.driver.events if isinstance(event, BundlesAcknowledged)], (
            "nobody was there to take it"
        )
        outside.start()
        worker.driver.take(BundlesAcknowledged)
        worker.deliver(fence(1), bundle(0, 3))
        outside.stop()
        heir = Worker(outside, "w2", worker.driver)
        heir.consumer.open(OpenSink(fence(2), SINK, [Slot(0), Slot(1)]))
        worker.driver.settle()
        outside.start()
        assert {slot: last.sequence for slot, last in worker.driver.take(SinkOpened).last.items()} == {
            0: 3,
            1: 2,
        }
        heir.deliver(fence(2), bundle(1, 3))
    assert sorted((slot, sequence) for slot, sequence, _ in outside.taken()) == [
        (slot, s) for slot in (0, 1) for s in (1, 2, 3)
    ]


CONSUMER_OUTAGE_CHECKS: Final[list[Callable[[StoppableOutside], None]]] = checks_in(
    globals(), but=[check_a_killed_server_keeps_all]
)
