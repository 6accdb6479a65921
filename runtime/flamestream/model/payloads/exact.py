"""Exact forms: what makes two payloads the same, said without their encoding.

Whoever looks for mistakes of an encoding cannot compare by it: they would be on both sides.

>>> exact((1, "a")) == exact((1, "a")), exact(1) == exact(True), exact(0.0) == exact(-0.0)
(True, False, False)

Keeps: forms are equal if the payloads are, with the same types all the way down, as canonical encodings are.
"""

import math
from collections.abc import Hashable
from typing import Any

from flamestream.model.collections import Map
from flamestream.model.payloads.registry import PLANS, name_of_type
from flamestream.model.payloads.values import is_value


def exact(payload: Any) -> Hashable:
    """The exact form of a payload: equal for equal payloads and for no others."""
    kind = name_of_type(type(payload))
    if payload is None or isinstance(payload, str | bytes | bool | int):
        return kind, payload
    if isinstance(payload, float):
        return (kind, "nan") if math.isnan(payload) else (kind, payload, math.copysign(1.0, payload))
    if isinstance(payload, Map):
        return kind, tuple((exact(key), exact(value)) for key, value in payload.items())
    if is_value(payload):
        # By repr: to `==` a fold, a zone and the zeros behind a Decimal are nothing, and encodings have them.
        return kind, repr(payload)
    if (plan := PLANS.get(type(payload))) is not None and plan.labels is not None:
        return kind, tuple(exact(getattr(payload, name)) for name in plan.labels)
    return kind, tuple(exact(part) for part in payload)
