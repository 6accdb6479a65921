"""An index that is new where its table has rows: it is made of them, and the next commit has it."""

from collections.abc import Iterable
from typing import Any
from unittest.mock import Mock

import pytest

import flamestream as fs
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol.chain import DELETED, Chain
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model.errors import UserError
from flamestream.model.ids import Epoch, Slot, WorkerId
from flamestream.model.kernel import kernel
from flamestream.model.meta import meta_of
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.tables.ledger import ALL, Rows
from flamestream.model.time import Time

ME, SLOT, COMMITTED = WorkerId("me"), Slot(0), Time(10)
PARTS = [REFERENCE, *([] if kernel is None else [native(kernel)])]
BALANCES = {"ann": 5, "bob": 7, "cay": 5}
MADE = {("by_balance", 5): fs.Set(["ann", "cay"]), ("by_balance", 7): fs.Set(["bob"])}


def row(key: tuple[str, Any], value: Any, epoch: int = 3) -> Chain:
    """A row of a snapshot."""
    return Chain(0, SLOT, encode(key), Epoch(epoch), True, (encode(value),))


ACCOUNTS = [row(("accounts", name), balance) for name, balance in BALANCES.items()]


class Bank:
    """The rows of a bank on one worker, as a snapshot has left them; its index is new, unless `fresh` says less."""

    def __init__(self, parts: Parts, chains: Iterable[Chain], fresh: Iterable[str] = ("by_balance",)) -> None:
        graph = fs.Graph("bank")
        self.accounts = graph.table("accounts", initial=int)
        self.accounts.index("by_balance", key=lambda balance: balance if balance < 100 else 1 // 0)
        source = graph.source("s")
        source.transact(self._set).committed.sink("out")
        self.source, self.cuts = source.vertex, LiveCuts(COMMITTED)
        self.flow = parts.dataflow(graph.validated(), WorkerSettings("j", 1, ()), ME, self.cuts, Mock())
        sinks = [vertex.id for vertex in graph.vertices if vertex.name == "out"]
        self.flow.reset([ME], {sink: parts.barrier() for sink in (*sinks, self.flow.errors)})
        (self.state,) = self.flow.states.values()
        self.state.load(list(chains))
        self.steps = sum(1 for _ in self.state.complete(list(fresh), {SLOT}))

    def _set(self, state: Any, given: tuple[str, int]) -> None:
        state[self.accounts, given[0]] = given[1]

    def come(self, time: int, name: str, balance: int) -> None:
        """A transaction that sets a balance."""
        at = Time(time)
        self.flow.run([(meta_of(at, 0), at, self.source, (name, balance), False)])

    def stores(self, epoch: int, cut: int) -> dict[Any, Any]:
        """The states of an epoch that is cut there, by the keys of their rows; None: they are no more."""
        self.cuts.advance(Time(cut))
        rows = [each for each in self.state.rows(1, Epoch(epoch), Time(cut)) if each is not None]
        assert all(each.full for each in rows)
        return {decode(each.key): None if each.state == DELETED else decode(each.state) for each in rows}

    def commits(self, cut: int) -> None:
        """The epoch that was cut there is committed."""
        self.cuts.commit(Time(cut))
        assert all(step is None for step in self.state.committed(Time(cut)))


@pytest.mark.parametrize("parts", PARTS)
def test_it_has_all_rows_and_the_next_commit_has_it_once(parts: Parts) -> None:
    bank = Bank(parts, ACCOUNTS)
    assert bank.state.state_at(encode(("by_balance", 5)), COMMITTED) == MADE["by_balance", 5]
    assert bank.stores(4, 20) == MADE
    bank.commits(20)
    assert bank.stores(5, 30) == {}


@pytest.mark.parametrize("parts", PARTS)
def test_an_epoch_that_is_aborted_leaves_it_to_the_next(parts: Parts) -> None:
    bank = Bank(parts, ACCOUNTS)
    assert bank.stores(4, 20) == bank.stores(5, 30) == MADE


@pytest.mark.parametrize("parts", PARTS)
def test_a_recovery_before_the_first_commit_leaves_it_as_it_was(parts: Parts) -> None:
    bank = Bank(parts, ACCOUNTS)
    bank.come(15, "ann", 7)
    bank.state.go_back(COMMITTED)
    bank.cuts.reset(COMMITTED)
    assert bank.stores(4, 20) == MADE


@pytest.mark.parametrize("parts", PARTS)
def test_a_value_that_no_row_has_any_more_is_gone_whatever_was_stored(parts: Parts) -> None:
    """An epoch that a worker has not heard of may have stored it."""
    bank = Bank(parts, ACCOUNTS)
    bank.come(15, "bob", 5)
    stored = bank.stores(4, 20)
    assert stored["by_balance", 7] is None and stored["by_balance", 5] == fs.Set(BALANCES)


@pytest.mark.parametrize("parts", PARTS)
def test_one_that_is_not_new_is_as_it_was_stored(parts: Parts) -> None:
    stored = [row(key, value) for key, value in MADE.items()]
    bank = Bank(parts, [*ACCOUNTS, *stored], fresh=())
    assert bank.stores(4, 20) == {}


@pytest.mark.parametrize("parts", PARTS)
def test_of_rows_that_a_batch_has_left_it_is_always_made(parts: Parts) -> None:
    """The fold of a batch has what the code of then had: here an index of other balances."""
    left: fs.Map[tuple[str, Any], Any] = fs.Map(
        {("accounts", "ann"): 5, ("accounts", "bob"): 5, ("by_balance", 5): fs.Set(["ann", "bob"])}
    )
    since = [row(("accounts", name), balance, 4) for name, balance in {"bob": 7, "cay": 5}.items()]
    fold = Chain(0, SLOT, ALL, Epoch(3), True, (encode(Rows(left)),))
    assert Bank(parts, [fold, *since], fresh=()).stores(4, 20) == MADE


@pytest.mark.parametrize("parts", PARTS)
def test_a_row_of_which_it_cannot_be_made_is_named(parts: Parts) -> None:
    with pytest.raises(UserError) as raised:
        Bank(parts, [*ACCOUNTS, row(("accounts", "dan"), 100)])
    said = str(raised.value).replace("\u2068", "").replace("\u2069", "")
    assert "index 'by_balance' cannot be made of the rows that are there" in said
    assert "the row with the key 'dan': ZeroDivisionError" in said and "It was given 100" in said
    assert "The snapshot is as it was" in said


def test_a_batch_makes_it_too_and_has_no_rows_of_a_table_that_is_no_more() -> None:
    graph = fs.Graph("bank")
    accounts = graph.table("accounts", initial=int)
    accounts.index("by_balance", key=lambda balance: balance)
    assert graph.ledger is not None
    rows: dict[tuple[str, Any], Any] = {("accounts", name): balance for name, balance in BALANCES.items()}
    left: fs.Map[tuple[str, Any], Any] = fs.Map({**rows, ("limits", "ann"): 3})
    completed = graph.ledger.deciding.completed(Rows(left))
    made: fs.Map[tuple[str, Any], Any] = fs.Map({**rows, **MADE})
    assert completed.rows == made
    assert graph.ledger.deciding.completed(completed) == completed
