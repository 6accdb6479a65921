"""Avro values: with one schema from a file, or framed with the id of a schema in a registry (Confluent's
format).

Framed: a zero byte, the schema's id in four bytes, the datum. A schema is asked for once and never changes
under its id. A sink writes with the one schema of its file; if it also names a registry, the schema must be
registered under `subject` and its id is looked up.

Logical types are read as what they are stored as (a date is an int), so that a payload depends on the bytes
alone.

Keeps: the same bytes and schema give the same payload. Does not: register schemas, or resolve references
between them.
"""

import base64
import http.client
import io
import json
import urllib.error
import urllib.request
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from flamestream.connectors.kafka.avro_shape import Schema, checked
from flamestream.connectors.kafka.plain import payload_of, plain_of
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.errors import UserError
from flamestream.net.kafka.failures import BrokersAway

T = TypeVar("T")

_MAGIC: Final = b"\0"
_HEAD: Final = 5
ANSWER_SECONDS: Final = 10.0
MAX_ANSWER: Final = 16 << 20


class _Registered(msgspec.Struct, frozen=True):
    """A registry's answer to the id of a schema."""

    schema: str
    references: list[object] | None = None


class _Known(msgspec.Struct, frozen=True):
    """A registry's answer to a schema."""

    id: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class Avro(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`schema`: a file. `registry`: a URL like http://host:8081."""

    schema: str | None = None
    """A file that holds one."""
    registry: str | None = None
    """URL of a schema registry, like http://host:8081: values are framed with the id of their schema."""
    subject: str | None = None
    """The name under which a sink's schema is registered: only with a registry."""
    user: str | None = None
    """Name of the environment variable that holds USER:PASSWORD for the registry."""

    def __post_init__(self) -> None:
        if self.schema is None and self.registry is None:
            raise ValueError("avro needs `schema` (a file) or `registry` (a URL)")
        if self.registry is None and (self.subject or self.user):
            raise ValueError("`subject` and `user` are of a `registry`: write its URL, or remove them")


class AvroDecoder:
    """The way from bytes to payloads. `decode` raises ValueError for bytes that are none, BrokersAway,
    UserError."""

    def __init__(self, spec: Avro) -> None:
        self._plain = None if spec.registry is not None else _file(spec)
        self._registry = None if spec.registry is None else Registry(spec)

    def decode(self, data: bytes) -> Any:
        if self._plain is not None:
            return _read(data, self._plain)
        assert self._registry is not None, "one of both is there"
        if len(data) < _HEAD or data[:1] != _MAGIC:
            raise ValueError(
                "it is not framed with a schema's id: give `schema` instead of `registry` if it has none"
            )
        return _read(data[_HEAD:], self._registry.schema(int.from_bytes(data[1:_HEAD], "big")))


class AvroEncoder:
    """The way from payloads to bytes. `encode` raises ValueError for a payload that does not fit,
    BrokersAway, UserError."""

    def __init__(self, spec: Avro) -> None:
        if spec.schema is None:
            raise UserError("avro: a sink needs `schema` (a file)")
        self._schema = _file(spec).parsed
        self._registry = None if spec.registry is None else Registry(spec)
        self._spec = spec
        self._head: bytes | None = b"" if spec.registry is None else None

    def encode(self, value: Any) -> bytes:
        from fastavro import schemaless_writer  # an extra

        # Asked for the first record, in the sink's thread: there a registry that is away is waited for.
        if self._head is None:
            assert self._registry is not None
            self._head = _MAGIC + self._registry.id_of(self._spec).to_bytes(4, "big")
        made = io.BytesIO()
        try:
            schemaless_writer(made, self._schema, plain_of(value))
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise ValueError(f"it does not fit the Avro schema {self._spec.schema}: {error}") from None
        return self._head + made.getvalue()


class Registry:
    """Schemas by id. Calls block."""

    def __init__(self, spec: Avro) -> None:
        assert spec.registry is not None
        self._url = spec.registry.rstrip("/")
        self._user = spec.user
        self._known: dict[int, Schema] = {}

    def schema(self, number: int) -> Schema:
        """The parsed schema. Raises BrokersAway, or ValueError if the registry has no such schema."""
        found = self._known.get(number)
        if found is None:
            answer = self._ask(f"/schemas/ids/{number}", None, _Registered)
            if answer.references:
                raise UserError(
                    f"{self._url}: schema {number} refers to others, which is not supported: "
                    "register it in one piece"
                )
            found = self._known[number] = _parsed(
                _from_text(answer.schema, f"schema {number} of {self._url}")
            )
        return found

    def id_of(self, spec: Avro) -> int:
        """The id under which the schema in the sink's file is registered. Raises BrokersAway, or UserError if
        it is not."""
        if spec.subject is None or spec.schema is None:
            raise UserError(
                "avro: a sink with a registry needs `subject`, the name under which `schema` is registered"
            )
        body = json.dumps({"schema": json.dumps(_read_file(spec.schema))}).encode()
        try:
            return self._ask(f"/subjects/{quote(spec.subject, safe='')}", body, _Known).id
        except ValueError as error:
            raise UserError(
                f"avro: {spec.schema} is not registered under {spec.subject}: register it ({error})"
            ) from None

    def _ask(self, path: str, body: bytes | None, kind: type[T]) -> T:
        """Raises ValueError if there is nothing at `path`. What is no answer (of a proxy before it, say) is
        asked for again."""
        request = urllib.request.Request(
            self._url + path, data=body, headers={"Content-Type": "application/vnd.schemaregistry.v1+json"}
        )
        if self._user is not None:
            from os import environ

            if self._user not in environ:
                raise UserError(
                    f"avro: the workers' environment has no variable {self._user} (USER:PASSWORD of the "
                    "registry)"
                )
            request.add_header(
                "Authorization", "Basic " + base64.b64encode(environ[self._user].encode()).decode()
            )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                return from_json(answer.read(MAX_ANSWER), kind)
        except urllib.error.HTTPError as error:
            # Who asks knows whose fault it is: for an id the record's, for a subject the manifest's.
            if error.code == 404:
                raise ValueError(f"{self._url} has nothing at {path}") from None
            if error.code in (401, 403):
                raise UserError(f"{self._url}{path}: refused ({error.code}): correct `user`") from None
            raise BrokersAway(f"{self._url}{path}: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise BrokersAway(f"{self._url}: {error}") from error
        except DecodeError as error:
            raise BrokersAway(f"{self._url}{path} answers as no schema registry does: {error}") from error


def _file(spec: Avro) -> Schema:
    assert spec.schema is not None
    return _parsed(_read_file(spec.schema))


def _read_file(name: str) -> object:
    try:
        with open(name, "rb") as file:
            return _from_text(file.read(), name)
    except OSError as error:
        raise UserError(f"avro: {name} cannot be read: {error.strerror}") from error


def _from_text(text: str | bytes, name: str) -> object:
    try:
        return from_json(text)
    except DecodeError as error:
        raise UserError(f"avro: {name} is not JSON: {error}") from error


def _parsed(schema: object) -> Schema:
    from fastavro import parse_schema  # an extra
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        return checked(parse_schema(_without_logical_types(schema)))
    except (
        SchemaParseException,
        UnknownType,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        RecursionError,
    ) as error:
        raise UserError(f"avro: the schema is wrong: {error!r}") from error


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_logical_types(part) for name, part in schema.items() if name != "logicalType"}
    return [_without_logical_types(part) for part in schema] if isinstance(schema, list) else schema


def _read(data: bytes, schema: Schema) -> Any:
    source = io.BytesIO(data)
    try:
        value = schema.read(source)
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
    ) as error:
        raise ValueError(f"it does not fit the Avro schema: {error!r}") from None
    # A datum does not name its schema, and many a wrong one fits the beginning of it.
    if source.read(1):
        raise ValueError("it does not fit the Avro schema: bytes are left over")
    try:
        return payload_of(value)
    except RecursionError:
        raise ValueError("it nests deeper than a payload may") from None
