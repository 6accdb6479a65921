"""Commit: a batch's new state becomes the job's, by one compare-and-set of the job record.

The index is the streaming runner's, so either runner goes on from it, `flamestream snapshots` shows it,
and Spark reads it as a table.

Keeps: nothing is committed that a consumer may still lack (the batch has delivered); superseded objects go
after the commit.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from flamestream.core.coordinator.coordination import Settings
from flamestream.core.coordinator.epochs import spans_of
from flamestream.core.coordinator.snapshot_index import check_start, holds_output
from flamestream.core.protocol.inventory import misfit, next_inventory, other_order
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import (
    FrontPosition,
    SegmentRef,
    SlotOutput,
    SnapshotIndex,
)
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.ids import Epoch, SequenceNumber, SinkName, Slot
from flamestream.model.time import Time
from flamestream.spark.frames.delivering import REPLACED, REQUESTS, SEGMENT
from flamestream.spark.frames.kept_state import StatePlace, decoded_ref, store_at
from flamestream.store.snapshot_index import delete_objects, read_index, write_index

Write = Callable[[JobRecord], None]
"""Compare-and-set. Raises if somebody else has written."""


class Committed:
    """The job's committed state, and how it moves on."""

    def __init__(self, record: JobRecord, write: Write, store: str, graph: Graph, settings: Settings) -> None:
        """`settings`: those that a coordinator of the job would have."""
        self.record, self._write, self._url, self._settings = record, write, store, settings
        self._numbers = Numbers(graph)
        self.index: SnapshotIndex | None = None
        if record.index:
            self.index = read_index(store_at(store), record.index, record.index_hash)
            self._check(self.index)
        else:
            check_start(record, settings)

    @property
    def fronts(self) -> tuple[FrontPosition, ...]:
        """Places at the committed cut, of fronts of which one is known."""
        return self.index.fronts if self.index is not None else ()

    @property
    def requests(self) -> tuple[SegmentRef, ...]:
        """The requests of calls that are open."""
        return self.index.requests if self.index is not None else ()

    @property
    def place(self) -> StatePlace:
        """Where the state is."""
        segments = self.index.segments if self.index is not None else ()
        return StatePlace(self._url, segments, self._numbers, self._numbers.known(self.index))

    def commit(
        self,
        epoch: int,
        cut: Time,
        fronts: Sequence[FrontPosition],
        lines: Iterable[Any],
        sinks: Mapping[int, str],
    ) -> None:
        """A batch has delivered and written its states; `lines` is its report."""
        ours, before, said = self._settings, self.index, list(lines)
        gone = replaced_in(said)
        kept = [ref for ref in self.place.segments if ref.name not in gone]
        index = SnapshotIndex(
            job=ours.job, graph=ours.graph, python=ours.python, slots=ours.slots, epoch=Epoch(epoch),
            fence=self.record.fence, cut=cut,
            segments=(*kept, *refs_in(said, SEGMENT)), requests=refs_in(said, REQUESTS), fronts=tuple(fronts),
            outputs=_outputs(before, said, sinks), code=spans_of(before, self.record.code),
            inventory=next_inventory(before, ours.inventory),
        )  # fmt: skip
        store = store_at(self._url)
        name = f"indexes/{epoch:012d}-{self.record.attempt}-{secrets.token_hex(4)}"
        digest = write_index(store, name, index)
        record = msgspec.structs.replace(
            self.record,
            announced=Epoch(epoch),
            committed=Epoch(epoch),
            cut=cut,
            index=name,
            index_hash=digest,
            outcome="",
        )
        asked = self.requests  # those that are still open are written again
        old = [*gone, *(ref.name for ref in asked), *([self.record.index] if self.record.index else [])]
        self._write(record)
        self.record, self.index = record, index
        # Behind the record's write: until then they are what is committed (!).
        delete_objects(store, old)

    def _check(self, found: SnapshotIndex) -> None:
        ours = self._settings
        for what, theirs, mine in zip(
            ("job", "number of slots", "Python"),
            (found.job, found.slots, found.python),
            (ours.job, ours.slots, ours.python),
            strict=True,
        ):
            if theirs != mine:
                raise UserError(
                    f"the job's last snapshot was written by another {what}: it has {theirs!r}, "
                    f"this job has {mine!r}"
                )
        if reason := misfit(found, ours.graph, ours.inventory, ours.drop):
            raise UserError(
                f"the graph cannot go on from the job's last snapshot (epoch {found.epoch}): {reason}"
            )
        if other := other_order(ours.inventory, self.record.sources):
            raise UserError(other)
        if found.held:
            raise UserError(holds_output(self.record.index))


def refs_in(lines: Iterable[Any], to: int) -> tuple[SegmentRef, ...]:
    """The segments that a batch's report names: SEGMENT or REQUESTS."""
    return tuple(decoded_ref(bytes(line.payload)) for line in lines if line.to == to)


def replaced_in(lines: Iterable[Any]) -> list[str]:
    """Names of the segments that are merged into others."""
    return [bytes(line.payload).decode() for line in lines if line.to == REPLACED]


def outputs_in(lines: Iterable[Any], sinks: Mapping[int, str]) -> Iterator[SlotOutput]:
    """How far each slot has come that was given something."""
    for line in lines:
        if line.to >= 0 and line.slot >= 0:
            sink, slot = SinkName(sinks[line.to]), Slot(line.slot)
            yield SlotOutput(sink, slot, SequenceNumber(line.sequence), bytes(line.last))


def _outputs(
    before: SnapshotIndex | None, lines: list[Any], sinks: Mapping[int, str]
) -> tuple[SlotOutput, ...]:
    known = before.outputs if before is not None else ()
    found = {(output.sink, output.slot): output for output in (*known, *outputs_in(lines, sinks))}
    return tuple(found[place] for place in sorted(found))
