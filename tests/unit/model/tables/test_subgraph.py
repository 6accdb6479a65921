"""What stands in a transactional subgraph changes all of its state or none, and means what it means outside."""

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError, UserError
from flamestream.testing import check, outputs

Transfer = tuple[str, str, int]
Half = tuple[str, int]


def halves_of(transfer: Transfer) -> list[Half]:
    source, target, amount = transfer
    return [(source, -amount), (target, amount)]


def added(balance: int, half: Half) -> int:
    return balance + half[1]


def with_account(balance: int, half: Half) -> Half:
    return half[0], balance


def not_negative(_: str, balance: int) -> bool:
    return balance >= 0


def ten() -> int:
    return 10


def balances_of(halves: fs.Stream[Half], name: str = "balances", **but: Any) -> fs.Stream[Half]:
    said = {"initial": ten, "combine": added, "emit": with_account, "check": not_negative, **but}
    return halves.reduce(name=name, key=lambda half: half[0], **said)


def told(graph: fs.Graph, moved: Any) -> None:
    moved.committed.sink("moved")
    moved.aborted.map(lambda a: (a.transaction, a.reason, a.table, a.key)).sink("refused")


def bank() -> fs.Graph:
    """The seed's bank: a transfer is two halves, each of which goes to its account."""
    graph = fs.Graph("bank")
    transfers = graph.source("transfers")
    with graph.transaction() as transaction:
        halves = transaction.open(transfers).flat_map(halves_of)
        moved = transaction.close(balances_of(halves))
    told(graph, moved)
    transaction.table("balances").changes().map(lambda w: (w.key, w.before, w.after)).sink("balances")
    return graph


def written_out() -> fs.Graph:
    """The same as a function over rows."""
    graph = fs.Graph("bank")
    table = graph.table("balances", initial=ten, check=not_negative)

    def transfer(state: Any, item: Transfer) -> tuple[Half, ...]:
        left = []
        for account, amount in halves_of(item):
            state[table, account] += amount
            left.append((account, state[table, account]))
        return tuple(left)

    moved = graph.source("transfers").transact(transfer)
    moved.committed.flat_map(iter).sink("moved")
    moved.aborted.map(lambda a: (a.transaction, a.reason, a.table, a.key)).sink("refused")
    table.changes().map(lambda w: (w.key, w.before, w.after)).sink("balances")
    return graph


def drawn(seed: int, length: int = 60) -> list[Transfer]:
    rng = Random(seed)
    return [(rng.choice("abcd"), rng.choice("abcd"), rng.randrange(9)) for _ in range(length)]


def test_both_halves_of_a_transfer_or_none() -> None:
    found = bank().run(transfers=[("a", "b", 7), ("a", "b", 7), ("b", "a", 7)])
    assert found == {
        "moved": [("a", 3), ("b", 17), ("b", 10), ("a", 10)],
        "refused": [(("a", "b", 7), "a check", "balances", "a")],
        "balances": [("a", 10, 3), ("b", 10, 17), ("b", 17, 10), ("a", 3, 10)],
    }


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_transaction_that_one_would_write_out(seed: int) -> None:
    transfers = drawn(seed)
    found = bank().run(transfers=transfers)
    assert found == written_out().run(transfers=transfers)
    assert min(map(len, found.values())) > 0


def test_a_bank_holds_through_drawn_records_and_schedules() -> None:
    names = st.sampled_from("abc")
    check(bank(), transfers=st.tuples(names, names, st.integers(0, 6)), other_process=False)


def everything(items: fs.Stream[Transfer]) -> list[fs.Stream[Any]]:
    """Each kind of operation that may stand inside."""
    few, many = items.filter(lambda t: t[2] < 7).broadcast(2)
    halves = few.flat_map(halves_of).merge(many.map(lambda t: (t[0], t[2])))
    last = halves.group(3, key=lambda half: half[0], name="last")
    left = halves.reduce(
        name="balances", key=lambda half: half[0], initial=ten, combine=added, emit=with_account
    )
    seen = left.reduce(name="seen", key=lambda half: half[1] % 3, combine=fs.count())
    best = left.top(2, by=lambda half: half[1], key=lambda half: half[0], name="best")
    different = items.distinct_count(lambda t: t[1], key=lambda t: t[0], name="different")
    return [last, seen, best, different]


@pytest.mark.parametrize("seed", range(10))
def test_where_nothing_is_aborted_operations_mean_what_they_mean_outside(seed: int) -> None:
    inside, outside = fs.Graph("same"), fs.Graph("same")
    items = inside.source("transfers")
    with inside.transaction() as transaction:
        first, *others = everything(transaction.open(items))
        done = transaction.close(first, *others)
    done.committed.sink("out")
    first, *others = everything(outside.source("transfers"))
    first.merge(*others).sink("out")
    transfers = drawn(seed)
    found = inside.run(transfers=transfers)["out"]
    assert found == outside.run(transfers=transfers)["out"]
    assert len(found) > len(transfers)


def in_sequence() -> fs.Graph:
    """Accounts, then what each teller has paid, at most 12; then a count of all."""
    graph = fs.Graph("sequence")
    transfers = graph.source("transfers")
    with graph.transaction() as transaction:
        opened = transaction.open(transfers)
        left = balances_of(opened.flat_map(halves_of))
        paid = opened.map(lambda t: (t[1], t[2]))
        tellers = balances_of(paid, "tellers", initial=int, check=lambda _, sum_: sum_ <= 12)
        moves = left.merge(tellers).reduce(name="moves", key=lambda _: None, combine=fs.count())
        done = transaction.close(moves)
    told(graph, done)
    for name in ("balances", "tellers"):
        transaction.table(name).changes().map(lambda w: (w.key, w.after)).sink(name)
    return graph


def test_the_last_of_several_operators_rolls_back_the_first() -> None:
    found = in_sequence().run(transfers=[("a", "b", 8), ("c", "b", 8), ("c", "a", 8)])
    assert found == {
        "moved": [1, 2, 3, 4, 5, 6],  # three of each transfer that was committed, none of the other
        "refused": [(("c", "b", 8), "a check", "tellers", "b")],
        "balances": [("a", 2), ("b", 18), ("c", 2), ("a", 10)],
        "tellers": [("b", 8), ("a", 8)],
    }


def test_several_in_series_abort_each_for_itself() -> None:
    graph = fs.Graph("series")
    transfers = graph.source("transfers")
    with graph.transaction() as first:
        opened = first.open(transfers)
        balances_of(opened.flat_map(halves_of))
        paid = first.close(opened)
    with graph.transaction() as second:
        opened = second.open(paid.committed)
        booked = second.close(
            balances_of(opened.map(lambda t: (t[1], t[2])), "limits", check=lambda _, b: b < 20)
        )
    paid.aborted.map(lambda a: (a.transaction, a.table)).sink("unpaid")
    booked.committed.sink("booked")
    booked.aborted.map(lambda a: (a.transaction, a.table)).sink("unbooked")
    moves = [("a", "b", 8), ("a", "b", 8), ("b", "c", 2), ("c", "b", 2)]
    assert graph.run(transfers=moves) == {
        "unpaid": [(("a", "b", 8), "balances")],
        "booked": [("b", 18), ("c", 12)],
        "unbooked": [(("c", "b", 2), "limits")],
    }


def test_tables_are_read_and_written_within_it_and_beside_it() -> None:
    graph = fs.Graph("bank")
    limits = graph.table("limits", initial=lambda: 5)
    graph.source("set").upsert(limits, key=lambda pair: pair[0], value=lambda pair: pair[1])
    transfers = graph.source("transfers")

    def allowed(state: Any, item: Transfer) -> Transfer:
        if item[2] > state[limits, item[0]]:
            raise fs.Abort("limit")
        return item

    with graph.transaction() as transaction:
        opened = transaction.open(transfers)
        opened.upsert(graph.table("last", initial=str), key=lambda t: t[0], value=lambda t: t[1])
        balances_of(opened.transact(allowed).committed.flat_map(halves_of))
        read = opened.transact(lambda state, t: (t[0], state["balances", t[0]], state["last", t[0]]))
        moved = transaction.close(read.committed)
    told(graph, moved)
    found = outputs(
        graph, ("transfers", ("a", "b", 6)), ("set", ("a", 9)), ("transfers", ("a", "c", 6)),
        ("transfers", ("a", "b", 5)),
    )  # fmt: skip
    assert found["moved"] == [("a", 4, "c")]
    assert [reason for _, reason, *_ in found["refused"]] == ["limit", "a check"]


def test_what_does_not_come_to_the_end_has_still_changed_its_state() -> None:
    graph = fs.Graph("bank")
    transfers = graph.source("transfers")
    with graph.transaction() as transaction:
        left = balances_of(transaction.open(transfers).flat_map(halves_of))
        moved = transaction.close(left.filter(lambda half: half[1] > 15))
    moved.committed.sink("rich")
    transaction.table("balances").changes().map(lambda w: w.after).sink("balances")
    found = graph.run(transfers=[("a", "b", 3), ("a", "b", 3)])
    assert found == {"rich": [("b", 16)], "balances": [7, 13, 4, 16]}


def test_state_is_found_by_the_names_of_its_folds() -> None:
    graph = in_sequence()
    assert graph.kept.keys() == {"balances", "tellers", "moves"}
    with pytest.raises(GraphError, match="no fold named 'movements'"):
        bank_with(lambda opened: balances_of(opened.flat_map(halves_of)))[1].table("movements")


def bank_with(inner: Callable[[fs.Stream[Transfer]], fs.Stream[Any]]) -> tuple[fs.Graph, Any]:
    graph = fs.Graph("bank")
    with graph.transaction() as transaction:
        moved = transaction.close(inner(transaction.open(graph.source("transfers"))))
    moved.committed.sink("moved")
    return graph, transaction


def raising(transfer: Transfer) -> Iterator[Half]:
    yield transfer[0], -transfer[2]
    if transfer[2] == 0:
        raise LookupError("nothing to move")
    yield transfer[1], transfer[2]


def test_a_function_that_raises_is_an_error_item_that_names_it_and_changes_nothing() -> None:
    graph, _ = bank_with(lambda opened: balances_of(opened.flat_map(raising)))
    found = outputs(
        graph, ("transfers", ("a", "b", 1)), ("transfers", ("a", "b", 0)), ("transfers", ("a", "b", 1))
    )
    assert found["moved"] == [("a", 9), ("b", 11), ("a", 8), ("b", 12)]
    (error,) = found["errors"]
    assert (error.error, error.payload, "raising" in error.function) == ("LookupError", "('a', 'b', 0)", True)


def test_operations_that_never_end_are_ended() -> None:
    graph = fs.Graph("bank", max_results=100)
    with graph.transaction() as transaction:
        opened = transaction.open(graph.source("transfers"))
        moved = transaction.close(balances_of(opened.flat_map(lambda t: ((t[0], 1) for _ in count()))))
    moved.committed.sink("moved")
    with pytest.raises(UserError, match="more than 100 results"):
        graph.run(transfers=[("a", "b", 1)])


@fs.call()
async def asked(transfer: Transfer) -> int:
    return transfer[2]


def looped(opened: fs.Stream[Any]) -> Any:
    return opened.reduce(name="r", key=fs.item, initial=int, combine=added, fused=False)


OPERATIONS: list[tuple[Callable[[fs.Stream[Any]], Any], str]] = [
    (lambda opened: opened.call(asked), "call cannot stand inside a transaction: map, filter"),
    (lambda opened: opened.window(fs.tumbling("1m"), key=fs.item), "window cannot stand inside"),
    (lambda opened: opened.join(opened, on=fs.item, unbounded=True), "join cannot stand inside"),
    (lambda opened: opened.join_latest(opened, on=fs.item), "join_latest cannot stand inside"),
    (lambda opened: opened.dedup(fs.item, within="1m"), "dedup cannot stand inside"),
    (
        lambda opened: opened.process(key=fs.item, on_item=lambda *_: (None, ())),
        "process cannot stand inside",
    ),
    (lambda opened: opened.balance(hash), "balance cannot stand inside"),
    (lambda opened: opened.sink("inside"), "sink cannot stand inside"),
    (lambda opened: opened.map(fs.at(lambda item, here: item)), "fs.at cannot stand inside"),
    (lambda opened: opened.reduce(name="r", key=fs.item, combine=fs.count(), ttl="1m"), "neither ttl= nor"),
    (looped, "neither ttl= nor fused=False"),
    (lambda opened: opened.reduce(key=fs.item, combine=fs.count()), "needs name=: its state is a table"),
    (lambda opened: opened.group(2, key=fs.item), "needs name="),
    (lambda opened: opened.group(2, key=fs.item, name="r", version=2), "neither was= nor version="),
    (lambda opened: opened.reduce(name="r", was="s", key=fs.item, combine=fs.count()), "neither was= nor"),
    (
        lambda opened: opened.reduce(name="of mine", key=fs.item, combine=fs.count()),
        "the name of an operation has",
    ),
    (
        lambda opened: balances_of(balances_of(opened.flat_map(halves_of))),
        "two tables named 'balances': use the first one twice",
    ),
    (lambda opened: Outside.stream.graph.source("late"), "source 'late' cannot stand inside the transaction"),
    (lambda opened: Outside.stream.graph.loop("l", 3), "loop 'l' cannot stand inside the transaction"),
    (lambda opened: Outside.stream.graph.clock("c", every="1s"), "source 'c' cannot stand inside"),
    (
        lambda opened: Outside.stream.graph.transaction().open(Outside.stream),
        "a transaction inside a transaction",
    ),
    (lambda opened: opened.merge(Outside.stream), "streams are merged within one graph"),
    (
        lambda opened: Outside.stream.merge(opened, opened),
        "merge 'merge' cannot stand inside the transaction",
    ),
    (lambda opened: Outside.stream, "closed by streams that it has opened"),
    (lambda opened: (opened.map(repr), opened)[1], "map 'builtins.repr' leads nowhere: close it too"),
    (lambda opened: opened.transact(lambda state, item: item, keys=list), "keys= are those of a whole"),
    (lambda opened: opened.transact(lambda state, item: item).aborted, "an abort is that of the whole"),
    (lambda opened: opened, "it has no fold and no table"),
]


class Outside:
    """A stream of the graph, that stands before the transaction."""

    stream: fs.Stream[Any]


@pytest.mark.parametrize(("inner", "message"), OPERATIONS)
def test_what_cannot_stand_inside_is_refused_where_it_is_written(
    inner: Callable[[Any], Any], message: str
) -> None:
    graph = fs.Graph("bank")
    Outside.stream = graph.source("transfers")
    with pytest.raises(GraphError, match=message) as refused, graph.transaction() as transaction:
        transaction.close(inner(transaction.open(Outside.stream)))
    assert "test_subgraph.py:" in str(refused.value)
    Outside.stream.sink("the graph can be gone on with")


def test_a_transaction_is_opened_once_and_closed_and_nothing_stands_behind_its_end() -> None:
    graph = fs.Graph("bank")
    transfers = graph.source("transfers")
    with pytest.raises(GraphError, match="is never closed"), graph.transaction() as transaction:
        transaction.open(transfers)
    with graph.transaction() as transaction:
        left = balances_of(transaction.open(transfers).flat_map(halves_of))
        with pytest.raises(GraphError, match="opened once"):
            transaction.open(transfers)
        moved = transaction.close(left)
    with pytest.raises(GraphError, match="opened once, by a stream of its graph"):
        graph.transaction().open(fs.Graph("other").source("transfers"))
    with pytest.raises(GraphError, match=r"stands behind the end of the transaction that begins at .*:\d+"):
        left.map(repr)
    with pytest.raises(GraphError, match="merged within one graph"):
        moved.committed.merge(left)


def test_a_check_outside_of_a_transaction_would_have_no_effect() -> None:
    with pytest.raises(GraphError, match="check= is of a reduce inside a transaction"):
        balances_of(fs.Graph("bank").source("halves"))
