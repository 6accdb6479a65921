"""Values of a topic's records, as any other program reads them: with json or fastavro, or as text or bytes.

`payload` is FlameStream's own encoding: it is read by its Python reference, whatever kernel wrote it, and
compared as a value.

Does not: use what the sink writes with (kafka/formats.py).
"""

import io
import json
from collections.abc import Callable
from typing import Any, Final

from flamestream.connectors.kafka.avro import Avro, Registry
from flamestream.connectors.kafka.avro_shape import checked
from flamestream.connectors.kit.plain_values import BASE64, Words, form, plain
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.payloads import encoding
from flamestream.model.payloads.exact import exact

Agrees = Callable[[bytes, Any], bool]
"""Whether a record's value is this payload."""
_AVRO: Final = Words(lambda data: data, float("nan"), float("inf"))
"""Avro has a word for each."""
_HEAD: Final = 5


def agrees_as(value: Any) -> Agrees:
    """`value`: as in the manifest."""
    if isinstance(value, str):
        return {"text": _as_text, "bytes": _as_bytes, "json": _as_json, "payload": _as_payload}[value]
    return _AsAvro(value.avro)


def _as_text(data: bytes, payload: Any) -> bool:
    return isinstance(payload, str) and data == payload.encode()


def _as_bytes(data: bytes, payload: Any) -> bool:
    return isinstance(payload, bytes) and data == payload


def _as_json(data: bytes, payload: Any) -> bool:
    try:
        return form(json.loads(data)) == form(plain(payload, BASE64))
    except (ValueError, RecursionError):
        return False


def _as_payload(data: bytes, payload: Any) -> bool:
    try:
        return exact(encoding.decode(data)) == exact(payload)
    except Corrupt:
        return False


class _AsAvro:
    """The comparison of what fastavro reads with what fastavro itself makes of the payload."""

    def __init__(self, avro: Avro) -> None:
        from fastavro import parse_schema  # an extra

        if avro.schema is None:
            raise UserError("avro: a sink needs `schema` (a file)")
        with open(avro.schema, encoding="utf-8") as file:
            self._schema = checked(parse_schema(_stored(json.load(file))))
        self._registry = None if avro.registry is None else Registry(avro)

    def __call__(self, data: bytes, payload: Any) -> bool:
        from fastavro import schemaless_writer  # an extra

        schema = self._schema
        if self._registry is not None:
            if data[:1] != b"\0" or len(data) < _HEAD:
                return False
            schema, data = self._registry.schema(int.from_bytes(data[1:_HEAD], "big")), data[_HEAD:]
        made = io.BytesIO()
        schemaless_writer(made, self._schema.parsed, plain(payload, _AVRO))
        made.seek(0)
        read = io.BytesIO(data)
        try:
            found = schema.read(read)
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            EOFError,
            StopIteration,
            OverflowError,
            MemoryError,
            RecursionError,
        ):
            return False
        return not read.read(1) and form(found) == form(self._schema.read(made))


def _stored(schema: Any) -> Any:
    """Without logical types: a date is the number that is stored."""
    if isinstance(schema, dict):
        return {name: _stored(part) for name, part in schema.items() if name != "logicalType"}
    return [_stored(part) for part in schema] if isinstance(schema, list) else schema
