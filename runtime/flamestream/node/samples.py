"""Samples: a job's figures by the second, made where its coordinator hears of them.

What a worker reports only grows, so a second's figure is a difference of two of its reports. The first report to a
coordinator is what is counted from: what a worker did for another coordinator is of no second of this one.

    reports of w0    ──5──────9──14──────┬──14──20──      the second before ended with 14, this one ends with 20: 6
    samples                              ┴               ┴

Keeps: a report costs a look-up, a sample what those workers cost that have reported in its second. Does not: keep a
sample (samples_file.py; on a cluster coordination/hours.py of the operator).
"""

from collections.abc import Callable, Iterable, Sequence
from operator import sub
from typing import Final

import msgspec

from flamestream.core.protocol.latency import BOUNDS, quantile
from flamestream.core.protocol.messages import Progress
from flamestream.core.protocol.output_gaps import OutputGaps
from flamestream.model.ids import WorkerId
from flamestream.ports import Reactor

EVERY: Final = 1.0
"""Seconds between two samples."""
MOST: Final = 3600
"""Samples of an hour."""
HOUR: Final = 3600 * 1_000_000
SILENT: Final = 2_000_000
"""Microseconds after which nobody waits for a worker's report to say how long there was no output."""
_NONE: Final = (0,) * (len(BOUNDS) + 1)
_Pair = tuple[Progress, Progress]


class Sample(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """Figures since the sample before. In JSON an array, in this order."""

    at: int
    """Microseconds since 1970, in whole milliseconds."""
    p50_ms: float | None = None
    """Latencies to acknowledgments; None: there was none."""
    p99_ms: float | None = None
    release_p50_ms: float | None = None
    """Latencies to releases."""
    release_p99_ms: float | None = None
    items_in: float | None = None
    """A second; None: nobody counts them (micro-batches)."""
    items_out: float | None = None
    gap_ms: float = 0
    """The longest time without output that ended since then, or that has not ended."""
    epoch: int = 0
    attempt: int = 0
    busy: float = 0
    """The greatest share of time in which a worker did not wait."""
    in_flight: int = 0
    snapshot_size: int = 0


class Sampling:
    """The second that a coordinator is in."""

    def __init__(self, now: int, instant: int) -> None:
        self._instant = instant
        self._pairs: dict[WorkerId, _Pair] = {}
        """The last report before this second and the last one of each worker that has reported in it."""
        self._heard: dict[WorkerId, int] = {}
        """When each connected worker has reported last."""
        self._until = now
        """The moment up to which gaps in the output were told."""

    def heard(self, worker: WorkerId, before: Progress | None, told: Progress, now: int) -> None:
        """A worker reports. `before`: its report before this one; None: this is the first."""
        pair = self._pairs.get(worker)
        self._pairs[worker] = (pair[0] if pair is not None else before or told, told)
        self._heard[worker] = now

    def left(self, worker: WorkerId) -> None:
        """It is not connected any more; what it has reported counts."""
        self._heard.pop(worker, None)

    def sample(
        self, now: int, instant: int, gaps: OutputGaps, *, attempt: int, epoch: int, snapshot_size: int,
        busy: float, in_flight: int,
    ) -> Sample:  # fmt: skip
        """The sample of the second that ends now."""
        seconds, pairs = max(1, instant - self._instant) / 1e6, self._pairs.values()
        p50, p99 = _percentiles((before.latency, told.latency) for before, told in pairs)
        release_p50, release_p99 = _percentiles((before.release, told.release) for before, told in pairs)
        items_in = sum(max(0, _entered(told) - _entered(before)) for before, told in pairs)
        items_out = sum(max(0, told.items_out - before.items_out) for before, told in pairs)
        # of what came later not all have told yet: a pause in what some say is none
        until = min((at for at in self._heard.values() if now - at < SILENT), default=now)
        gap = gaps.longest(self._until, until)
        self._instant, self._pairs, self._until = instant, {}, until
        return Sample(
            at=now // 1000 * 1000, p50_ms=p50, p99_ms=p99, release_p50_ms=release_p50, release_p99_ms=release_p99,
            items_in=round(items_in / seconds, 1), items_out=round(items_out / seconds, 1),
            gap_ms=round(gap / 1000, 1), epoch=epoch, attempt=attempt, busy=round(busy, 3),
            in_flight=in_flight, snapshot_size=snapshot_size,
        )  # fmt: skip


def each_second(
    reactor: Reactor, sample: Callable[[], Sample | None], take: Callable[[Sample], None]
) -> None:
    """Take a sample each second, until there is none."""

    def once() -> None:
        if (found := sample()) is not None:
            reactor.later(EVERY, once)
            take(found)

    reactor.later(EVERY, once)


def _entered(told: Progress) -> int:
    return told.items_in - told.replayed


def _percentiles(counts: Iterable[tuple[Sequence[int], Sequence[int]]]) -> tuple[float | None, float | None]:
    """The median and the 99th of 100 of what was counted in the second, of all workers together."""
    grown = [map(sub, told, before or _NONE) for before, told in counts if told and told != before]
    # counts that go back, against the rule, are none
    together = [max(0, each) for each in map(sum, zip(*grown, strict=True))]
    return (quantile(together, 0.5), quantile(together, 0.99)) if any(together) else (None, None)
