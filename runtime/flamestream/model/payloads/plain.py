"""Plain values: what JSON has of a payload that it has no word for.

>>> plain(Map({1: "a"}))
[[1, 'a']]

Does not: touch what msgspec's encoder writes by itself: scalars, tuples, dataclasses, structs, datetimes (`Z`
for UTC), enums (their value).
"""

from typing import Any

from flamestream.model.collections import Map
from flamestream.model.payloads.registry import PLANS


def plain(value: Any) -> Any:
    """For msgspec's `enc_hook`: a class as an object, a map with keys of any type as a list of pairs, other
    collections as lists."""
    if isinstance(value, Map):
        return [list(entry) for entry in value.items()]
    plan = PLANS.get(type(value))
    return (
        list(value)
        if plan is None or plan.labels is None
        else {name: getattr(value, name) for name in plan.labels}
    )
