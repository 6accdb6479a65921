"""Indexes: at any moment they have what a look at all rows would find."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError, UserError
from flamestream.model.graph import Graph
from flamestream.model.payload import payload_type
from flamestream.model.tables.index import Indexed


@payload_type
@dataclass(frozen=True, slots=True)
class Customer:
    city: str = ""
    age: int = 0


def moves(graph: Graph, look: Any) -> None:
    """Customers that move, grow old, and are not let into one place; `look` reads behind each."""
    customers = graph.table(
        "customers", initial=Customer, check=lambda key, customer: customer.city != "nowhere"
    )
    by_city = customers.index("by_city", key=fs.field("city"))
    by_age = customers.index("by_age", key=lambda customer: customer.age // 10)

    def move(state: Any, asked: tuple[tuple[str, str, int], ...]) -> Any:
        for name, city, age in asked:
            if age:
                state[customers, name, 1] = Customer(city, age)
            else:
                del state[customers, name, 1]
        return look(state, customers, by_city, by_age)

    moved = graph.source("moves").transact(move)
    moved.committed.sink("out")
    moved.aborted.sink("refused")


def test_an_index_has_the_keys_of_all_rows_that_were_set_by_their_newest_values() -> None:
    rng, rows = Random(3), dict[str, Customer]()
    asked, wanted = [], []
    for _ in range(300):
        some = tuple(
            (
                rng.choice("abcdefgh"),
                rng.choice(["Bern", "Genf", "Chur", "nowhere"][: rng.choice([3, 3, 4])]),
                rng.choice([0, rng.randrange(40), rng.randrange(40)]),
            )
            for _ in range(rng.choice([1, 1, 2, 3]))
        )
        asked.append(some)
        after = rows | {name: Customer(city, age) for name, city, age in some}
        after = {name: customer for name, customer in after.items() if customer.age}
        if any(customer.city == "nowhere" for customer in after.values()):
            continue
        rows = after
        by_city = {
            city: sorted((n, 1) for n, c in rows.items() if c.city == city)
            for city in ("Bern", "Genf", "Chur")
        }
        by_age = {age: sorted((n, 1) for n, c in rows.items() if c.age // 10 == age) for age in range(4)}
        wanted.append((tuple(map(tuple, by_city.values())), tuple(map(tuple, by_age.values()))))

    def look(state: Any, customers: Any, by_city: Any, by_age: Any) -> Any:
        cities = tuple(tuple(sorted(state[by_city, city])) for city in ("Bern", "Genf", "Chur"))
        return cities, tuple(tuple(sorted(state[by_age, age])) for age in range(4))

    graph = Graph("g")
    moves(graph, look)
    found = graph.run(moves=asked)
    assert found["out"] == wanted
    assert len(found["refused"]) == len(asked) - len(wanted) > 5


def test_an_index_cannot_be_set_by_itself() -> None:
    def look(state: Any, customers: Any, by_city: Any, by_age: Any) -> None:
        state[by_city, "Bern"] = fs.Set()

    graph = Graph("g")
    moves(graph, look)
    with pytest.raises(UserError, match="'by_city' is an index, which follows the rows of its table"):
        graph.run(moves=[(("a", "Bern", 1),)])


def test_a_value_that_no_row_has_any_more_has_no_row_in_it() -> None:
    graph = Graph("g")
    table = graph.table("t", initial=int)
    by_value = table.index("by_value", key=lambda value: value)

    def set_or_deleted(state: Any, pair: tuple[str, int]) -> None:
        if pair[1]:
            state[table, pair[0]] = pair[1]
        else:
            del state[table, pair[0]]

    graph.source("in").transact(set_or_deleted)
    by_value.changes().map(lambda write: (write.key, write.after, write.deleted)).sink("out")
    found = graph.run(**{"in": [("a", 5), ("b", 5), ("a", 6), ("b", 0)]})["out"]
    a, b = fs.Set(["a"]), fs.Set(["b"])
    assert found == [
        (5, a, False), (5, fs.Set(["a", "b"]), False), (5, b, False), (6, a, False), (5, fs.Set(), True),
    ]  # fmt: skip


def test_what_its_function_raises_is_told_as_any_function_s() -> None:
    graph = Graph("g")
    table = graph.table("t", initial=int)
    table.index("halves", key=lambda value: 100 // value)
    graph.source("in").upsert(table, key=lambda pair: pair[0], value=lambda pair: pair[1])
    table.changes().sink("out")
    with pytest.raises(
        UserError, match=r"index\.py.* raised ZeroDivisionError|lambda> raised ZeroDivisionError"
    ):
        graph.run(**{"in": [("a", 5)]})  # of the initial value, which it is asked about too


def test_functions_that_stand_before_it_keep_it_too_and_are_called_as_they_were() -> None:
    graph = Graph("g")
    table = graph.table("t", initial=int)
    graph.source("in").upsert(table, key=lambda pair: pair[0], value=lambda pair: pair[1])
    by_value = table.index("by_value", key=lambda value: value)
    by_value.changes().sink("out")
    assert graph.ledger is not None
    (function,) = graph.ledger.deciding.functions
    assert isinstance(function, Indexed)
    assert function.written == "upsert(t)"
    assert [write.key for write in graph.run(**{"in": [("a", 5)]})["out"]] == [5]


def test_its_name_is_a_tables() -> None:
    graph = Graph("g")
    table = graph.table("t", initial=int)
    with pytest.raises(GraphError, match="two tables named 't'"):
        table.index("t", key=str)
