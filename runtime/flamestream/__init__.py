"""FlameStream on Spark: streaming jobs as graphs of pure functions, exactly once in milliseconds."""

from typing import TYPE_CHECKING, Any

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.event_decoder import decoder
from flamestream.model.graph import Graph, Loop, Stream
from flamestream.model.payload import event, payload_type
from flamestream.model.ready import append, count, field, record, size, state, total
from flamestream.model.records import Document, KafkaRecord

if TYPE_CHECKING:
    from flamestream.columns import vectorized

__all__ = [
    "Document",
    "Graph",
    "KafkaRecord",
    "Loop",
    "Map",
    "Set",
    "Stream",
    "Vector",
    "append",
    "count",
    "decoder",
    "event",
    "field",
    "payload_type",
    "record",
    "size",
    "state",
    "total",
    "vectorized",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`vectorized` when it is asked for: it imports pyarrow, which jobs without it need not wait for. Windows likewise."""
    if name == "vectorized":
        from flamestream.columns import vectorized

        return vectorized
    if name in ("sliding", "tumbling"):
        from flamestream.model.windows import stream

        return getattr(stream, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
