"""The audit of the audit where users look: the damages of the table, left in a real PostgreSQL, Redis, Kafka
and folder of events.

A damage is done to what a run has delivered, before a sink keeps it. What hands do to rows, entries and
records afterwards is in test_places_postgres.py, test_places_redis.py, test_places_kafka.py and
test_places_events.py.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flamestream.audit.job_audit import audited
from flamestream.audit.places import PlaceVerdict
from flamestream.audit.report import Report, sentence
from support.kafka_broker import Broker
from support.ports import free_port
from support.postgres import PostgresServer, postgres
from support.redis import RedisServer, redis_server
from support.runs.damage import BOUNDS, OUTPUT, RIGHT, Damage
from support.runs.past_run import PastRun, finished, own_modules

Says = dict[str, int]
COUNTS = ("lost", "not_due", "changed", "doubled", "foreign", "misplaced", "reordered")


@pytest.fixture(autouse=True)
def application() -> Iterator[None]:
    with own_modules():
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        yield made


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    pytest.importorskip("redis")  # an extra
    with redis_server() as made:
        yield made


def counts_of(found: object) -> Says:
    """Every count that is not 0."""
    return {name: count for name in COUNTS if (count := getattr(found, name, 0))}


def looked_at(past: PastRun, folder: Path, sink: dict[str, Any]) -> tuple[Report, PlaceVerdict]:
    report = audited(past.leave(folder, sink), past.last_commit())
    (place,) = report.places
    return report, place


def told(report: Report, place: PlaceVerdict, says: Says) -> None:
    """What differs is not clean, and is told in words."""
    wrong = says.keys() - {"not_due", "missing"}
    assert (place.clean, report.clean and report.kept) == (
        not wrong,
        not wrong and report.verdict.clean and not report.input[0].problems,
    )
    text = sentence(report)
    assert f"{place.place} ({place.stands:,} there): " in text
    for kind, count in says.items():
        if kind in wrong:
            assert f"{count:,} {'out of order' if kind == 'reordered' else kind}" in text
    assert all(example in text for example in place.examples[:3])


def of_places(says: Says, *unseen: str) -> Says:
    """Without what a place does not show."""
    return {kind: count for kind, count in says.items() if kind not in ("missing", "unexpected", *unseen)}


def named(*damages: Damage) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "damage", damages, ids=[damage.name.replace(" ", "-") for damage in damages]
    )


# --- PostgreSQL ---------------------------------------------------------------------------------------------


def table(server: PostgresServer, *, key: bool = False, history: bool = True) -> dict[str, Any]:
    name = f"t{uuid4().hex}"
    server.execute(f"CREATE TABLE {name} (word text, count text{', PRIMARY KEY (word)' if key else ''})")
    more: dict[str, Any] = {"key": ["word"]} if key else {}
    more |= {"history": f"{name}_history"} if history else {}
    columns = {"word": "0", "count": "1"}
    return {
        "postgres": {"dsn": server.dsn, "table": name, "columns": columns, "state": f"{name}_state", **more}
    }


ROWS: Mapping[str, Says] = {
    "values swapped across slots": {},
    "wrong value": {"lost": 1, "doubled": 1},
    "wrong key": {"lost": 1, "doubled": 1},
    "wrong time": {},
    "going on, a hole above the bound": {"not_due": 9},
    "never committed, a hole in the output": {"not_due": 9},
    "two phases, a hole in what is held": {"not_due": 9},
}
"""Rows say no slot, no place in an order and no time: where that makes them look otherwise."""


@named(*OUTPUT, *BOUNDS, *RIGHT)
def test_in_a_table(damage: Damage, server: PostgresServer, tmp_path: Path) -> None:
    """The history says it as a files sink does; the rows say what rows can say."""
    report, place = looked_at(damage.past(), tmp_path, table(server))
    assert counts_of(report.verdict) == of_places(damage.says)
    rows = ROWS.get(damage.name, of_places(damage.says, "misplaced", "reordered"))
    assert counts_of(place) == rows
    told(report, place, rows)


def test_in_a_table_of_which_nothing_else_is_known(server: PostgresServer, tmp_path: Path) -> None:
    past = finished()
    past.given[3].pop()
    report, place = looked_at(past, tmp_path, table(server, history=False))
    assert place.alone
    assert counts_of(report.verdict) == counts_of(place) == {"lost": 1}
    assert (report.verdict.expected, report.verdict.delivered) == (40, 39)
    assert "the order of rows: a table has none" in sentence(report)


def last_of_each_word(past: PastRun) -> dict[str, Any]:
    return {item.payload[0]: item.payload[1] for call in past.given for item in call}


@named(*OUTPUT)
def test_in_a_table_with_a_key(damage: Damage, server: PostgresServer, tmp_path: Path) -> None:
    """A row has the last value of its word, so earlier ones are in the history alone."""
    past = damage.past()
    report, place = looked_at(past, tmp_path, table(server, key=True))
    assert counts_of(report.verdict) == damage.says
    right, now = last_of_each_word(finished()), last_of_each_word(past)
    differences = {
        "lost": len(right.keys() - now.keys()),
        "changed": sum(str(now[word]) != str(right[word]) for word in now.keys() & right.keys()),
        "foreign": len(now.keys() - right.keys()),
    }
    assert counts_of(place) == {kind: count for kind, count in differences.items() if count}
    assert not report.clean


def test_a_table_that_differs_from_its_history(server: PostgresServer, tmp_path: Path) -> None:
    sink = table(server, key=True)
    past = finished()
    job = past.leave(tmp_path, sink)
    name = sink["postgres"]["table"]
    server.execute(
        f"DELETE FROM {name} WHERE word = 'oak'", f"UPDATE {name} SET count = '3' WHERE word = 'elm'"
    )
    report = audited(job, past.last_commit())
    assert counts_of(report.verdict) == {}
    assert counts_of(report.places[0]) == {"lost": 1, "changed": 1}
    assert not report.clean and not report.kept
    assert "lost: row word='oak' is not there; the reference has count=4" in sentence(report)
    assert "changed: row word='elm' has count='3', an older value; the reference has count=4" in sentence(
        report
    )
    assert report.first_difference.startswith(f"in sink 'counts', table {name}")


@pytest.mark.parametrize(("outcome", "clean"), [("drained", False), ("failed", False), ("", True)])
def test_what_was_delivered_above_the_bound_stands_there_when_the_job_has_ended(
    server: PostgresServer, tmp_path: Path, outcome: str, clean: bool
) -> None:
    """While it runs nobody can say: the table is looked at before the history is read."""
    sink, past = table(server, key=True), damage_of("going on").past()
    past.outcome = outcome
    job = past.leave(tmp_path, sink)
    name = sink["postgres"]["table"]
    server.execute(f"UPDATE {name} SET count = '3' WHERE word = 'ash' AND count = '4'")
    assert audited(job, past.last_commit()).clean == clean


def damage_of(name: str) -> Damage:
    return next(damage for damage in [*OUTPUT, *BOUNDS, *RIGHT] if damage.name == name)


# --- Redis --------------------------------------------------------------------------------------------------


def entries(server: RedisServer, **settings: Any) -> dict[str, Any]:
    return {"redis": {"url": server.url, "key": f"k{uuid4().hex}", **settings}}


@named(*OUTPUT, damage_of("going on, nothing out"), damage_of("going on, a hole above the bound"), *RIGHT)
def test_in_a_stream(damage: Damage, redis: RedisServer, tmp_path: Path) -> None:
    """Entries have their metas here, and no slots."""
    report, place = looked_at(damage.past(), tmp_path, entries(redis, form="stream", history="bundles"))
    says = of_places(damage.says, "misplaced")
    assert counts_of(report.verdict) == of_places(damage.says)
    assert counts_of(place) == says
    told(report, place, says)


@named(damage_of("wrong value"), damage_of("swapped within a key"), damage_of("completed"))
def test_in_a_stream_of_which_nothing_else_is_known(
    damage: Damage, redis: RedisServer, tmp_path: Path
) -> None:
    report, place = looked_at(damage.past(), tmp_path, entries(redis, form="stream"))
    assert place.alone
    assert counts_of(report.verdict) == counts_of(place) == damage.says


@named(
    damage_of("last run lost"), damage_of("wrong value"), damage_of("foreign item"), damage_of("completed")
)
def test_in_a_hash(damage: Damage, redis: RedisServer, tmp_path: Path) -> None:
    past = damage.past()
    report, place = looked_at(
        past, tmp_path, entries(redis, form="hash", field="0", value="1", history="bundles")
    )
    assert counts_of(report.verdict) == damage.says
    right, now = last_of_each_word(finished()), last_of_each_word(past)
    changed = sum(now[word] != right[word] for word in right)
    assert counts_of(place) == ({"changed": changed} if changed else {})


# --- Kafka --------------------------------------------------------------------------------------------------


def topic(broker: Broker) -> dict[str, Any]:
    name = broker.topic(3)
    settings = {"topic": name, "control": f"control-{name}", "value": "payload", "partitioner": "slot"}
    return {"kafka": {"brokers": broker.address, **settings}}


RECORDS: Mapping[str, Says] = {
    "going on, wrong value above the bound": {"lost": 1, "foreign": 1, "not_due": 8}
}
"""A record says which item it is: so one with a wrong value stands for the right one, which is not any more
to come."""


@named(*OUTPUT, *BOUNDS, *RIGHT)
def test_in_a_topic(damage: Damage, broker: Broker, tmp_path: Path) -> None:
    report, place = looked_at(damage.past(), tmp_path, topic(broker))
    assert place.alone
    assert counts_of(report.verdict) == RECORDS.get(damage.name, of_places(damage.says))
    wrong = counts_of(place)
    told(report, place, wrong)
    changed = wrong.pop("changed", 0)
    as_said = {kind: wrong.get(kind, 0) + changed * (kind in ("lost", "foreign")) for kind in COUNTS}
    assert counts_of(report.verdict) == {kind: count for kind, count in as_said.items() if count}


# --- events -------------------------------------------------------------------------------------------------


EVENTS: Mapping[str, Says] = {
    "values swapped across slots": {},
    "wrong value": {"lost": 1, "doubled": 1, "reordered": 1},
    "wrong key": {"lost": 1, "doubled": 1},
    "wrong time": {},
}
"""Events say no slot and no time: where that makes them look otherwise."""


@named(*OUTPUT, damage_of("completed"), damage_of("going on"))
def test_in_events(damage: Damage, tmp_path: Path) -> None:
    sink = {"events": {"path": str(tmp_path / "out"), "listen": f"127.0.0.1:{free_port()}", "fsync": False}}
    report, place = looked_at(damage.past(), tmp_path, sink)
    says = EVENTS.get(damage.name, of_places(damage.says, "misplaced"))
    assert counts_of(report.verdict) == damage.says
    assert counts_of(place) == says
    told(report, place, says)
    assert "not known: what clients received" in sentence(report)
