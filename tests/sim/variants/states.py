"""Variants of what keeps state right: order, tombstones, buckets, keys, snapshots."""

from dataclasses import replace
from typing import Any

from flamestream.core.coordinator import compaction
from flamestream.core.dataflow import grouping, reduce
from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.operations import Operations
from flamestream.core.protocol import actions
from flamestream.core.worker.prefetch import Prefetch
from flamestream.core.worker.rejoin import Rejoin
from flamestream.core.worker.snapshot import PendingSnapshot
from flamestream.model import payload as codec
from flamestream.model.meta import floor
from flamestream.simulation.faults import Fault
from flamestream.simulation.graphs import confusing_keys, inverted_index
from flamestream.simulation.outside.snapshots import rows_of as snapshot_rows
from flamestream.store import segment, snapshots
from sim.variants.variant import BrokenVariant, directed, patch, patched, several_sources, together


def _first_with_meta(metas: list[Any], payloads: list[Any] | None, meta: Any, payload: Any) -> int | None:
    return metas.index(meta) if meta in metas else None


def _first_entry_with_meta(entries: Any, meta: Any, payload: Any) -> Any:
    return _first_with_meta([entry[0] for entry in entries], None, meta, payload)


def _drop_by_meta(self: Barrier, meta: Any, payload: Any) -> None:
    held = self._held.get(meta[:8], [])
    for place, (other, _, _) in enumerate(held):
        if other == meta:
            del held[place]
            return


_tombstones_by_meta = together(
    patch(Barrier, drop=_drop_by_meta),
    patch(grouping, find=_first_with_meta),
    patch(reduce, _find=_first_entry_with_meta),
)


def _only_minimal(self: LiveCuts) -> None:
    self.all = [floor(self.minimal)]
    self.newest = self.all[-1]


def _tied_forward(self: Operations, vertex: Any) -> Any:
    entrances = [self._enter[output] for output in vertex.outputs]

    def forward(meta: Any, payload: Any, tombstone: bool) -> None:
        for enter in entrances:
            enter(meta, payload, tombstone)

    return forward


_place = Operations._place


def _place_by_equality(self: Operations, vertex: Any) -> Any:
    """Keys that Python finds equal share the encoding of the first of them."""
    known: dict[Any, bytes] = {}

    def encode(key: Any) -> bytes:
        return known.setdefault(key, codec.encode(key))

    if vertex.key is None:
        return _place(self, vertex)
    with patched(codec, encode=encode):
        return _place(self, vertex)


def _no_roll_back(self: Rejoin, cut: Any, kept: Any) -> None:
    for state in self._states.values():
        state.keep(kept)
    self._cuts.reset(cut)


def _first_durable(self: PendingSnapshot) -> bool:
    return not self._under_way and (self._all_sent or bool(self._segments))


def _newest_row_only(tables: Any) -> Any:
    """A merge keeps one row a key, be it whole or a change."""
    rows = snapshot_rows(_merged(tables))
    return segment.table_of(
        list({(row.operation, row.key): row for row in sorted(rows, key=lambda row: row.epoch)}.values())
    )


_merged = segment.merged


def _joined_again(self: Prefetch) -> list[actions.Action]:
    """All rows of segments that are new, be they at hand already."""
    asked = _ask(self)
    return [replace(each, after=-1) if isinstance(each, actions.Prefetch) else each for each in asked]


_ask = Prefetch._ask
_small = patch(compaction, SMALLEST=32, MAX_PER_TIER=2)
"""Segments are merged all the time: not wrong, but else it would be rare."""

LOST_WORKERS = directed(Fault.WORKER_CRASH, Fault.LINK_BREAK)
SLOW_ENCODING = directed(
    Fault.WORKER_CRASH,
    Fault.LINK_BREAK,
    worker={"upload_bytes": 100, "slice_size": 1, "slice_bytes": 30},
    plan={"delay": 50, "turn": 300},
)
"""An upload is durable before the next has rows enough."""
CROWD = directed(
    Fault.FRAME_DELAY,
    rate=0.2,
    spacing=0,
    worker={"credit_runs": 1000, "credit_bytes": 1 << 20},
    plan={"delay": 300},
)
TAKEN_OVER = directed(
    Fault.WORKER_CRASH, times=6, spacing=3_000, coordinator={"interval_us": 3_000},
    plan={"workers": 2, "standbys": 2}, worker={"credit_runs": 5},
)  # fmt: skip
"""Workers die while epochs are committed fast, and standbys have the snapshot at hand."""
DAMAGE = directed(
    Fault.STORE_DAMAGE, Fault.WORKER_CRASH, times=6, spacing=4_000, coordinator={"interval_us": 5_000}
)

VARIANTS = [
    BrokenVariant("edges that tie", patch(Operations, forward=_tied_forward)),
    BrokenVariant("tombstones matched by meta alone", _tombstones_by_meta, CROWD, several_sources),
    BrokenVariant("buckets collected past a live cut", patch(LiveCuts, _refresh=_only_minimal), LOST_WORKERS),
    BrokenVariant("keys compared by ==", patch(Operations, _place=_place_by_equality), job=confusing_keys),
    BrokenVariant(
        "state above the cut kept by a survivor", patch(Rejoin, _roll_back=_no_roll_back), LOST_WORKERS
    ),
    BrokenVariant(
        "accepted with the first of several uploads",
        patch(PendingSnapshot, _all_durable=_first_durable),
        SLOW_ENCODING,
    ),
    BrokenVariant("ignored checksum", patch(snapshots, checked=lambda data, ref: data), DAMAGE),
    BrokenVariant(
        "a merge that keeps the newest row of a key only",
        together(_small, patch(segment, merged=_newest_row_only)),
        TAKEN_OVER,
        inverted_index,
    ),
    BrokenVariant(
        "a standby joins rows that it has already",
        together(_small, patch(Prefetch, _ask=_joined_again)),
        TAKEN_OVER,
        inverted_index,
    ),
    BrokenVariant(
        "no guarantee: a survivor keeps its state",
        patch(Rejoin, _roll_back=_no_roll_back),
        LOST_WORKERS,
        guarantee="none",
    ),
]
