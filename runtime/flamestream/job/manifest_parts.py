"""The parts that a manifest is made of: a strict mapping, a duration, free-form Kubernetes values.

Keeps: unknown fields are errors. Does not: know any field (manifest.py, manifest_cluster.py).
"""

import re
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

DURATION: Final = r"(\d+(?:\.\d+)?)(ms|s|m|h)"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Seconds(float):
    """A duration, written with its unit: 50ms, 1s, 2m."""

    @classmethod
    def parse(cls, text: object) -> "Seconds":
        match = re.fullmatch(DURATION, text) if isinstance(text, str) else None
        if match is None or not float(match[1]):
            raise ValueError(
                f"{text!r} is not a duration: write a number above 0 with its unit, like 50ms, 1s or 2m"
            )
        return cls(float(match[1]) * _UNITS[match[2]])

    def __str__(self) -> str:
        """The shortest way to write it, so that a default can stand in a schema."""
        unit = next(
            (unit for unit in ("h", "m", "s") if self >= _UNITS[unit] and not self % _UNITS[unit]), "ms"
        )
        return f"{self / _UNITS[unit]:g}{unit}"


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A mapping of the manifest."""


Free = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
"""A Kubernetes value that is handed on as it is; the dry run of a worker's pod checks it."""
Named = Annotated[
    dict[str, Any],
    Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True, "required": ["name"]}),
]
"""The same, with a name."""
ObjectName = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
"""The name of a Kubernetes object in the job's namespace."""
