"""Between plain values (what JSON and Avro know) and payloads.

>>> payload_of({"a": [1, None]})
Map({'a': (1, None)})
>>> plain_of(payload_of({"a": [1, None]}))
{'a': [1, None]}

Objects become fs.Map, arrays tuples; the way back takes every payload: classes become objects, fs.Set an
array.

Keeps: the same payload always gives the same plain value, in the same order. Does not: know any format
(formats.py).
"""

from enum import Enum
from typing import Any

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.payload import MAX_DEPTH
from flamestream.model.payloads.registry import PLANS

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1


def payload_of(value: Any, room: int = MAX_DEPTH) -> Any:
    """A payload with the same contents. Raises ValueError if there is none."""
    if room <= 0:
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return Map({name: payload_of(part, room - 1) for name, part in value.items()})
    if isinstance(value, list):
        return tuple([payload_of(part, room - 1) for part in value])
    if type(value) is int and not _INT_MIN <= value <= _INT_MAX:
        raise ValueError(f"{value} is not a 64-bit integer")
    return value


def plain_of(value: Any) -> Any:
    """A plain value with the same contents. Raises ValueError if there is none."""
    if isinstance(value, Map):
        if not all(isinstance(name, str) for name in value):
            raise ValueError(
                "an fs.Map with keys that are not text has no JSON or Avro form: use text as keys"
            )
        return {name: plain_of(part) for name, part in value.items()}
    if isinstance(value, tuple | Vector | Set):
        return [plain_of(part) for part in value]
    if (plan := PLANS.get(type(value))) is not None and plan.labels is not None:
        return {name: plain_of(getattr(value, name)) for name in plan.labels}
    return value.value if isinstance(value, Enum) else value
