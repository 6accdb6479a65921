"""Compaction: which segments of a snapshot should be merged, and by whom.

Segments are grouped in tiers of size, each eight times the one below. A tier with more than `MAX_PER_TIER`
segments is merged by one worker, at the next epoch, so the number of segments (and with it the cost of a
restore) is bounded by tiers times `MAX_PER_TIER`.

Where keys come and go, or change again and again, the newer segments supersede the greatest one, and nobody
would notice before its tier is full. So all are merged when what stands beside it outweighs it, as long as
one worker can: where keys stay as many, a snapshot holds about three times what lives at most, not eight.

Keeps: no segment is given to two workers. Does not: merge (the workers' shells), or delete (epochs.py, after
the commit).
"""

from collections.abc import Iterable, Sequence

from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.ids import WorkerId

MAX_PER_TIER = 8
SMALLEST = 1 << 16
"""Bytes below which size does not matter: opening a file costs more than reading it."""
MAX_MERGE = 1 << 28
"""Bytes that one worker merges at once."""


def tier(size: int) -> int:
    """The tier of a segment: 0 for the small ones, one more for every factor of eight."""
    # eight is three bits
    return (max(size, SMALLEST) // SMALLEST).bit_length() // 3


def to_compact(
    segments: Iterable[SegmentRef], workers: Sequence[WorkerId], turn: int
) -> dict[WorkerId, list[SegmentRef]]:
    """The segments that each worker should merge; `turn` moves the work round. A worker merges one tier an
    epoch."""
    segments = list(segments)
    if _outweighed(segments):
        return {workers[turn % len(workers)]: segments}
    tiers: dict[int, list[SegmentRef]] = {}
    for segment in segments:
        tiers.setdefault(tier(segment.size), []).append(segment)
    full = [tiers[key] for key in sorted(tiers) if len(tiers[key]) > MAX_PER_TIER]
    # one that is too big for company would be copied for nothing
    merges = [merge for merge in map(_bounded, full) if len(merge) > 1]
    return {
        workers[(turn + place) % len(workers)]: merge for place, merge in enumerate(merges[: len(workers)])
    }


def _outweighed(segments: Sequence[SegmentRef]) -> bool:
    """Whether what stands beside the greatest segment is more than it, and enough to matter."""
    sizes = [segment.size for segment in segments]
    greatest, whole = max(sizes, default=0), sum(sizes)
    return max(greatest, MAX_PER_TIER * SMALLEST) < whole - greatest <= MAX_MERGE - greatest


def _bounded(segments: Sequence[SegmentRef]) -> list[SegmentRef]:
    taken, size = [], 0
    for segment in segments:
        size += segment.size
        if size > MAX_MERGE:
            break
        taken.append(segment)
    return taken
