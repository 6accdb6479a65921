"""FlameStream on Spark: streaming jobs as graphs of pure functions, exactly once in milliseconds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flamestream import lists as _  # noqa: F401 (so that a test's first `graph.run` does not wait for it)
from flamestream.model.at import At, at
from flamestream.model.calls.call import Call, InDoubt, call
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.event_decoder import decoder
from flamestream.model.event_time import Arrived
from flamestream.model.expressions.conditional import when
from flamestream.model.expressions.expression import field, item
from flamestream.model.graph import Graph
from flamestream.model.payload import event, payload_type
from flamestream.model.payloads.shapes import was
from flamestream.model.ready import append, count, record, size, state, total
from flamestream.model.records import Document, KafkaRecord
from flamestream.model.stream import Loop, Stream
from flamestream.model.tables.transaction import Abort, Aborted, State, Write
from flamestream.model.windows import windows as _windows  # noqa: F401 (as above)
from flamestream.model.windows.panes import Windowed
from flamestream.model.windows.shapes import session, sliding
from flamestream.model.windows.tables import Changed
from flamestream.zones import tumbling

if TYPE_CHECKING:
    from flamestream.columns import vectorized
    from flamestream.live.client import connect

__all__ = [
    "Abort",
    "Aborted",
    "Arrived",
    "At",
    "Call",
    "Changed",
    "Document",
    "Graph",
    "InDoubt",
    "KafkaRecord",
    "Loop",
    "Map",
    "Set",
    "State",
    "Stream",
    "Vector",
    "Windowed",
    "Write",
    "append",
    "at",
    "call",
    "connect",
    "count",
    "decoder",
    "event",
    "field",
    "item",
    "payload_type",
    "record",
    "session",
    "size",
    "sliding",
    "state",
    "total",
    "tumbling",
    "vectorized",
    "was",
    "when",
]
_ELSEWHERE = {"vectorized": "flamestream.columns", "connect": "flamestream.live.client"}
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for that not every job needs: `vectorized` imports pyarrow, and `connect` what
    reads a job from outside."""
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
