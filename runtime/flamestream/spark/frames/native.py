"""The walk and the fold of a batch in the kernel: records or rows in, rows out, without a Python object for
what only passes through.

The same as walk.py and keyed.py, which are the reference: the kernel's dataflow (core/dataflow/native.py)
with rows at its doors instead of messages. What it cannot do is done there: a stage with a cycle, states that
are kept, and everything where there is no kernel.

Keeps: the rows of the reference, byte for byte and in its order. Does not: choose (tasks.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from flamestream.core.dataflow.native_vertices import described
from flamestream.core.protocol.settings import ERRORS
from flamestream.model.errors import Bug
from flamestream.model.failure import failure
from flamestream.model.graph import Graph
from flamestream.model.kernel import kernel
from flamestream.model.payload import ErrorValue
from flamestream.model.vertex import Kind, Vertex
from flamestream.spark.frames.origins import Origins
from flamestream.spark.frames.rows import SCHEMA, halts, split

THERE: Final = kernel is not None


class NativeWalk:
    """The graph in one task."""

    def __init__(self, graph: Graph, slots: int, origins: Origins, *, fail: bool, debug: bool) -> None:
        if kernel is None:
            raise Bug("the kernel is not there")
        vertices = [*graph.vertices, Vertex(len(graph.vertices), Kind.SINK, ERRORS)]
        self._slots, self._fail, self._origins = slots, fail, origins
        self._flow = kernel.Flow(
            [described(vertex, graph, debug, rows=False) for vertex in vertices],
            slots=slots,
            me=0,
            dead_letter=True,  # error items are rows here
            make_error=failure,
            error_type=ErrorValue,
            located=origins.located,
            on_error=_never,
        )
        self._flow.collect_rows()

    def enter(self, vertex: int, start: bytes, first: int, records: list[Any]) -> Iterator[Any]:
        """Records of one run; batches of rows whenever there are enough."""
        records, at = self._origins.entering(start, first, records), 0
        while (at := self._flow.enter_records(vertex, start, first, records, at)) < len(records):
            yield from self.take()

    def fold(self, batches: Iterable[Any], doors: Sequence[int]) -> Iterator[Any]:
        """Sorted rows of which those of `doors` are folded; the others pass."""
        wanted = pa.array(doors, pa.int32())
        for batch in batches:
            mine, passing = split(batch, wanted)
            if passing.num_rows:
                yield passing
            yield from self._folded(mine)

    def end(self) -> Iterator[Any]:
        """The rows that are left, and what `onError: fail` has to tell every slot."""
        yield from self.take()
        if self._fail and (least := self._flow.least_error()) is not None:
            yield halts(self._slots, *least)

    def take(self) -> Iterator[Any]:
        """The rows so far, as a batch (none if there are none)."""
        count, to, slot, key, meta, payload = self._flow.take_rows()
        if count:
            numbers = [
                pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(data)]) for data in (to, slot)
            ]
            texts = [
                pa.Array.from_buffers(pa.binary(), count, [None, *map(pa.py_buffer, column)])
                for column in (key, meta, payload)
            ]
            yield pa.record_batch([*numbers, *texts], schema=SCHEMA)

    def _folded(self, batch: Any) -> Iterator[Any]:
        to = batch.column("to")
        numbers = (to.offset, to.buffers()[1])
        columns = [_binary(batch.column(name)) for name in ("key", "meta", "payload")]
        at = 0
        while at < batch.num_rows:
            at = self._flow.fold_rows(numbers, *columns, at, batch.num_rows)
            if at < batch.num_rows:
                yield from self.take()


def _binary(column: Any) -> tuple[int, Any, Any]:
    """(where it begins, offsets, data) as the kernel takes it."""
    _, offsets, data = column.buffers()
    return column.offset, offsets, b"" if data is None else data


def _never(*_: object) -> None:
    raise Bug("an error item of a batch has no row")
