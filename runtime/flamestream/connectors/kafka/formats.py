"""Formats of keys and values: bytes of a record to a payload, and back.

| format  | a payload read is                | can be written                                             |
|---------|----------------------------------|------------------------------------------------------------|
| text    | str (UTF-8)                      | str                                                        |
| bytes   | bytes                            | bytes                                                      |
| json    | fs.Map, tuple, str, int, ...     | every payload; classes as objects                          |
| payload | what was written                 | every payload, in the canonical encoding                   |
| avro    | as JSON, with bytes              | what fits the schema                                       |

A null value is None, whatever the format, and None is written as null (a tombstone in a compacted topic).

>>> decoder_of("json")(b'{"n": [1, 2]}')
Map({'n': (1, 2)})
>>> encoder_of("text")("word")
b'word'

Keeps: the same bytes give the same payload and the same payload the same bytes. Does not: say which record it
was (the caller does).
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from flamestream.connectors.kafka.avro import Avro, AvroDecoder, AvroEncoder
from flamestream.connectors.kafka.plain import payload_of, plain_of
from flamestream.connectors.kit.rows import check_values
from flamestream.model import payload as codec
from flamestream.model.decoding import DecodeError, json_decoder
from flamestream.model.errors import Corrupt

Decode = Callable[[bytes], Any]
"""Raises ValueError for bytes that are not of the format."""
Encode = Callable[[Any], bytes]
"""Raises ValueError for a payload that the format cannot hold."""


class AvroFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The format Avro, with its settings."""

    avro: Avro
    """Values are Avro."""


Format = Literal["text", "bytes", "json", "payload"] | AvroFormat

_to_json: Final = msgspec.json.Encoder(enc_hook=plain_of).encode
"""Classes, tuples and scalars directly; our collections by way of plain values."""
_from_json: Final = json_decoder()


def decoder_of(form: Format) -> Decode:
    """The function that reads a record's bytes as this format."""
    if isinstance(form, AvroFormat):
        return AvroDecoder(form.avro).decode
    plain: dict[str, Decode] = {"text": _text, "bytes": bytes, "json": _json, "payload": _payload}
    return plain[form]


def encoder_of(form: Format) -> Encode:
    """The function that writes a payload in this format."""
    if isinstance(form, AvroFormat):
        return AvroEncoder(form.avro).encode
    encoders: dict[str, Encode] = {
        "text": _as_text,
        "bytes": _as_bytes,
        "json": _to_json,
        "payload": codec.encode,
    }
    return encoders[form]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8: {error.reason}"
        ) from None


def _json(data: bytes) -> Any:
    check_values(data)
    try:
        return payload_of(_from_json(data))
    except DecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _payload(data: bytes) -> Any:
    try:
        return codec.decode(data)
    except Corrupt as error:
        raise ValueError(f"it is not an encoded payload: {error}") from None


def _as_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(
            f"a {type(value).__name__} is not text: give the sink str payloads, or use value: json"
        )
    return value.encode()


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(
            f"a {type(value).__name__} is not bytes: give the sink bytes payloads, or use value: json"
        )
    return value
