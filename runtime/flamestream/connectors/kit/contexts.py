"""Contexts of traces (W3C Trace Context) beside records: what a sender said, and what whoever gets a result is
told.

>>> from flamestream.model.meta import meta_of
>>> from flamestream.model.time import Time
>>> contexts = {bytes(7) + b"\\5": "of the run at time 5"}
>>> context_of(contexts, meta_of(Time(5), 3)), context_of(contexts, meta_of(Time(6), 3))
('of the run at time 5', None)

Does not: read a context (node/tracing/identities.py).
"""

from collections.abc import Mapping
from typing import Any, Final

from flamestream.model.meta import Meta, record_of

TRACEPARENT: Final = "traceparent"
MOST_CONTEXT: Final = 256
"""Characters; the version that there is has 55."""


def context_in(headers: Any) -> str | None:
    """The context among the headers of a message; None: there is none that can be read."""
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    for name, value in pairs:
        if name == TRACEPARENT and isinstance(value, bytes) and len(value) <= MOST_CONTEXT:
            return value.decode("ascii", "replace")
    return None


def context_of(contexts: Mapping[bytes, str], meta: bytes) -> str | None:
    """The context for whoever gets an item: its record's, or else its run's; None: it is not traced."""
    return contexts.get(record_of(Meta(meta))) or contexts.get(meta[:8])
