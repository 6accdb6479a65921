"""The turns of a low-latency writer's transactional ids, without a broker (tests/integration/kafka has them with
one)."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.connectors.kafka.control import WriterState
from flamestream.connectors.kafka.transactions import Transactions
from flamestream.model.ids import Attempt, Fence, LayoutVersion

FENCE = Fence(Attempt(3), LayoutVersion(1))
DEADLINE = 30.0


class Producer:
    """A producer whose commit waits until the test lets it go."""

    def __init__(self, **settings: Any) -> None:
        self.id = settings["transactional.id"]
        self.done: list[str] = []
        self.may_commit = threading.Event()

    def init_transactions(self, _: float) -> None:
        self.done.append("initialised")

    def begin_transaction(self) -> None:
        self.done.append("begun")

    def produce(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
        self.done.append(f"{topic}: {value.decode()}")

    def flush(self, _: float) -> int:
        return 0

    def commit_transaction(self, _: float) -> None:
        assert self.may_commit.wait(DEADLINE)
        self.done.append("committed")


class Outside:
    """What the transactions write to, and every producer that they made."""

    def __init__(self, low_latency: bool = True) -> None:
        self.made: list[Producer] = []
        clients = SimpleNamespace(producer=self._producer, works=lambda: None, problem="")
        output: Any = SimpleNamespace(
            job="job",
            sink="out",
            topic="out",
            low_latency=low_latency,
            more={},
            where="sink out",
            clients=clients,
        )
        control: Any = SimpleNamespace(where="control", store=self._store)
        self.transactions = Transactions(output, control, "w0")

    def _producer(self, **settings: Any) -> Producer:
        self.made.append(Producer(**settings))
        return self.made[-1]

    def _store(self, producer: Producer, state: Any, _: Any) -> None:
        producer.done.append(f"state of {state}")


def state(writer: str) -> WriterState:
    return writer.rpartition(".")[2]  # type: ignore[return-value]  # the control topic is none


def deliver(transactions: Transactions, value: bytes) -> None:
    if not transactions.open:
        transactions.begin()
    transactions.produce((b"", b""), [(b"meta", None, value, 0)], {})
    transactions.flush(lambda: None)


def test_deliveries_go_into_the_other_id_while_one_is_being_committed() -> None:
    outside = Outside()
    transactions = outside.transactions
    ids = transactions.initialise(FENCE)
    first, second = outside.made
    deliver(transactions, b"1")
    ended, _ = transactions.turn(state)
    committing = threading.Thread(target=transactions.finish, args=(ended, lambda: None))
    committing.start()
    deliver(transactions, b"2")
    assert ids == ["flamestream.job.out.w0.3-1", "flamestream.job.out.w0.3-1.2"]
    assert first.done == ["initialised", "begun", "out: 1", "state of 3-1"]
    assert second.done == ["initialised", "begun", "out: 2"] and transactions.open
    first.may_commit.set()
    committing.join(DEADLINE)
    assert first.done[-1] == "committed"


@pytest.mark.parametrize("what", ["initialise", "turn", "commit"])
def test_one_transaction_is_committed_at_a_time(what: str) -> None:
    outside = Outside()
    transactions = outside.transactions
    transactions.initialise(FENCE)
    first, second = outside.made
    deliver(transactions, b"1")
    ended, _ = transactions.turn(state)
    deliver(transactions, b"2")
    calls: dict[str, Callable[[], object]] = {
        "initialise": lambda: transactions.initialise(FENCE),
        "turn": lambda: transactions.turn(state),
        "commit": lambda: transactions.commit(state, lambda: None),
    }
    begun, over = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        calls[what]()
        over.set()

    second.may_commit.set()
    other = threading.Thread(target=call, daemon=True)
    other.start()
    assert begun.wait(DEADLINE) and not over.is_set()
    assert second.done == ["initialised", "begun", "out: 2"] and len(outside.made) == 2
    first.may_commit.set()
    transactions.finish(ended, lambda: None)
    assert over.wait(DEADLINE)


def test_a_transactional_writer_has_one_id() -> None:
    outside = Outside(low_latency=False)
    assert outside.transactions.initialise(FENCE) == ["flamestream.job.out.w0.3-1"]
    (only,) = outside.made
    only.may_commit.set()
    for value in (b"1", b"2"):
        deliver(outside.transactions, value)
        outside.transactions.commit(state, lambda: None)
    both = [["begun", f"out: {value}", "state of 3-1", "committed"] for value in "12"]
    assert only.done == ["initialised", *both[0], *both[1]]
