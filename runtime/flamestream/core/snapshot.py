"""Snapshot: a worker's part in an epoch, from the cut to its acceptance.

When the acker's cut arrives, minimal time equals it: everything below is final and at hand, on every worker, without a question to
anyone. The rows of what changed since the committed cut are encoded in slices between passes, uploaded off the data path, and the
epoch is accepted once the upload is durable *and* every sink has acknowledged all output below the cut (!): a commit must never
cover what a consumer may still lack. (Where output waits for the commit, the upload has it, and what the epoch before held must be
acknowledged.)

Keeps: invariants 4 and 5. Does not: decide anything (core/epochs.py does); releases never wait for it.
"""

from collections.abc import Iterator, Sequence

from flamestream.core.chain import Row
from flamestream.core.messages import Accepted, FrontPosition, SegmentRef, SlotOutput
from flamestream.model.ids import Epoch, Fence
from flamestream.model.time import Time


class PendingSnapshot:
    """One epoch on one worker."""

    def __init__(
        self, fence: Fence, epoch: Epoch, cut: Time, rows: Iterator[Row | None], fronts: list[FrontPosition], outputs: list[SlotOutput],
        needed: Time | None = None, held: Sequence[Row] = (),
    ) -> None:  # fmt: skip
        """`needed` of the output must be settled, up to the cut if not said; `held` is output that the snapshot holds."""
        self.fence = fence
        self.epoch = epoch
        self.cut = cut
        self.rows: list[Row] = []
        self.held = held
        self._needed = cut if needed is None else needed
        self._held: Sequence[SegmentRef] = ()
        self._fronts = fronts
        self._outputs = outputs
        self._left: Iterator[Row | None] | None = rows
        self._segments: Sequence[SegmentRef] | None = None
        self._replaced: Sequence[str] = ()

    def encode(self, buckets: int) -> bool:
        """Encode a slice. True when this was the last one."""
        assert self._left is not None
        for _ in range(buckets):
            try:
                row = next(self._left)
            except StopIteration:
                self._left = None
                return True
            if row is not None:
                self.rows.append(row)
        return False

    @property
    def encoding(self) -> bool:
        """Rows are left to encode."""
        return self._left is not None

    def uploaded(self, segments: Sequence[SegmentRef], replaced: Sequence[str], held: Sequence[SegmentRef] = ()) -> None:
        """The rows are durable."""
        self._segments, self._replaced, self._held = segments, replaced, held
        self.rows, self.held = [], ()

    def accepted(self, settled: Time) -> Accepted | None:
        """The acceptance, as soon as it is true."""
        if self._segments is None or not self._all_acknowledged(settled):
            return None
        return Accepted(
            self.fence, self.epoch, self.cut, list(self._segments), list(self._replaced), self._fronts, self._outputs, list(self._held)
        )

    def _all_acknowledged(self, settled: Time) -> bool:
        return settled >= self._needed
