"""A worker of native parts decides transactions as a worker of reference parts does, action by action, errors
included."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import messages
from flamestream.core.protocol.chain import Chain, chains_of
from flamestream.model import payload as codec
from flamestream.model.collections import Map
from flamestream.model.errors import UserError
from flamestream.model.ids import Epoch, Slot
from flamestream.model.kernel import kernel
from flamestream.model.tables.ledger import ALL, DecidedAs, Deciding, Numbered, Rows, WritesTo
from flamestream.model.tables.transaction import MOST_KEYS, State
from support.core.one_worker import FENCE, OneWorker

pytestmark = pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
Record = tuple[str, int]


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Owner:
    name: str
    seen: Any


def moved(state: Any, record: Record) -> Any:
    """A transfer, whose amount says what else it does."""
    account, amount = record[0], record[1] % 40
    for other in "abc"[: amount % 4]:
        state["accounts", account] -= amount
        state["accounts", other, amount % 2] += amount
    if amount == 7:
        raise fs.Abort("seven")
    if amount == 8:
        raise LookupError(account)
    state["owners", account] = Owner(account, state["owners", account].seen.append(amount))
    return state["accounts", account], state["owners", account].seen[-1]


def raised_by_its_str(state: Any, record: Record) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError

    raise Unspeakable


def nested(depth: int) -> tuple[Any, ...]:
    value: tuple[Any, ...] = ()
    for _ in range(depth):
        value = (value,)
    return value


def caught(state: Any, record: Record) -> str:
    """What it is told, it may go on after."""
    try:
        state["account", record[0]] = 1
    except UserError as error:
        return str(error)
    return ""


MISTAKES: list[Callable[[Any, Record], Any]] = [
    lambda state, record: sum(state["accounts", number] for number in range(MOST_KEYS + 1)),
    lambda state, record: sum(state["accounts", number] for number in range(MOST_KEYS)),
    lambda state, record: state["account", "a"],
    lambda state, record: state["accounts"],
    lambda state, record: state["accounts",],
    lambda state, record: state[5, "a"],
    lambda state, record: state["accounts", [1]],
    lambda state, record: ("accounts", "a") in state,
    lambda state, record: list(state),
    lambda state, record: len(state),
    lambda state, record: state.accounts,
    lambda state, record: state.__delitem__(("accounts", "a")),
    lambda state, record: state.__setitem__(("accounts", "a"), "x" * (9 << 20)),
    lambda state, record: state.__setitem__(("accounts", "a"), [1]),
    lambda state, record: state.__setitem__(("owners", "b"), nested(63)),
    lambda state, record: state.__setitem__(("accounts", nested(62)), 1),
    lambda state, record: [1],
    lambda state, record: nested(63),
    lambda state, record: nested(60),
    lambda state, record: state["made", record[0]],
    lambda state, record: state.__setitem__(("checked", record[0]), record[1]),
    lambda state, record: state.__setitem__(("accounts", 1), True),
    lambda state, record: state.__setitem__(("accounts", True), 1.0),
    raised_by_its_str,
    caught,
]


def is_for(number: int, record: Record) -> bool:
    return record[1] % (2 * len(MISTAKES)) == number


def made() -> int:
    raise ValueError("nobody makes it")


def checked(key: str, value: int) -> bool:
    if value % 3 == 0:
        raise ValueError(f"{key} of {value}")
    return value % 3 == 1


def bank() -> fs.Graph:
    graph = fs.Graph("bank")
    accounts = graph.table("accounts", initial=int, check=lambda key, balance: balance > -2000)
    graph.table("owners", initial=lambda: Owner("", fs.Vector()))
    graph.table("made", initial=made)
    graph.table("checked", initial=int, check=checked)
    records = graph.source("docs")
    records.filter(lambda r: r[1] % 9 == 0).upsert(accounts, key=lambda r: r[0], value=lambda r: r[1])
    outcomes = [records.filter(lambda r: r[1] % 9 > 0).transact(moved)]
    for number, mistake in enumerate(MISTAKES):
        outcomes.append(records.filter(partial(is_for, number)).transact(mistake))
    for number, each in enumerate(outcomes):
        each.committed.sink(f"committed-{number}")
        each.aborted.sink(f"aborted-{number}")
    accounts.changes().sink("balances", key="key")
    return graph


def lived(graph: fs.Graph, parts: Parts, *, debug: bool = False, records: int = 600) -> OneWorker:
    life, rng = OneWorker(graph, parts, debug), Random(7)
    for number in range(records):
        life.records(number, [(rng.choice("abcd"), number)])
        if number % 60 == 59:
            life.tell(messages.Announce(FENCE, Epoch(number // 60 + 1), []))
    return life


@pytest.mark.parametrize("debug", [False, True])
def test_action_by_action(debug: bool) -> None:
    assert kernel is not None
    reference, other = (lived(bank(), parts, debug=debug) for parts in (REFERENCE, native(kernel)))
    assert len(reference.rows) > 50
    assert len(reference.done) == len(other.done)
    for ours, theirs in zip(other.done, reference.done, strict=True):
        assert ours == theirs


def test_only_the_users_functions_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fs.Graph("bank")
    accounts = graph.table("accounts", initial=int, check=lambda key, balance: balance > -200)
    outcomes = graph.source("docs").transact(lambda state, r: state.__setitem__((accounts, r[0]), -r[1]))
    outcomes.committed.sink("committed")
    outcomes.aborted.sink("aborted")
    accounts.changes().sink("balances", key="key")
    assert kernel is not None
    expected, asked = lived(graph, REFERENCE, records=300), list[Any]()
    for cls in (Numbered, DecidedAs, WritesTo, Deciding, State):
        monkeypatch.setattr(cls, "__call__", lambda self, *given: asked.append(self), raising=False)
    monkeypatch.setattr(State, "__setitem__", lambda self, *given: asked.append(self))
    other = lived(graph, native(kernel), records=300)
    assert asked == [] and other.done == expected.done and len(other.done) > 300


def test_what_was_snapshot_by_one_is_restored_by_the_other() -> None:
    assert kernel is not None
    lives = [lived(bank(), parts) for parts in (REFERENCE, native(kernel))]
    states: list[Any] = [state_of(life) for life in lives]
    cut = lives[0].worker.cuts.committed
    fresh: list[Any] = [state_of(OneWorker(bank(), parts, False)) for parts in (native(kernel), REFERENCE)]
    for state, life in zip(fresh, lives, strict=True):
        state.load(chains_of(life.rows))
        for key in states[0].buckets:
            assert state.state_at(key, cut) == states[0].state_at(key, cut) == states[1].state_at(key, cut)


@pytest.mark.parametrize("parts", [REFERENCE, *([] if kernel is None else [native(kernel)])])
def test_a_row_that_a_batch_has_kept_with_the_others_is_stored_in_full_until_an_epoch_has_it(
    parts: Parts,
) -> None:
    life = OneWorker(bank(), parts, False)
    life.records(0, [("b", 1)])
    life.tell(messages.Announce(FENCE, Epoch(1), []))
    many = Owner("a", fs.Vector(range(500)))
    kept = codec.encode(Rows(Map({("owners", "a"): many})))
    state: Any = state_of(life)
    state.load([Chain(state.operation, Slot(0), ALL, Epoch(0), True, (kept,))])
    life.records(1, [("a", 1)])
    for epoch in (Epoch(2), Epoch(3)):  # the first is never committed
        rows = [row for row in state.rows(1, epoch, life.worker.cuts.minimal) if row is not None]
        assert [row.full for row in rows if codec.decode(row.key)[0] == "owners"] == [True]


def state_of(life: OneWorker) -> Any:
    graph = bank()
    assert graph.ledger is not None and graph.ledger.decisions is not None
    return life.worker.flow.states[graph.ledger.decisions.vertex]
