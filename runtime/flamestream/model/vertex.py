"""Vertex: an operation of a graph, as plain data.

Does not: say how operations fit together (graph.py), or do anything (core/dataflow/operations.py).
"""

import enum
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flamestream.model.calls.call import CallFunction
    from flamestream.model.event_time import Timing

Function = Callable[..., Any]
# Part of the graph, and no setting beside it: every worker, replay and batch must make the same error item of
# what is more, to the byte (!).
MAX_RESULTS = 1_000_000
MAX_RESULT_BYTES = 32 << 20


class Kind(enum.Enum):
    """The kinds of vertices, by what they do with an item."""

    SOURCE = "source"
    MAP = "map"
    FLAT_MAP = "flat_map"
    FILTER = "filter"
    MERGE = "merge"
    GROUPING = "grouping"
    REDUCE = "reduce"
    ARRIVAL = "arrival"
    LOOP = "loop"
    SINK = "sink"


@dataclass(slots=True)
class Vertex:
    """An operation. Fields that its kind does not use are None (or 0)."""

    id: int
    kind: Kind
    name: str
    """The source's or sink's name; for other kinds the user's function, for messages."""
    outputs: list[int] = field(default_factory=list)
    """Ids of the vertices that its results go to, in edge order."""
    function: Function | None = None
    """MAP, FLAT_MAP, FILTER: of a payload. ARRIVAL: of a payload and its meta, which says when its record
    arrived."""
    key: Function | None = None
    """GROUPING, REDUCE: payload -> key. SINK: payload -> key (None: the payload itself)."""
    balance: Function | None = None
    """Keyed vertices: key -> int32 (None: its hash). Others: payload -> int32 (None: stay on the worker)."""
    window: int = 0
    initial: Function | None = None
    combine: Function | None = None
    """REDUCE: (accumulator, payload) -> accumulator."""
    emit: Function | None = None
    """REDUCE: (accumulator, payload) -> payload; None emits the accumulator."""
    check: Function | None = None
    """REDUCE inside a transaction: (key, accumulator) -> may a transaction leave that? None: anything."""
    max_iterations: int = 0
    max_results: int = MAX_RESULTS
    """FLAT_MAP: the most results of one item; one that would have more becomes an error item."""
    max_result_bytes: int = MAX_RESULT_BYTES
    """MAP, FLAT_MAP: the most bytes of all results of one item, as `payload.checked_size` counts them."""
    closed: bool = False
    """LOOP: `close` has added its back edge."""
    beside: int | None = None
    """Its results may lead nowhere if another way out of the vertex with this id is used; None: they may
    not."""
    timing: "Timing | None" = None
    """SOURCE: how it tells its event time; None: it does not."""
    call: "CallFunction[..., Any] | None" = None
    """SINK: its items are requests of this call. SOURCE: its records are the answers. None: it is in the
    manifest."""
    given: str = ""
    """GROUPING, REDUCE: the name that the user gave it; "": one is made of its functions'
    (state_names.py)."""
    was: str = ""
    """The same, and of a call: the name that its state, or its requests, were begun under, if that is another."""
    placed: str = ""
    """A production's name by its place in the graph, as older releases have stored it."""
    version: int = 1
    """The same: of the state that its functions take and make."""
    migrate: Mapping[int, Function] = field(default_factory=dict)
    """REDUCE: version -> (accumulator of that version -> of the next). GROUPING: of each of its items."""
    place: str = ""
    """`file.py:line` where it was added, for messages."""

    @property
    def stored_as(self) -> str:
        """SOURCE, SINK: the name that a snapshot and journals find it by."""
        return self.was or self.name

    @property
    def routed(self) -> bool:
        """Whether its input goes to the worker of its slot."""
        return self.kind in (Kind.GROUPING, Kind.REDUCE, Kind.SINK) or self.balance is not None


def name_of(function: Function) -> str:
    """The name of a user's function in messages: module.qualname. A partial is called like its function, a
    ready-made one as it is written, any other callable like its class.

    It is part of error items, so it must be the same in every process: never a repr with an address in it.
    """
    if (written := getattr(function, "written", None)) is not None:
        return str(written)  # a ready-made function
    if not hasattr(function, "__qualname__"):
        return name_of(getattr(function, "func", type(function)))
    return f"{getattr(function, '__module__', '?')}.{function.__qualname__}"


def call_site() -> str:
    """`file.py:line` of the innermost caller outside of this package: the user's line that adds a vertex."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None and is_ours(frame):
        frame = frame.f_back
    assert frame is not None, "Python has frames"
    return line_of(frame, frame.f_lineno)


def is_ours(frame: FrameType) -> bool:
    """Whether its code is this package's."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "flamestream"


def line_of(frame: FrameType, line: int) -> str:
    """A line of a frame's code as `file.py:line`."""
    return f"{str(frame.f_globals.get('__name__')).replace('.', '/')}.py:{line}"
