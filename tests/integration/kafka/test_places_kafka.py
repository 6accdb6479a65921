"""The audit of a user's topic, on a real broker: whatever stands in a partition that should not, or not
there, is found, and named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Message, Producer

from flamestream.connectors.kafka import formats
from flamestream.connectors.kafka import items as kafka_items
from flamestream.connectors.kafka.place_partitions import partition_of
from flamestream.connectors.kit.standing import Span
from flamestream.connectors.sinks import place_of
from flamestream.testing.consumer_contract import SINK
from flamestream.testing.port_driver import PortDriver
from support.kafka_broker import Broker
from support.kafka_broker.topics import QUIET
from support.places.standing import JOB, Outside, differs, results

PARTITIONS = 3
HEADER = "flamestream"


class Counts(Outside):
    """A topic of counts."""

    def __init__(self, broker: Broker, **settings: Any) -> None:
        self.broker, self.name = broker, broker.topic(PARTITIONS)
        spec = {
            "brokers": broker.address,
            "topic": self.name,
            "key": "word",
            "control": f"control-{self.name}",
            **settings,
        }
        super().__init__({"kafka": spec})

    def records(self) -> list["Record"]:
        return [Record.of(message) for message in self.broker.read(self.name, decided=True)]

    def written_anew(self, records: list["Record"]) -> "Counts":
        """Another topic of the same sink with just these, by an ordinary producer."""
        made = Counts(
            self.broker,
            **{
                name: self.spec["kafka"][name]
                for name in ("form", "value", "partitioner")
                if name in self.spec["kafka"]
            },
        )
        producer = Producer({"bootstrap.servers": self.broker.address, "enable.idempotence": True, **QUIET})
        for record in records:
            producer.produce(
                made.name, record.value, record.key, record.partition, headers=list(record.headers)
            )
        assert producer.flush(30) == 0
        return made


class Record(msgspec.Struct, frozen=True):
    """What can be changed of a record."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]

    @classmethod
    def of(cls, message: Message) -> "Record":
        headers: Any = message.headers()
        return cls(message.partition() or 0, message.key(), message.value(), headers)

    def but(self, **changes: Any) -> "Record":
        return msgspec.structs.replace(self, **changes)

    def placed(self, **changes: Any) -> "Record":
        """With another header: tag, attempt, layout, slot, sequence, count, meta, digest."""
        names = ["tag", "attempt", "layout", "slot", "sequence", "count", "meta", "digest"]
        place = dict(zip(names, msgspec.msgpack.decode(self.headers[0][1]), strict=True)) | changes
        return self.but(headers=[(HEADER, msgspec.msgpack.encode(list(place.values())))])


Damage = Callable[[list[Record]], list[Record]]


def of_be(records: list[Record]) -> list[int]:
    return [number for number, record in enumerate(records) if record.key == b"be"]


def swapped(records: list[Record]) -> list[Record]:
    first, second = of_be(records)[:2]
    made = list(records)
    made[first], made[second] = made[second], made[first]
    return made


def changed(number: int, **changes: Any) -> Damage:
    """Of one record of the word `be`."""

    def damage(records: list[Record]) -> list[Record]:
        at = of_be(records)[number]
        return [record.but(**changes) if place == at else record for place, record in enumerate(records)]

    return damage


def elsewhere(records: list[Record]) -> list[Record]:
    at = of_be(records)[-1]
    other = (records[at].partition + 1) % PARTITIONS
    return [record.but(partition=other) if place == at else record for place, record in enumerate(records)]


DAMAGES: dict[str, tuple[Damage, str, str]] = {
    "the first is lost": (lambda records: records[1:], "lost", "in no partition"),
    "the last is lost": (lambda records: records[:-1], "lost", "in no partition"),
    "one in the middle is lost": (lambda records: records[:4] + records[5:], "lost", "in no partition"),
    "one is there twice": (
        lambda records: [*records, records[2]],
        "doubled",
        "is there already, at partition",
    ),
    "two of a key are swapped": (swapped, "reordered", "behind a later one of its slot"),
    "a wrong value": (
        changed(1, value=b'{"word":"be","count":7,"lines":[0,0],"share":0.25}'),
        "changed",
        '"count":7',
    ),
    "a value of another type": (
        changed(1, value=b'{"word":"be","count":"2","lines":[0,0],"share":0.25}'),
        "changed",
        '"2"',
    ),
    "no JSON": (changed(1, value=b"\xff"), "changed", "xff"),
    "a null": (changed(1, value=None), "changed", "None"),
    "a wrong key": (changed(1, key=b"bee"), "changed", "the key b'bee'"),
    "no key": (changed(1, key=None), "changed", "the key None"),
    "another partition": (elsewhere, "misplaced", "belongs to partition"),
    "another slot": (lambda records: [records[0].placed(slot=7), *records[1:]], "misplaced", "of slot 7"),
    "a record of somebody else": (
        lambda records: [*records, records[0].but(headers=[])],
        "foreign",
        "without FlameStream's header",
    ),
    "a header that is none": (
        lambda records: [*records, records[0].but(headers=[(HEADER, b"x")])],
        "foreign",
        "without FlameStream's",
    ),
    "another job's output": (
        lambda records: [*records, records[0].placed(tag=b"12345678")],
        "foreign",
        "of another job or sink",
    ),
    "an item that is none": (
        lambda records: [*records, records[0].placed(meta=b"\0" * 9)],
        "foreign",
        "the reference has not",
    ),
}


@pytest.fixture(scope="module")
def delivered(broker: Broker) -> Counts:
    """What the sink itself wrote."""
    with PortDriver() as driver:
        topic = Counts(broker)
        topic.deliver(driver)
    return topic


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_named(delivered: Counts, damage: str) -> None:
    change, kind, says = DAMAGES[damage]
    differs(delivered.written_anew(change(delivered.records())).compared(), kind, says)


def test_what_the_sink_wrote_and_what_another_producer_copied_is_clean(delivered: Counts) -> None:
    for topic in (delivered, delivered.written_anew(delivered.records())):
        findings = topic.compared()
        assert (findings.clean, findings.stands) == (True, len(results())), findings


def test_order_counts_within_a_partition_alone(delivered: Counts) -> None:
    records = delivered.records()
    assert delivered.written_anew(sorted(records, key=lambda record: -record.partition)).compared().clean


def test_another_job_sees_only_foreign_records(delivered: Counts) -> None:
    place = place_of(delivered.spec, SINK, "another")
    assert place is not None
    assert place.look().compared(results()).counts == {"foreign": len(results()), "lost": len(results())}


def test_what_is_not_due_may_be_there_and_need_not(delivered: Counts) -> None:
    records = sorted(delivered.records(), key=lambda record: msgspec.msgpack.decode(record.headers[0][1])[6])
    topic, wanted = delivered.written_anew(records[:5]), results()
    assert topic.compared([item._replace(due=number < 5) for number, item in enumerate(wanted)]).clean
    findings = topic.compared([item._replace(due=number < 6) for number, item in enumerate(wanted)])
    assert (findings.counts, findings.not_due) == ({"lost": 1}, len(wanted) - 6)


def test_records_of_before_a_savepoint_or_of_other_code_are_passed_over(delivered: Counts) -> None:
    wanted = results()
    place = place_of(delivered.spec, SINK, JOB)
    assert place is not None
    look = place.look()
    assert look.newest == wanted[-1].meta
    assert look.compared(wanted[5:], Span(begins=wanted[5].meta)).clean
    assert look.compared(wanted[:5], Span(until=wanted[5].meta)).clean
    assert look.compared(wanted[:5]).counts == {"foreign": len(wanted) - 5}


@pytest.mark.parametrize("form", ["transactional", "low-latency"])
@pytest.mark.parametrize("value", ["json", "payload", "avro"])
def test_every_form_and_format_is_read(
    broker: Broker, driver: PortDriver, tmp_path: Path, form: str, value: str
) -> None:
    schema = {
        "type": "record", "name": "Change",
        "fields": [
            {"name": "word", "type": "string"}, {"name": "count", "type": "long"},
            {"name": "lines", "type": {"type": "array", "items": "long"}}, {"name": "share", "type": "float"},
        ],
    }  # fmt: skip
    (tmp_path / "schema.json").write_bytes(msgspec.json.encode(schema))
    topic = Counts(
        broker,
        form=form,
        value={"avro": {"schema": str(tmp_path / "schema.json")}} if value == "avro" else value,
    )
    topic.deliver(driver)
    assert topic.compared().clean, topic.compared()
    wanted = results()
    wrong = [item._replace(payload=replace(item.payload, count=item.payload.count + 1)) for item in wanted]
    assert topic.compared(wrong).counts["changed"] >= len(wanted)


@pytest.mark.parametrize(
    "partitioner",
    [
        "murmur2_random",
        "murmur2",
        "consistent_random",
        "consistent",
        "fnv1a_random",
        "fnv1a",
        "random",
        "slot",
    ],
)
def test_partitions_are_those_of_librdkafka(broker: Broker, partitioner: str) -> None:
    """Not the sink: an ordinary producer of the library chooses."""
    if partitioner == "slot":
        assert partition_of("slot", b"x", 5, PARTITIONS) == 2
        return
    topic = broker.topic(7)
    producer = Producer({"bootstrap.servers": broker.address, "partitioner": partitioner, **QUIET})
    keys = [
        None,
        b"",
        *(f"key-{number}".encode() * (number % 4 + 1) for number in range(200)),
        b"\xff\x00\x80" * 5,
    ]
    for number, key in enumerate(keys):
        producer.produce(topic, b"%d" % number, key)
    assert producer.flush(30) == 0
    for message in broker.read(topic):
        key = keys[int(message.value() or b"")]
        assert message.key() == key
        assert partition_of(partitioner, key, 0, 7) in (None, message.partition()), key
    assert partition_of(partitioner, b"key", 0, 7) is not None or partitioner == "random"


# --- the encoder is not asked -------------------------------------------------------------------------------


def test_a_mistake_in_how_values_are_written_is_seen(
    broker: Broker, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = formats._to_json
    monkeypatch.setattr(formats, "_to_json", lambda value: right(value).replace(b"0.5", b"0.25"))
    topic = Counts(broker)
    topic.deliver(driver)
    assert topic.compared().counts.keys() == {"changed"}


def test_a_mistake_in_how_keys_and_partitions_are_made_is_seen(
    broker: Broker, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_items, "_key_of", lambda key, where: lambda payload: payload.word.upper())
    topic = Counts(broker)
    topic.deliver(driver)
    assert topic.compared().counts == {"changed": len(results())}
