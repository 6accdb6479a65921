"""The latencies of a job by the second as a picture for notebooks: p50 and p99 around its last recovery, which is
marked, in the colours of the text around it.

Keeps: what lies between two samples is a line, a second without results is none; whatever a job says is text. Does not:
take a sample (node/samples.py).
"""

import sys
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from math import ceil, floor, log10
from typing import Final

from flamestream.job.status import JobStatus
from flamestream.node.samples import Sample

WIDE: Final = 560
HIGH: Final = 140
LEFT: Final = 70
"""Pixels of the axes, and of the words before them."""
TOP: Final = 16
STEPS: Final = (1, 2, 5, 10, 20, 60, 300, 3600, 86_400, sys.maxsize)
"""Seconds between two ticks, of which there are at most TICKS."""
TICKS: Final = 10
AROUND: Final = 30.0
"""Seconds before the recovery's cause and behind its end."""
SECOND: Final = 1_000_000


def recovery_of(status: JobStatus) -> tuple[int, int] | None:
    """The moments of the cause and the end of the last recovery; None: there was none, or its end is not known."""
    last = status.last_recovery
    return (
        None if last is None or not last.ended else (last.ended - round(last.duration_ms * 1000), last.ended)
    )


def around(samples: Sequence[Sample], status: JobStatus, seconds: float) -> list[Sample]:
    """Samples from so many seconds before the last recovery's cause to as many behind its end; without one, the newest
    of as long."""
    newest, reach = samples[-1].at if samples else 0, round(seconds * SECOND)
    cause, end = recovery_of(status) or (newest - reach, newest - reach)
    return [sample for sample in samples if cause - reach <= sample.at <= end + reach]


def latencies(samples: Sequence[Sample], status: JobStatus) -> str:
    """The picture; "": there were no results around then."""
    near, recovery = around(samples, status, AROUND), recovery_of(status)
    told = [each for sample in near for each in (sample.p50_ms, sample.p99_ms) if each is not None]
    if not told:
        return ""
    moments = [near[0].at, near[-1].at, *(recovery or ())]
    axes = _Axes(min(moments), max(moments), told, zero=recovery[0] if recovery else near[-1].at)
    parts = [*axes.ticks(), *(axes.recovery(status) if recovery else ()), *_lines(axes, near)]
    where = f'viewBox="0 0 {LEFT + WIDE} {TOP + HIGH + 40}" width="{LEFT + WIDE}" role="img"'
    label = "latency by the second" + (" around the last recovery" if recovery else "")
    looks = 'font-family="sans-serif" font-size="11" fill="currentColor"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {where} aria-label="{label}" {looks}>'
    return f"{head}{''.join(parts)}</svg>"


class _Axes:
    """Time from left to right, and milliseconds from below by their logarithm."""

    def __init__(self, first: int, end: int, told: Sequence[float], zero: int) -> None:
        self._first, self._span, self._zero = first, max(SECOND, end - first), zero
        self._low = floor(log10(max(0.01, min(told))))
        self._decades = max(1, ceil(log10(max(0.01, *told))) - self._low)

    def x(self, moment: float) -> float:
        return round(LEFT + (moment - self._first) / self._span * WIDE, 2)

    def y(self, ms: float) -> float:
        return round(TOP + HIGH - (log10(max(0.01, ms)) - self._low) / self._decades * HIGH, 2)

    def ticks(self) -> Iterator[str]:
        """Powers of ten, and seconds since the cause."""
        for power in range(self._low, self._low + self._decades + 1):
            y = self.y(10**power)
            yield f'<path d="M{LEFT} {y}h{WIDE}" stroke="currentColor" stroke-opacity="0.15"/>'
            yield _text(LEFT - 8, y + 4, f"{10**power:g} ms", "end")
        every = next(step for step in STEPS if self._span <= step * TICKS * SECOND)
        since, until = self._first - self._zero, self._first + self._span - self._zero
        for number in range(ceil(since / SECOND / every), floor(until / SECOND / every) + 1):
            x = self.x(self._zero + number * every * SECOND)
            anchor = "end" if x > LEFT + WIDE - 20 else "middle"
            yield _text(x, TOP + HIGH + 16, f"{number * every} s", anchor)

    def recovery(self, status: JobStatus) -> Iterator[str]:
        """A band from its cause to its end, at least a pixel wide."""
        last, moments = status.last_recovery, recovery_of(status)
        if last is not None and moments is not None:
            x, end = map(self.x, moments)
            title = f"<title>{escape(f'recovery, {last.duration_ms:.0f} ms: {last.cause}')}</title>"
            wide = max(1.0, round(end - x, 2))
            yield f'<rect x="{x}" y="{TOP}" width="{wide}" height="{HIGH}" fill-opacity="0.3">{title}</rect>'
            yield _text(x, TOP - 5, "recovery", "middle")


def _lines(axes: _Axes, samples: Sequence[Sample]) -> Iterator[str]:
    for number, (name, dashes) in enumerate((("p50_ms", "4 3"), ("p99_ms", "none"))):
        points = [(axes.x(sample.at), getattr(sample, name)) for sample in samples]
        runs = [list(run) for there, run in groupby(points, lambda point: point[1] is not None) if there]
        path = " ".join("M" + " L".join(f"{x},{axes.y(ms)}" for x, ms in run) for run in runs)
        said = f"{name[:3]}, at most {max((ms for run in runs for _, ms in run), default=0):g} ms"
        looks = f'stroke="currentColor" stroke-dasharray="{dashes}"'
        yield f'<path d="{path}" fill="none" {looks}><title>{said}</title></path>'
        x, y = LEFT + number * WIDE / 2, TOP + HIGH + 30
        yield f'<path d="M{x} {y - 4}h24" {looks}/>' + _text(x + 30, y, said, "start")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
