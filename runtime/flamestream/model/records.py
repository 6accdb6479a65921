"""Payload types that the built-in sources give.

>>> Document("a/b.txt", "some text").name
'a/b.txt'

Does not: read anything (connectors/files/places.py).
"""

from dataclasses import dataclass

from flamestream.model.payload import payload_type


@payload_type
@dataclass(frozen=True, slots=True)
class Document:
    """A file of a files source: its path relative to the source's folder, parts separated by '/', and its
    text."""

    name: str
    text: str


@payload_type
@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record of a Kafka source with `record: full`. `timestamp` is the broker's or the producer's, in
    milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: object
    value: object
    headers: tuple[tuple[str, bytes | None], ...]
