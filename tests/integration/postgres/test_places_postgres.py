"""The audit of a user's table, on a real server: whatever is done to a row by hand is found, and named."""

from typing import Any
from uuid import uuid4

import pytest

import flamestream as fs
from flamestream.connectors.kit import item_columns as postgres_rows
from flamestream.connectors.kit.standing import Wanted
from flamestream.connectors.postgres import columns as postgres_columns
from flamestream.connectors.sinks import place_of
from flamestream.model.errors import UserError
from flamestream.model.ids import Slot
from flamestream.model.meta import meta_of
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.testing.consumer_contract import SINK, fence
from flamestream.testing.port_driver import PortDriver
from support.places.postgres_places import Table
from support.places.standing import JOB, Outside, differs, results
from support.places.things import Thing, opened, things
from support.postgres import PostgresServer


class Counts(Outside):
    """A table of counts."""

    def __init__(self, server: PostgresServer, *, keyed: bool, **columns: str) -> None:
        self.server, self.name = server, f"t{uuid4().hex}"
        key = ", PRIMARY KEY (word)" if keyed else ""
        server.execute(
            f"CREATE TABLE {self.name} (word text, count int, lines int[], share numeric(6, 4), more text "
            f"DEFAULT 'x'{key})"
        )
        named = {name: name for name in ("word", "count", "lines", "share")} | columns
        spec = {"dsn": server.dsn, "table": self.name, "columns": named, "state": f"{self.name}_slots"}
        super().__init__({"postgres": {**spec, **({"key": ["word"]} if keyed else {})}})

    def run(self, statement: str) -> None:
        self.server.execute(statement.replace("TABLE", self.name))


ROWS_WITH_A_KEY = {
    "deleted": ("DELETE FROM TABLE WHERE word = 'be'", "lost", "word='be'", "count=4"),
    "changed": ("UPDATE TABLE SET count = 7 WHERE word = 'be'", "changed", "word='be'", "count=7", "count=4"),
    "changed in an array": (
        "UPDATE TABLE SET lines[1] = 9 WHERE word = 'be'",
        "changed",
        "lines=[9, 0, 1, 2]",
    ),
    "made null": ("UPDATE TABLE SET share = NULL WHERE word = 'it'", "changed", "share=None"),
    "added": ("INSERT INTO TABLE VALUES ('was', 1, '{0}', 0.1)", "foreign", "word='was'"),
    "put back": (
        "UPDATE TABLE SET count = 3, lines = '{0,0,1}', share = 0.375 WHERE word = 'be'",
        "changed",
        "an older value",
    ),
}


@pytest.mark.parametrize("damage", ROWS_WITH_A_KEY)
def test_what_is_done_to_a_row_with_a_key(server: PostgresServer, driver: PortDriver, damage: str) -> None:
    table = Counts(server, keyed=True)
    table.deliver(driver)
    assert table.compared().clean, table.compared()
    statement, *named = ROWS_WITH_A_KEY[damage]
    table.run(statement)
    differs(table.compared(), *named)


def test_a_row_under_another_key_is_lost_and_foreign(server: PostgresServer, driver: PortDriver) -> None:
    table = Counts(server, keyed=True)
    table.deliver(driver)
    table.run("UPDATE TABLE SET word = 'bee' WHERE word = 'be'")
    assert table.compared().counts == {"foreign": 1, "lost": 1}


ROWS = {
    "deleted": ("DELETE FROM TABLE WHERE word = 'be' AND count = 2", "lost", "count=2"),
    "doubled": (
        "INSERT INTO TABLE SELECT * FROM TABLE WHERE word = 'be' AND count = 2",
        "doubled",
        "count=2",
    ),
    "added": ("INSERT INTO TABLE VALUES ('be', 5, '{0}', 0.1)", "foreign", "count=5"),
}


@pytest.mark.parametrize("damage", ROWS)
def test_what_is_done_to_rows_that_are_appended(
    server: PostgresServer, driver: PortDriver, damage: str
) -> None:
    table = Counts(server, keyed=False)
    table.deliver(driver)
    clean = table.compared()
    assert (clean.clean, clean.stands) == (True, len(results())), clean
    statement, *named = ROWS[damage]
    table.run(statement)
    differs(table.compared(), *named)


def test_a_changed_row_among_appended_ones_is_lost_and_foreign(
    server: PostgresServer, driver: PortDriver
) -> None:
    table = Counts(server, keyed=False)
    table.deliver(driver)
    table.run("UPDATE TABLE SET share = share + 0.0001 WHERE word = 'be' AND count = 2")
    assert table.compared().counts == {"foreign": 1, "lost": 1}


def test_what_the_sink_itself_lost_doubled_or_changed(server: PostgresServer, driver: PortDriver) -> None:
    """With no hand in between: the deliveries lack an item, and the table agrees with them."""
    table = Counts(server, keyed=False)
    table.deliver(driver, lambda items: [item for item in items if item != items[3]])
    differs(table.compared(), "lost")


def test_rows_of_other_sinks_in_the_same_table_are_theirs(server: PostgresServer, driver: PortDriver) -> None:
    table = Counts(server, keyed=False, more="$sink")
    table.deliver(driver)
    table.run("INSERT INTO TABLE VALUES ('be', 5, '{0}', 0.1, 'another')")
    assert table.compared().clean
    table.run(f"INSERT INTO TABLE VALUES ('be', 5, '{{0}}', 0.1, '{SINK}')")
    differs(table.compared(), "foreign", "more='out'")


def test_what_is_not_due_may_be_there_and_need_not(server: PostgresServer, driver: PortDriver) -> None:
    table = Counts(server, keyed=True)
    table.deliver(driver, lambda items: items[:5])
    wanted = results()
    assert table.compared([item._replace(due=number < 5) for number, item in enumerate(wanted)]).clean
    assert table.compared([item._replace(due=False) for item in wanted]).clean
    assert table.compared([item._replace(due=number < 6) for number, item in enumerate(wanted)]).counts == {
        "changed": 1
    }


def test_how_results_were_bundled_is_said_to_be_unknown(server: PostgresServer, driver: PortDriver) -> None:
    table = Counts(server, keyed=False, more="$bundle")
    table.deliver(driver)
    findings = table.compared()
    assert findings.clean
    assert any("$bundle" in text for text in findings.unknown)


def test_a_table_that_is_gone_is_said(server: PostgresServer, driver: PortDriver) -> None:
    table = Counts(server, keyed=True)
    table.deliver(driver)
    server.execute(f"DROP TABLE {table.name}")
    with pytest.raises(UserError, match="there is no table"):
        table.compared()


# --- the encoder is not asked -------------------------------------------------------------------------------


def test_a_mistake_in_how_columns_are_written_is_seen(
    server: PostgresServer, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = postgres_columns.Column.array
    monkeypatch.setattr(
        postgres_columns.Column,
        "array",
        lambda self, values: right(self, [7 if value == 3 else value for value in values]),
    )
    table = Counts(server, keyed=False)
    table.deliver(driver)
    assert table.compared().counts == {"foreign": 3, "lost": 3}


def test_a_mistake_in_what_goes_into_a_row_is_seen(
    server: PostgresServer, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = postgres_rows.RowMaker._last_of_each_key
    monkeypatch.setattr(
        postgres_rows.RowMaker, "_last_of_each_key", lambda self, rows, slots: right(self, rows[::-1], slots)
    )
    table = Counts(server, keyed=True)
    table.deliver(driver)
    assert table.compared().counts.keys() == {"changed"}


# --- types --------------------------------------------------------------------------------------------------


TYPES = [
    ("text", 'ä \\ " \n', "b"), ("text", None, ""), ("bigint", -(2**63), 0),
    ("numeric", 2**64 - 1, 2**64 - 2), ("numeric(8, 2)", "1.50", "1.51"), ("boolean", True, False),
    ("float8", 1.5, 1.25), ("float8", float("inf"), 1e308), ("float8", float("nan"), 0.0), ("real", 0.1, 0.2),
    ("bytea", b"\x00\xff", b"\x00"), ("bytea[]", (b"\x00", b"a"), (b"a",)), ("int[]", (1, 2), (2, 1)),
    ("text[]", fs.Vector(["a", 'b"{,']), ("a",)), ("text[]", (), ("",)),
    ("int[]", ((1, 2), (3, None)), ((1, 2), (3, 4))),
    ("jsonb", fs.Map({"a": (1, None, "x")}), fs.Map({"a": (1, None, "y")})),
    ("jsonb", fs.Map({1: "x"}), fs.Map({"1": "x"})),
    ("json", Thing("inner", (True, 2.5)), Thing("inner", (1, 2.5))), ("jsonb", "text", "other"),
    ("jsonb[]", ("a", 1), ("a", "1")), ("text", (1, "a"), (1, "b")), ("text", True, False),
    ("text", 1.0, 2.0), ("text", 1e20, 1e21),
    ("timestamptz", "2026-01-01T12:00:00+00:00", "2026-01-01T12:00:01+00:00"),
    ("date", "2026-01-01", "2026-01-02"),
    ("timestamptz[]", ("2026-01-01T00:00:00Z",), ("2027-01-01T00:00:00Z",)),
    ("uuid", f"{1:032x}", f"{2:032x}"), ("varchar(3)", "abc", "abd"), ("char(5)", "abc", "abd"),
    ("interval", "1 day", "1 hour"), ("inet", "10.0.0.1", "10.0.0.2"), ("smallint", 7, 8),
    ("integer", "12", "13"), ("pair", Thing("inner", 7), Thing("inner", 8)),
    ("small_numbers", (1, 2), (1, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "other"), TYPES)
def test_values_of_every_kind_are_compared(
    server: PostgresServer, driver: PortDriver, column: str, value: Any, other: Any
) -> None:
    for made in ("DOMAIN small_numbers AS int[]", "TYPE pair AS (name text, value int)"):
        server.execute(f"DO $$ BEGIN CREATE {made}; EXCEPTION WHEN OTHERS THEN END $$")
    table = Table(server, f"name text PRIMARY KEY, value {column}", key=["name"])
    opened(table, driver, 0).deliver(fence(1), things(0, 1, Thing("x", value), Thing("none", None)))
    place = place_of(table.spec, SINK, JOB)
    assert place is not None
    time = time_of(Timestamp(1), FrontId(0))

    def wanted(x: Any) -> list[Wanted]:
        both = enumerate([Thing("x", x), Thing("none", None)])
        return [Wanted(meta_of(time, number), Slot(0), thing) for number, thing in both]

    assert place.look().compared(wanted(value)).clean, place.look().compared(wanted(value))
    assert place.look().compared(wanted(other)).counts == {"changed": 1}
