"""Snapshot: a worker's part in an epoch, from the cut to its acceptance.

When the acker's cut arrives, minimal time equals it: everything below is final and at hand, on every worker,
without a question to anyone. The rows of what changed since the committed cut are encoded in slices between
passes and uploaded off the data path, those of a great snapshot in several uploads, each encoded while the
one before is on its way. The epoch is accepted once all are durable *and* every sink has acknowledged all
output below the cut (!): a commit must never cover what a consumer may still lack. (Where output waits for
the commit, the upload has it, and what the epoch before held must be acknowledged.)

Keeps: invariants 4 and 5; the rows of at most two uploads are in memory. Does not: decide anything
(core/coordinator/epochs.py does); releases never wait for it.
"""

from collections.abc import Iterator, Sequence

from flamestream.core.protocol.actions import Upload
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.messages import Accepted
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef, SlotOutput
from flamestream.model.ids import Epoch, Fence
from flamestream.model.time import Time

Apart = tuple[()] | tuple[Sequence[Row], Sequence[Row]]
"""Rows of held output and of requests, which become segments of their own."""


class EncodedRows:
    """Rows that are made one by one, gathered for the next upload."""

    def __init__(self, rows: Iterator[Row | None], limit: int) -> None:
        """An upload has about `limit` bytes."""
        self._left: Iterator[Row | None] | None = rows
        self._limit = limit
        self._rows: list[Row] = []
        self._size = 0

    @property
    def encoding(self) -> bool:
        """Rows are left to encode, and there is room for them."""
        return self._left is not None and self._size < self._limit

    def encode(self, buckets: int, size: int) -> None:
        """Encode a slice: so many buckets, or about `size` bytes of rows."""
        assert self._left is not None
        enough = min(self._size + size, self._limit)
        # a bucket that gives no row counts as well: it was looked at
        for _ in range(buckets):
            if self._size >= enough:
                return
            try:
                row = next(self._left)
            except StopIteration:
                self._left = None
                return
            if row is not None:
                self._rows.append(row)
                self._size += len(row.key) + len(row.state)

    def take(self) -> tuple[list[Row], bool]:
        """The rows that are gathered, and whether those are the last."""
        rows, self._rows, self._size = self._rows, [], 0
        return rows, self._left is None


class PendingSnapshot:
    """The snapshot of one epoch on one worker."""

    def __init__(
        self, fence: Fence, epoch: Epoch, cut: Time, rows: EncodedRows, fronts: list[FrontPosition],
        outputs: list[SlotOutput], needed: Time | None = None, apart: Apart = (),
    ) -> None:  # fmt: skip
        """`needed` of the output must be settled, up to the cut if not said."""
        self.fence = fence
        self.epoch = epoch
        self.cut = cut
        self.rows = rows
        self._apart = apart
        self._needed = cut if needed is None else needed
        self._fronts = fronts
        self._outputs = outputs
        self._under_way = False
        self._all_sent = False
        self._segments: list[SegmentRef] = []
        self._replaced: list[str] = []
        self._held: list[SegmentRef] = []
        self._requests: list[SegmentRef] = []

    def upload(self, compact: Sequence[SegmentRef], kept: frozenset[int] | None = None) -> Upload | None:
        """The next upload, if it can begin now; the last one also merges `compact`, as far as rows are
        `kept`."""
        if self.rows.encoding or self._under_way or self._all_sent:
            return None
        self._under_way = True  # one at a time: the rows of at most two uploads are in memory
        rows, self._all_sent = self.rows.take()
        if not self._all_sent:
            return Upload(self.fence, self.epoch, rows, ())
        (held, requests), self._apart = self._apart or ((), ()), ()
        return Upload(self.fence, self.epoch, rows, compact, held, requests, kept)

    def uploaded(
        self,
        segments: Sequence[SegmentRef],
        replaced: Sequence[str],
        held: Sequence[SegmentRef] = (),
        requests: Sequence[SegmentRef] = (),
    ) -> None:
        """The rows of one upload are durable."""
        assert self._under_way, "one upload at a time"
        self._under_way = False
        self._segments += segments
        self._replaced += replaced
        self._held += held
        self._requests += requests

    def accepted(self, settled: Time) -> Accepted | None:
        """The acceptance, as soon as all rows are durable and all output below the cut is acknowledged
        (!)."""
        # (!) Both: a commit must never cover what a consumer may still lack.
        if not self._all_durable() or not self._all_acknowledged(settled):
            return None
        return Accepted(
            self.fence,
            self.epoch,
            self.cut,
            self._segments,
            self._replaced,
            self._fronts,
            self._outputs,
            self._held,
            self._requests,
        )

    def _all_durable(self) -> bool:
        return self._all_sent and not self._under_way

    def _all_acknowledged(self, settled: Time) -> bool:
        return settled >= self._needed
