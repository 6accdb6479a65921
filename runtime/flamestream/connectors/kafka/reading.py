"""The reader of a Kafka sink's topic: all items in the total order, for people and audits.

A topic has the items of each slot in order, but in several partitions, and with other slots between: so they
are gathered and sorted. A record that is not of this job and sink (its header says so) is passed over. Values
are read in the sink's own format: JSON and Avro do not say of which class a payload was. An audit reads the
topic by itself (connectors/kafka/place.py), and does not ask the sink's encoder.

Keeps: what its consumers see, so committed records of a transactional topic, all of a low-latency one, up to
the ends at the start. Does not: bring back what retention or compaction has removed: the first bundle of a
slot is then a later one, which is an error. Memory: all items.
"""

from collections.abc import Iterator
from typing import Any

from flamestream.connectors.kafka.connector import KafkaSinkSpec
from flamestream.connectors.kafka.formats import Decode, decoder_of
from flamestream.connectors.kafka.items import place_in, tag_of
from flamestream.fenced.reading import Item, Written
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import Meta
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway
from flamestream.net.kafka.reading import visible


def read_topic(spec: KafkaSinkSpec, job: str, where: str) -> Iterator[Item]:
    """All items of the sink at `where` in the manifest. Raises UserError if it cannot be read."""
    sink = where.removeprefix("spec.sinks.")
    try:
        found = sorted(
            _items(spec, tag_of(job, sink), Clients(spec, f"{job}-{sink}"), where), key=lambda item: item[0]
        )
    except BrokersAway as error:
        raise UserError(str(error)) from error
    _check_from_the_first(found, f"{where}: topic {spec.topic!r}")
    return iter(found)


def read_moments(spec: KafkaSinkSpec, job: str, where: str) -> Iterator[Written]:
    """When each bundle was written, as the topic's timestamps have it: a record's is taken when it is produced, or when
    the broker has appended it. Raises UserError if the topic cannot be read."""
    tag = tag_of(job, where.removeprefix("spec.sinks."))
    try:
        _, messages = visible(
            Clients(spec, f"{job}-{where.removeprefix('spec.sinks.')}"),
            spec.topic, spec.form == "transactional", where,
        )  # fmt: skip
        for message in messages:
            headers: Any = message.headers()
            place, (kind, moment) = place_in(headers), message.timestamp()
            if place is not None and place.tag == tag and kind:
                yield Slot(place.slot), SequenceNumber(place.sequence), moment * 1000
    except BrokersAway as error:
        raise UserError(str(error)) from error


def _items(spec: KafkaSinkSpec, tag: bytes, clients: Clients, where: str) -> Iterator[Item]:
    decode = decoder_of(spec.value)
    _, messages = visible(clients, spec.topic, spec.form == "transactional", where)
    for message in messages:
        headers: Any = message.headers()
        place = place_in(headers)
        if place is not None and place.tag == tag:
            at = f"{where}: topic {spec.topic!r}, partition {message.partition()}, {message.offset()}"
            yield (
                Meta(place.meta),
                Slot(place.slot),
                SequenceNumber(place.sequence),
                _payload(message.value(), decode, at),
            )


def _payload(value: bytes | None, decode: Decode, where: str) -> Any:
    try:
        return None if value is None else decode(value)
    except ValueError as error:
        raise Corrupt(f"{where}: {error}") from None


def _check_from_the_first(found: list[Item], where: str) -> None:
    had: dict[Slot, int] = {}
    for _, slot, sequence, _ in found:
        if sequence not in (had.get(slot, 0), had.get(slot, 0) + 1):
            raise Corrupt(
                f"{where}: bundle {sequence} of slot {slot} follows {had.get(slot, 0)}: what was between has "
                "expired or was compacted, so it cannot be read back"
            )
        had[slot] = sequence
