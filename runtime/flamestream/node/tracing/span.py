"""Span: one stretch of a trace, as it is told to the exporter.

Does not: know OpenTelemetry's classes (export.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["internal", "consumer", "producer", "client"]
Attribute = str | int | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time; both ends are microseconds since 1970."""

    name: str
    trace: int
    id: int
    parent: int
    """0: the trace begins with it."""
    start: int
    end: int
    kind: Kind = "internal"
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str = ""
    """The reason why what it stands for has failed; "": it has not."""
