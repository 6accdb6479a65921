"""Stored samples: some of a committed snapshot's states, read by code that is to go on from it.

Of each operation some keys whose rows another version of the code has written: their classes are made what
they are now, and each step of `migrate` is applied, twice. So a class that does not fit, a step that fails or
one that is not pure is known while the old code still runs, or could.

Keeps: nothing is written; what is read is bounded, whatever the snapshot has. Does not: look at every key: a
worker that loads the rest says what does not fit, and stops.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol.chain import Chain, is_older
from flamestream.core.protocol.snapshot import SegmentRef, SnapshotIndex
from flamestream.core.protocol.stored_rows import Numbers, states_of
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.quoted import quoted
from flamestream.model.vertex import Vertex
from flamestream.ports import ObjectStore
from flamestream.store.segment import chains_in, part_of
from flamestream.store.snapshots import segment_table

MOST_KEYS: Final = 100
"""Keys of an operation."""
MOST_BYTES: Final = 64 << 20
"""Bytes of segments; one at least, whatever its size."""


def look(graph: Graph, store: ObjectStore, newest: Callable[[], SnapshotIndex | None]) -> int:
    """The number of states that were read. `newest` gives the committed snapshot, which a job that runs may
    replace. Raises UserError with the reason if one cannot be read, or is never read the same, and Corrupt."""
    missed: SnapshotIndex | None = None
    while (index := newest()) is not None:
        try:
            return _looked(graph, store, index)
        except Corrupt:
            if index == missed:  # (!) nobody has committed meanwhile: it is really damaged
                raise
            missed = index
    return 0


def _looked(graph: Graph, store: ObjectStore, index: SnapshotIndex) -> int:
    known, count = Numbers(graph).known(index), dict.fromkeys(range(len(graph.vertices)), 0)
    for ref in _some(index.segments):
        table = segment_table(store, ref)
        # Full ones alone: a change says nothing without what it changes, which may be in another segment.
        for vertex, chains in states_of(chains_in([part_of(table.filter(table["full"]))]), known).items():
            older = (chain for chain in chains if is_older(chain.states))
            for chain in islice(older, MOST_KEYS - count[vertex]):
                _read_twice(graph.vertices[vertex], chain)
                count[vertex] += 1
    return sum(count.values())


def _some(segments: Iterable[SegmentRef]) -> Iterator[SegmentRef]:
    left = MOST_BYTES
    for place, ref in enumerate(sorted(segments, key=lambda ref: ref.size)):
        left -= ref.size
        if place and left < 0:
            return
        yield ref


def _read_twice(vertex: Vertex, chain: Chain) -> None:
    reading = Reading.of(vertex)
    first, second = (encode(reading.value(vertex.kind, chain.states)) for _ in range(2))
    if first != second:
        raise UserError(
            f"migrate= of operation {vertex.given or vertex.name!r} of {vertex.place} is not pure: of the state of "
            f"key {quoted(repr(decode(chain.key)))} it has made two different ones. It may depend on nothing but "
            "the state that it is given"
        )
