"""Exact forms: what makes two payloads the same, said without their encoding.

Whoever looks for mistakes of an encoding cannot compare by it: they would be on both sides.

>>> exact((1, "a")) == exact((1, "a")), exact(1) == exact(True), exact(0.0) == exact(-0.0)
(True, False, False)

Keeps: forms are equal if the payloads are, with the same types all the way down, as canonical encodings are.
"""

import math
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from flamestream.model.collections import Map
from flamestream.model.payload_registry import name_of_type


def exact(payload: Any) -> Hashable:
    """The exact form of a payload: equal for equal payloads and for no others."""
    kind = name_of_type(type(payload))
    if payload is None or isinstance(payload, str | bytes | bool | int):
        return kind, payload
    if isinstance(payload, float):
        return (kind, "nan") if math.isnan(payload) else (kind, payload, math.copysign(1.0, payload))
    if isinstance(payload, Map):
        return kind, tuple((exact(key), exact(value)) for key, value in payload.items())
    if isinstance(payload, msgspec.Struct):
        return kind, tuple(exact(getattr(payload, name)) for name in payload.__struct_fields__)
    if is_dataclass(payload):
        return kind, tuple(exact(getattr(payload, field.name)) for field in fields(payload))
    return kind, tuple(exact(part) for part in payload)
