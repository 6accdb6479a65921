"""Decoder: from what a source gives to an instance of the class that a graph says it is.

| a source gives                         | the instance is made of |
|----------------------------------------|-----|
| a line of text, bytes                  | JSON, strictly: "12" is no number; times are ISO 8601 |
| fs.Map, a row of Parquet, Avro or JSON | its fields, strictly; a number is a time as microseconds since 1970 |
| fs.Map of texts alone, a row of CSV    | its fields; texts may be numbers, an empty one is None where that may be |
| KafkaRecord                            | its value |
| an instance already                    | itself |

>>> from flamestream.model.payload import event
>>> @event
... class Click:
...     user: str
...     cents: int
>>> decoder(Click)('{"user": "ann", "cents": 5, "more": 1}')
Click(user='ann', cents=5)
>>> decoder(Click)('{"user": "ann", "cents": "5"}')
Traceback (most recent call last):
    ...
flamestream.model.errors.RecordError: a str is no Click: field `cents`: Expected `int`, got `str`

Keeps: fields that the class does not have are passed over; nothing but RecordError for a record, and at most
200 characters of it. Does not: read files or topics, or say which record it was (model/failure.py).
"""

import typing
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import msgspec

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.errors import PayloadError, RecordError
from flamestream.model.payloads.classes import is_model, payload_type
from flamestream.model.payloads.registry import HEIGHTS, PLANS, refusal
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.records import Document, KafkaRecord

T = TypeVar("T")
AS_THEY_ARE: Final = {str, bytes, tuple, object, Map, Set, Vector, Document, KafkaRecord}
"""Types that sources give themselves."""
SHOWN: Final = 200
Row: TypeAlias = Mapping[str, Any] | Map[str, Any]
WRONG: Final = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""Every error that a record leads to, by msgspec, pydantic or the class's own `__post_init__`."""


class Decoder(Generic[T]):
    """A function from a source's record to an instance of `makes_class`. Raises RecordError, which names the
    field, what is wanted and what was given."""

    def __init__(self, cls: type[T]) -> None:
        if cls not in HEIGHTS:
            payload_type(cls)
        _check_annotations(cls)
        self.makes_class = cls
        self._fields = _fields(cast(Any, cls))
        self._model: Any = cls if is_model(cls) else None
        self.of_json: Callable[[bytes | str], T] = (
            cls.model_validate_json
            if is_model(cls)
            else msgspec.json.Decoder(cls, dec_hook=collection).decode
        )

    @property
    def written(self) -> str:
        """As it stands in a graph, for messages."""
        return f"fs.decoder({self.makes_class.__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        # msgspec's decoders cannot be pickled; made anew it also registers the class where it arrives.
        return decoder, (self.makes_class,)

    def __call__(self, record: Any) -> T:
        if type(record) is KafkaRecord:
            record = record.value
        try:
            if type(record) is self.makes_class:
                return record
            if isinstance(record, str | bytes):
                return self.of_json(record)
            if isinstance(record, Map):
                texts = all(type(value) is str for value in record.values())
                return self.of_texts(dict(record)) if texts else self.of_values(record)
        except WRONG as error:
            raise RecordError(
                f"a {type(record).__name__} is no {self.makes_class.__name__}: {_told(error)}"
            ) from None
        raise RecordError(
            f"a {type(record).__name__} is no {self.makes_class.__name__}: a source gives text, bytes, "
            "rows or KafkaRecord"
        )

    def of_all(self, records: list[Any]) -> list[T] | None:
        """The instances of many records, quicker than one by one; None if one is no text, no bytes or no
        instance. Raises whatever else the class's own code raises."""
        kinds = set(map(type, records))
        if kinds == {KafkaRecord}:
            records = [record.value for record in records]
            kinds = set(map(type, records))
        try:
            # no `map`: a StopIteration of the class's own code would end it in silence (!)
            return [self.of_json(record) for record in records] if kinds <= {str, bytes} else None
        except WRONG:
            return None

    def of_values(self, row: Row) -> T:
        """The instance of a row whose values have types. Raises `ValueError` or msgspec's errors."""
        values = _plain_row(row, self.makes_class)
        return (
            self._model.model_validate(values)
            if self._model
            else msgspec.convert(values, self.makes_class, dec_hook=collection)
        )

    def of_texts(self, row: Mapping[str, str]) -> T:
        """The instance of a row of texts, as CSV has them. An empty one of a field that is no text counts as
        none."""
        fields = self._fields
        values = {
            name: value
            for name, value in row.items()
            if value or name not in fields or fields[name] == (str, False)
        }
        # What may not be None is left out: its default counts, or it is told as missing.
        empty = dict.fromkeys(name for name in row.keys() - values.keys() if fields[name][1])
        if self._model:
            return self._model.model_validate(values | empty)  # type: ignore[no-any-return]
        return msgspec.convert(values | empty, self.makes_class, strict=False, dec_hook=collection)


def decoder(cls: type[T]) -> Decoder[T]:
    """A function for `map`: instances of `cls` from JSON lines, rows and Kafka's records. Raises PayloadError
    if `cls` or one of its fields is no payload."""
    return Decoder(cls)


def decoding(decode: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """The function that a source's `decode` is: of a class its decoder. None: records stay what they are."""
    if decode is None or (typing.get_origin(decode) or decode) in AS_THEY_ARE:
        return None
    return decoder(decode) if isinstance(decode, type) else decode


def collection(wanted: Any, value: Any) -> Any:
    """For msgspec's `dec_hook`: fs.Vector, fs.Map and fs.Set of annotated fields."""
    kind, inner = typing.get_origin(wanted) or wanted, typing.get_args(wanted)
    if kind in (Vector, Set):
        return kind(_converted(value, list[inner[0]] if inner else list))  # type: ignore[valid-type]
    if kind is Map:
        key, element = inner or (Any, Any)
        made: Any = dict[key, element] if isinstance(value, dict) else list[tuple[key, element]]  # type: ignore[valid-type]
        return Map(_converted(value, made))
    raise NotImplementedError(f"rows cannot become {wanted}")


def _converted(value: Any, kind: Any) -> Any:
    # The keys of an object are texts, whatever their type: an int is wanted as "5" there, and nowhere else.
    return msgspec.convert(value, kind, dec_hook=collection, str_keys=True)


def _told(error: Exception) -> str:
    """The field, and what is wrong with it."""
    if (errors := getattr(error, "errors", None)) is not None:  # pydantic's
        first = errors(include_url=False, include_context=False)[0]
        place, text = (
            ".".join(map(str, first["loc"])),
            f"{first['msg']}, got `{type(first['input']).__name__}`",
        )
    else:
        # msgspec tells the place at the end of its text alone.
        text, _, place = str(error).partition(" - at `$")
        place = place.removeprefix(".").removesuffix("`")
    return f"{f'field `{place}`: ' if place else ''}{text}"[:SHOWN]


@cache
def _fields(cls: Hashable) -> dict[str, tuple[Any, bool]]:
    """The type of each field without its None, and whether it may be None; empty for what has no fields."""
    if not isinstance(cls, type) or cls not in PLANS or PLANS[cls].labels is None:
        return {}
    made = {}
    for name, hint in typing.get_type_hints(cls).items():
        inner = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)
        others = tuple(one for one in inner if one is not type(None))
        made[name] = (others[0] if len(others) == 1 else hint, len(others) < len(inner))
    return made


def _plain_row(row: Row, cls: Any) -> dict[str, Any]:
    fields = _fields(cls)
    return {name: _plain(value, fields[name][0] if name in fields else None) for name, value in row.items()}


def _plain(value: Any, kind: Any) -> Any:
    if isinstance(value, Map | dict):
        return _plain_row(value, kind)
    if isinstance(value, tuple | list):
        return [_plain(one, None) for one in value]
    return EPOCH + value * MICROSECOND if kind is datetime and type(value) is int else value


def _check_annotations(cls: type) -> None:
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise PayloadError(
            f"{cls.__qualname__} has an annotation that cannot be read where it stands: {error}"
        ) from error
    for name in _fields(cls):
        _check_annotation(hints[name], f"{cls.__qualname__}.{name}")


def _check_annotation(hint: Any, where: str) -> None:
    kind = typing.get_origin(hint) or hint
    if kind is typing.Literal:
        return
    if isinstance(kind, type) and kind not in HEIGHTS and kind not in (object, UnionType):
        raise PayloadError(
            f"{where} is annotated {hint if typing.get_args(hint) else kind.__name__}: {refusal(kind)}"
        )
    for inner in typing.get_args(hint):
        if inner is not Ellipsis:
            _check_annotation(inner, where)
