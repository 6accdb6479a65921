"""A transaction changes all of its rows or none, and sees what those before it left."""

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

import flamestream as fs
from flamestream.core.dataflow.twice import twice
from flamestream.model.errors import GraphError, UserError
from flamestream.model.tables.ledger import Rows, Table
from flamestream.model.tables.transaction import MOST_KEYS, Decision, Rules, decide
from flamestream.model.vertex import name_of
from flamestream.model.windows.process import Side
from flamestream.testing import check, outputs

Transfer = tuple[str, str, int]


def bank(transfer: Callable[..., Any] | None = None, **rules: Any) -> fs.Graph:
    """Transfers between accounts, none of which may be overdrawn."""
    graph = fs.Graph("bank")
    rules = {"check": lambda _, balance: balance >= 0, **rules}
    accounts = graph.table("accounts", **{"initial": int, **rules})

    def usual(state: Any, item: Transfer) -> tuple[str, int]:
        source, target, amount = item
        state[accounts, source] -= amount
        state[accounts, target] += amount
        return source, state[accounts, source]

    graph.source("deposits").upsert(accounts, key=lambda d: d[0], value=lambda d: d[1])
    moved = graph.source("transfers").transact(transfer or usual)
    moved.committed.sink("moved")
    moved.aborted.map(lambda a: (a.transaction, a.reason, a.table, a.key)).sink("refused")
    accounts.changes().map(lambda w: (w.key, w.before, w.after)).sink("balances")
    return graph


def test_rows_change_together_and_a_broken_check_leaves_them() -> None:
    found = bank().run(deposits=[("a", 5)], transfers=[("a", "b", 3), ("a", "b", 3), ("b", "a", 1)])
    assert found == {
        "moved": [("a", 2), ("b", 2)],
        "refused": [(("a", "b", 3), "a check", "accounts", "a")],
        "balances": [("a", 0, 5), ("a", 5, 2), ("b", 0, 3), ("b", 3, 2), ("a", 2, 3)],
    }


def test_a_row_that_is_deleted_reads_as_if_nobody_had_written_it() -> None:
    def closed(state: Any, item: Transfer) -> int:
        left = state["accounts", item[0]]
        del state["accounts", item[0]]
        assert state["accounts", item[0]] == 10
        if item[2]:
            state["accounts", item[0]] = item[2]
        return left  # type: ignore[no-any-return]

    graph = bank(closed, initial=lambda: 10, check=lambda _, balance: balance < 10)
    found = graph.run(deposits=[("a", 5), ("b", 6)], transfers=[("a", "", 0), ("a", "", 0), ("b", "", 7)])
    assert found["moved"] == [5, 10, 6]
    assert found["balances"] == [("a", 10, 5), ("b", 10, 6), ("a", 5, 10), ("b", 6, 7)], (
        "no check is asked of what is no more, and one that is not there does not change"
    )


def test_a_change_says_whether_its_row_is_deleted() -> None:
    rules, stored = {"rows": Rules(int)}, {("rows", "a"): 0, ("rows", "b"): 1}

    def deletes(state: Any, _: None) -> None:
        for key in "abc":
            del state["rows", key]
        state["rows", "b"] = 0
        state["rows", "d"] = 1
        del state["rows", "d"]

    decision = decide(deletes, None, stored.get, rules)
    assert decision.writes == (
        fs.Write("rows", "a", 0, 0, deleted=True),
        fs.Write("rows", "b", 1, 0),
    )


def test_an_abort_leaves_what_was_written_before_it() -> None:
    def limited(state: Any, item: Transfer) -> None:
        state["accounts", item[0]] = 99
        raise fs.Abort("limit")

    assert outputs(bank(limited), ("transfers", ("a", "b", 1))) == {
        "refused": [(("a", "b", 1), "limit", "", None)]
    }


def test_a_function_that_raises_is_an_error_item_that_names_it_and_changes_nothing() -> None:
    def raises(state: Any, item: Transfer) -> int:
        state["accounts", "a"] += 1
        return state["accounts", "a"] // item[2]  # type: ignore[no-any-return]

    found = outputs(bank(raises), ("transfers", ("a", "b", 0)), ("transfers", ("a", "b", 1)))
    assert found["moved"] == [1]
    (error,) = found["errors"]
    assert (error.error, "raises" in error.function) == ("ZeroDivisionError", True)


_clock = count()


def _reads_a_clock(state: Any, item: Transfer) -> Transfer:
    state["accounts", item[0]] = next(_clock)
    return item


def _gives_a_clock(*given: Any) -> Any:
    return next(_clock)


def _at_random(key: str, balance: int) -> bool:
    return bool(next(_clock) % 2)


@pytest.mark.parametrize(
    ("graph", "blamed"),
    [
        (lambda: bank(_reads_a_clock), _reads_a_clock),  # the same outcome each time, of other writes
        (lambda: bank(_gives_a_clock), _gives_a_clock),
        (lambda: bank(check=_at_random), _at_random),
        (lambda: bank(initial=_gives_a_clock, check=None), _gives_a_clock),
        (lambda: indexed(_gives_a_clock), _gives_a_clock),
    ],
)
def test_run_twice_whose_function_depends_on_more_than_its_input_is_named(
    graph: Callable[[], fs.Graph], blamed: Callable[..., Any]
) -> None:
    (error,) = outputs(twice(graph()), ("transfers", ("a", "b", 1)))["errors"]
    assert (error.function, error.payload) == (name_of(blamed), "('a', 'b', 1)")
    assert f"{name_of(blamed)} gave two results for one input" in error.message


def test_run_twice_a_bank_is_what_it_is() -> None:
    lines = [("deposits", ("a", 5)), *(("transfers", ("a", "b", 3)),) * 2]
    for graph in (bank(), indexed(lambda balance: balance % 2)):
        assert outputs(twice(graph), *lines) == outputs(graph, *lines)


def indexed(key: Callable[[int], Any]) -> fs.Graph:
    """With an index over balances."""
    graph = bank()
    assert graph.ledger is not None
    accounts: Table[str, int] = Table(graph.ledger, "accounts")
    accounts.index("by_balance", key=key)
    return graph


def test_a_check_that_raises_is_an_error_item_that_names_it() -> None:
    def impossible(key: str, balance: int) -> bool:
        raise LookupError(key)

    (error,) = outputs(bank(check=impossible), ("transfers", ("a", "b", 1)))["errors"]
    assert (error.error, "impossible" in error.function) == ("LookupError", True)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda state, item: sum(state["accounts", n] for n in range(MOST_KEYS + 1)), "more than 256 rows"),
        (lambda state, item: state["account", "a"], "no table 'account'"),
        (lambda state, item: state["accounts"], r"write state\[table, key\]"),
        (lambda state, item: ("accounts", "a") in state, "every row is there"),
        (lambda state, item: list(state), "cannot go through all"),
        (lambda state, item: state.__delitem__(("account", "a")), "no table 'account'"),
        (lambda state, item: state.__setitem__(("accounts", "a"), "x" * (9 << 20)), "writes more than 8 MiB"),
    ],
)
def test_what_a_transaction_may_not_do_is_said(mistake: Callable[..., Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        bank(mistake).run(transfers=[("a", "b", 1)])


def test_a_value_that_is_no_payload_is_refused_and_changes_nothing() -> None:
    def listed(state: Any, item: Transfer) -> None:
        state["accounts", "a"] += 1
        state["accounts", "b"] = [1]

    found = outputs(bank(listed), ("transfers", ("a", "b", 1)))
    assert list(found) == ["errors"] and "list" in found["errors"][0].message


def test_values_that_are_equal_in_python_alone_are_two_rows_and_a_change() -> None:
    rules = {"rows": Rules(int)}

    def mixed(state: Any, _: None) -> None:
        state["rows", 1] = 7
        state["rows", True] = 7.0
        state["rows", "same"] = 0

    stored: dict[Any, Any] = {}
    decision = decide(mixed, None, stored.get, rules)
    assert [(type(write.key), write.after) for write in decision.writes] == [(int, 7), (bool, 7.0)]
    assert decide(lambda state, _: None, None, lambda row, other: other, rules) == Decision(None)


def test_what_a_function_gives_that_is_no_payload_is_blamed_on_it() -> None:
    (error,) = outputs(bank(_listed), ("transfers", ("a", "b", 1)))["errors"]
    assert ("_listed" in error.function, error.payload) == (True, "('a', 'b', 1)"), (
        "and what it was given is shown"
    )


def _listed(state: Any, item: Transfer) -> list[int]:
    return [state["accounts", "a"]]


def test_several_parts_behind_the_table_are_one_key() -> None:
    def counted(state: Any, item: Transfer) -> Any:
        state["accounts", item[0], item[1]] += 1
        return state["accounts", (item[0], item[1])]

    found = outputs(bank(counted), *(("transfers", ("a", other, 1)) for other in "xyx"))
    assert found["moved"] == [1, 1, 2]


def test_a_great_row_is_never_missing_among_the_changes() -> None:
    def great(state: Any, item: Transfer) -> None:
        state["accounts", "a"] = "x" * (7 << 20)

    found = outputs(
        bank(great, check=None, initial=str), ("transfers", ("a", "b", 1)), ("transfers", ("a", "b", 1))
    )
    assert (len(found["moved"]), [len(after) for _, _, after in found["balances"]]) == (2, [7 << 20])


def test_any_stream_of_transfers_is_what_a_loop_over_a_dict_makes_of_it() -> None:
    for seed in range(30):
        rng = Random(seed)
        deposits = [(rng.choice("abcd"), rng.randrange(9)) for _ in range(4)]
        transfers = [(rng.choice("abcd"), rng.choice("abcd"), rng.randrange(6)) for _ in range(40)]
        balances: dict[str, int] = dict(deposits)
        moved, refused = [], []
        for source, target, amount in transfers:
            after = dict(balances)
            after[source] = after.get(source, 0) - amount
            after[target] = after.get(target, 0) + amount
            if after[source] < 0:
                refused.append((source, target, amount))
            else:
                balances = after
                moved.append((source, after[source]))
        found = bank().run(deposits=deposits, transfers=transfers)
        assert (found["moved"], [item for item, *_ in found["refused"]]) == (moved, refused)


def test_a_bank_holds_through_drawn_records_and_schedules() -> None:
    names = st.sampled_from("abc")
    check(
        bank(),
        deposits=st.tuples(names, st.integers(0, 9)),
        transfers=st.tuples(names, names, st.integers(0, 4)),
        other_process=False,
    )


def in_series() -> fs.Graph:
    """What was moved from an account is booked, at most 9 of it, and what was booked is counted."""
    graph = fs.Graph("series")
    accounts = graph.table("accounts", initial=lambda: 20)
    booked = graph.table("booked", initial=int, check=lambda _, total: total <= 9)

    def move(state: Any, item: Transfer) -> Transfer:
        source, target, amount = item
        state[accounts, source] -= amount
        state[accounts, target] += amount
        return item

    def book(state: Any, item: Transfer) -> tuple[str, int, int]:
        state[booked, item[0]] += item[2]
        return item[0], state[booked, item[0]], state[accounts, item[0]]

    moved = graph.source("transfers").transact(move)
    done = moved.committed.transact(book)
    done.committed.upsert(graph.table("last", initial=tuple), key=lambda item: item[0])
    done.committed.sink("booked")
    done.aborted.map(lambda a: a.transaction).sink("unbooked")
    return graph


def test_a_transaction_that_comes_of_another_stands_right_behind_it() -> None:
    moves = [("a", "b", 6), ("a", "b", 5), ("a", "b", 3)]
    assert in_series().run(transfers=moves) == {
        "booked": [("a", 6, 14), ("a", 9, 6)],
        "unbooked": [("a", "b", 5)],
    }


def test_so_it_does_through_drawn_records_and_schedules() -> None:
    names = st.sampled_from("abc")
    transfers = st.tuples(names, names, st.integers(0, 4))
    check(in_series(), examples=5, transfers=transfers, other_process=False)


def test_tables_are_told_by_name_and_stand_before_what_uses_them() -> None:
    graph = fs.Graph("bank")
    with pytest.raises(GraphError, match=r"no graph\.table"):
        graph.source("transfers").transact(lambda state, item: item)
    accounts = graph.table("accounts", initial=int)
    with pytest.raises(GraphError, match="two tables named 'accounts'"):
        graph.table("accounts", initial=int)
    with pytest.raises(GraphError, match="no transaction"):
        accounts.changes()


def test_rows_of_a_table_are_stored_by_the_name_that_it_had_and_told_by_its_own() -> None:
    graph = fs.Graph("bank")
    balances = graph.table("balances", initial=int, was="accounts")
    graph.source("in").upsert(balances, key=lambda pair: pair[0], value=lambda pair: pair[1])
    balances.changes().map(lambda write: (write.table, write.key)).sink("out")
    assert graph.ledger is not None
    deciding = graph.ledger.deciding
    before = Rows(fs.Map({("accounts", "a"): 5}))
    after = deciding(before, Side(0, ("a", 7)))
    assert dict(after.rows.items()) == {("accounts", "a"): 7} and after.decision is not None
    assert after.decision.writes == (fs.Write("balances", "a", 5, 7),)
    assert graph.run(**{"in": [("a", 5)]})["out"] == [("balances", "a")]
    assert deciding.form == "tables accounts"
    with pytest.raises(GraphError, match="would have the rows of 'accounts'"):
        graph.table("accounts", initial=int)
