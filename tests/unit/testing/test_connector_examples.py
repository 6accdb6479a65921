"""The connectors of docs/reference/connectors.md pass the conformance kits, and `flamestream`'s manifest
takes them."""

import importlib.util
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flamestream.connectors import sinks, sources
from flamestream.model.errors import ManifestError
from flamestream.model.ids import Partition, SinkName, WorkerId
from flamestream.ports import Consumer, Post, Producer, Reactor
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, SINK
from flamestream.testing.consumer_contract import Outside as ConsumerOutside
from flamestream.testing.producer_contract import FRONT, PRODUCER_CHECKS, RECORDS, REPLAY_CHECKS
from flamestream.testing.producer_contract import Outside as ProducerOutside

EXAMPLES = Path(__file__).parents[3] / "examples" / "connectors"


@pytest.fixture(autouse=True)
def beside_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `flamestream run` has it: the application's folder is where modules are found."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert importlib.util.find_spec("sqlite_sink")


class Results:
    """What the example sink has in its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = {"connector": {"class": "sqlite_sink:SqliteSink", "settings": {"path": str(path)}}}

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        from flamestream.model.payload import encode_items

        database = sqlite3.connect(self.path)
        try:
            rows = database.execute(
                "SELECT slot, sequence, meta, result FROM results ORDER BY slot, meta"
            ).fetchall()
        finally:
            database.close()
        return [
            (slot, sequence, encode_items([(meta, result[1:-1])])) for slot, sequence, meta, result in rows
        ]


class Orders:
    """Ten rows."""

    payloads: list[object]

    def __init__(self, path: Path) -> None:
        database = sqlite3.connect(path)
        with database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
            database.executemany(
                "INSERT INTO orders (item) VALUES (?)", [(f"item {n}",) for n in range(RECORDS)]
            )
        database.close()
        self.partition = Partition("orders")
        self.payloads = [(n + 1, f"item {n}") for n in range(RECORDS)]
        self.spec = {
            "connector": {
                "class": "sqlite_source:SqliteSource",
                "settings": {"path": str(path), "table": "orders"},
            }
        }

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="orders")


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_sink(check: Callable[[ConsumerOutside], None], tmp_path: Path) -> None:
    check(Results(tmp_path / "results.db"))


@pytest.mark.parametrize("check", [*PRODUCER_CHECKS, *REPLAY_CHECKS], ids=lambda check: check.__name__)
def test_source(check: Callable[[ProducerOutside], None], tmp_path: Path) -> None:
    check(Orders(tmp_path / "orders.db"))


def test_what_a_class_must_say() -> None:
    good = {"connector": {"class": "sqlite_sink:SqliteSink", "settings": {"path": "x"}}}
    assert sinks.describe(good).fences
    for name, message in (
        ("sqlite_sink:Nothing", "cannot import"),
        ("collections:Counter", "has no method `open`"),
    ):
        with pytest.raises(ManifestError, match=f"spec.sinks.out.connector.class: .*{message}"):
            sinks.describe({"connector": {"class": name}}, "spec.sinks.out")
