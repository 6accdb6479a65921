"""Structural schemas from msgspec structs.

Every mapping has a type, no references, no unions but of text with a free value; limits and patterns come
from `Meta`, defaults from the struct, texts from under the fields.

Keeps: what the API server accepts by the schema, msgspec accepts too (the other way round CEL and the
operator may know more). Does not: know any field (definitions.py adds rules by path).
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import inspect

from flamestream.job.manifest_parts import DURATION, Seconds
from flamestream_operator.crd.field_docs import docs_of

Schema = dict[str, Any]
FREE: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}
_LIMITS: Final = {
    "ge": "minimum", "le": "maximum", "min_length": "minLength", "max_length": "maxLength",
    "pattern": "pattern",
}  # fmt: skip


def schema_of(struct: type[msgspec.Struct]) -> Schema:
    """The schema of `struct` and everything below it."""
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType), f"{struct} is a struct"
    return _struct(described)


def _struct(described: inspect.StructType) -> Schema:
    docs = docs_of(described.cls)
    schema: Schema = {"type": "object", "properties": {}}
    for field in described.fields:
        inner = {"description": docs[field.name], **_schema(field.type)}
        default = _default(field)
        if default is not None:
            inner["default"] = default
        schema["properties"][field.encode_name] = inner
    required = [field.encode_name for field in described.fields if field.required]
    return {**schema, "required": required} if required else schema


def _default(field: inspect.Field) -> Any:
    """The default that the API server fills in; None: nothing. Empty containers are left out, they say
    nothing."""
    value = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if value is msgspec.NODEFAULT or value is None or value in ({}, [], ""):
        return None
    plain = msgspec.to_builtins(value, enc_hook=str) if not isinstance(value, Seconds) else str(value)
    return _without_empty(plain)


def _without_empty(value: Any) -> Any:
    """A default that holds only what it says; durations as text. An all-default part gets an empty mapping,
    filled from within."""
    if not isinstance(value, dict):
        return value
    return {
        key: inner for key, each in value.items() if (inner := _without_empty(each)) not in (None, {}, [], "")
    }


def _schema(kind: inspect.Type) -> Schema:
    if isinstance(kind, inspect.Metadata):
        extra = kind.extra_json_schema or {}
        return {**_schema(kind.type), **extra} if "x-kubernetes-int-or-string" not in extra else dict(extra)
    maker = _MAKERS.get(type(kind))
    if maker is None:
        raise TypeError(f"{kind} has no structural schema")
    return maker(kind)


def _limited(schema: Schema, kind: Any) -> Schema:
    for ours, theirs in _LIMITS.items():
        if getattr(kind, ours, None) is not None:
            schema[theirs] = getattr(kind, ours)
    return schema


def _union(kind: inspect.UnionType) -> Schema:
    """`X | None` is X left out; anything else is checked by the operator."""
    inner = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    return _schema(inner[0]) if len(inner) == 1 else dict(FREE)  # a structural schema has no unions


def _list(kind: inspect.ListType) -> Schema:
    schema: Schema = {"type": "array", "items": _schema(kind.item_type)}
    return {**schema, "maxItems": kind.max_length} if kind.max_length is not None else schema


def _dict(kind: inspect.DictType) -> Schema:
    if isinstance(kind.value_type, inspect.AnyType):
        return {"type": "object"}
    schema: Schema = {"type": "object", "additionalProperties": _schema(kind.value_type)}
    return {**schema, "maxProperties": kind.max_length} if kind.max_length is not None else schema


def _custom(kind: inspect.CustomType) -> Schema:
    assert kind.cls is Seconds, f"{kind.cls} has no schema"
    return {"type": "string", "pattern": f"^{DURATION}$", "maxLength": 16}


def _literal(kind: inspect.LiteralType) -> Schema:
    return {"type": "string", "enum": sorted(kind.values, key=str)}


_MAKERS: Final[dict[type[Any], Callable[[Any], Schema]]] = {
    inspect.StructType: _struct,
    inspect.UnionType: _union,
    inspect.ListType: _list,
    inspect.DictType: _dict,
    inspect.CustomType: _custom,
    inspect.LiteralType: _literal,
    inspect.AnyType: lambda _: dict(FREE),
    inspect.BoolType: lambda _: {"type": "boolean"},
    inspect.StrType: lambda kind: _limited({"type": "string"}, kind),
    inspect.IntType: lambda kind: _limited({"type": "integer", "format": "int64"}, kind),
    inspect.FloatType: lambda kind: _limited({"type": "number"}, kind),
}
