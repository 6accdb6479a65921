"""Avro with a real schema registry (Apicurio): what the stub of tests/unit/connectors/kafka/test_kafka_registry.py
says of registries is so."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flamestream as fs
from flamestream.connectors.kafka.avro import Avro
from flamestream.connectors.kafka.formats import AvroFormat, decoder_of, encoder_of
from flamestream.model.errors import UserError
from flamestream.net.kafka.failures import BrokersAway
from flamestream.testing.consumer_contract import Worker, bundle, fence
from flamestream.testing.port_driver import PortDriver
from support.kafka_broker import Broker
from support.kafka_broker.apicurio import Apicurio, apicurio
from support.places.kafka_places import Following, ReadTopic, WrittenTopic

pytest.importorskip("fastavro")

ID = {"name": "id", "type": "long"}
FIRST = {"type": "record", "name": "Order", "fields": [ID]}
SECOND = {"type": "record", "name": "Order", "fields": [ID, {"name": "note", "type": "string"}]}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with apicurio(tmp_path_factory.mktemp("registry")) as made:
        yield made


def written(registry: Apicurio, tmp_path: Path, schema: Any, subject: str) -> AvroFormat:
    file = tmp_path / "schema.avsc"
    file.write_text(json.dumps(schema))
    return AvroFormat(Avro(schema=str(file), registry=registry.url, subject=subject))


def read(registry: Apicurio) -> AvroFormat:
    return AvroFormat(Avro(registry=registry.url))


def test_each_record_is_framed_with_its_schemas_id_and_read_by_that_schema(
    registry: Apicurio, tmp_path: Path
) -> None:
    first, second = registry.register("orders-value", FIRST), registry.register("orders-value", SECOND)
    old = encoder_of(written(registry, tmp_path, FIRST, "orders-value"))(fs.Map({"id": 7}))
    new = encoder_of(written(registry, tmp_path, SECOND, "orders-value"))(fs.Map({"id": 8, "note": "n"}))
    assert (old[:5], new[:5]) == (b"\0" + first.to_bytes(4, "big"), b"\0" + second.to_bytes(4, "big"))
    decode = decoder_of(read(registry))
    assert [decode(data) for data in (old, new, old)] == [
        fs.Map({"id": 7}),
        fs.Map({"id": 8, "note": "n"}),
        fs.Map({"id": 7}),
    ]


def test_a_subject_may_have_any_name(registry: Apicurio, tmp_path: Path) -> None:
    number = registry.register("shop%2Forders%20value", FIRST)
    data = encoder_of(written(registry, tmp_path, FIRST, "shop/orders value"))(fs.Map({"id": 7}))
    assert data[:5] == b"\0" + number.to_bytes(4, "big")


@pytest.mark.parametrize("subject", ["nobody-knows", "known"])
def test_a_schema_that_is_not_registered_is_the_users_to_register(
    registry: Apicurio, tmp_path: Path, subject: str
) -> None:
    registry.register("known", FIRST)
    with pytest.raises(UserError, match=f"not registered under {subject}"):
        encoder_of(written(registry, tmp_path, SECOND, subject))(fs.Map({"id": 7, "note": "n"}))


def test_a_record_of_an_id_that_the_registry_does_not_know_is_not_of_the_format(registry: Apicurio) -> None:
    with pytest.raises(ValueError, match="has nothing at /schemas/ids/999999"):
        decoder_of(read(registry))(b"\0" + (999_999).to_bytes(4, "big") + b"\x0e")


def test_a_schema_of_several_pieces_is_refused(registry: Apicurio) -> None:
    registry.register("piece", FIRST)
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "order", "type": "Order"}]}
    number = registry.register(
        "outer", outer, references=[{"name": "Order", "subject": "piece", "version": 1}]
    )
    with pytest.raises(UserError, match="register it in one piece"):
        decoder_of(read(registry))(b"\0" + number.to_bytes(4, "big") + b"\x0e")


def test_what_a_sink_writes_a_source_reads(registry: Apicurio, broker: Broker, tmp_path: Path) -> None:
    """Through a topic, neither with a schema but from the registry's ids."""
    number = registry.register("words-value", "string")
    form = {
        "avro": {"schema": str(tmp_path / "schema.avsc"), "registry": registry.url, "subject": "words-value"}
    }
    written(registry, tmp_path, "string", "words-value")
    output = WrittenTopic(broker, "transactional", value=form, partitioner="slot")
    with PortDriver() as driver:
        worker = Worker(output, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1, "wörd"))
    (message,) = broker.read(output.name)
    assert (message.value() or b"")[:5] == b"\0" + number.to_bytes(4, "big")
    with PortDriver() as driver:
        Following(
            ReadTopic(broker, name=output.name, value={"avro": {"registry": registry.url}}), driver
        ).wait("wörd")


def test_a_registry_that_is_killed_is_asked_again(registry: Apicurio) -> None:
    """The last one here: it forgets what it knew."""
    registry.kill()
    decode = decoder_of(read(registry))
    with pytest.raises(BrokersAway):
        decode(b"\0\0\0\0\1\x0e")
    registry.start()
    number = registry.register("orders-value", FIRST)
    assert decode(b"\0" + number.to_bytes(4, "big") + b"\x0e") == fs.Map({"id": 7})
