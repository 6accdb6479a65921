"""The last recovery of a job as a picture for notebooks: how long nothing came out, and what each step of it took, on
one axis of time, in the colours of the text around it.

Keeps: each bar is as wide as what it shows took; whatever a job says is text. Does not: measure
(core/protocol/output_gaps.py and the coordinator do).
"""

from collections.abc import Iterator
from html import escape
from typing import Final

from flamestream.job.status import JobStatus, LastRecovery

WIDE: Final = 560
LEFT: Final = 70
"""Pixels of the axis, and of the words before it."""
ROWS: Final = {"output": 8, "recovery": 44}
HIGH: Final = 22
TICKS: Final = 5


def picture(status: JobStatus) -> str:
    """The picture; "": there was no recovery, or it is under way."""
    last = status.last_recovery
    if last is None or not last.ended or not last.steps_ms:
        return ""
    began = last.ended - round(last.duration_ms * 1000)
    gap = gap_around(status, began)
    first = min(began, gap[0]) if gap else began
    end = max(last.ended, gap[1]) if gap else last.ended
    margin = max(1, (end - first) // 8)
    axis = _Axis(first - margin, end + margin, began)
    parts = [*_output(axis, gap), *_steps(axis, last, began), *axis.ticks()]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDE} 100" width="{LEFT + WIDE}" role="img"'
    looks = 'font-family="sans-serif" font-size="11" fill="currentColor"'
    return f'{head} aria-label="{escape(last.cause)}" {looks}>{"".join(parts)}</svg>'


def gap_around(status: JobStatus, began: int) -> tuple[int, int] | None:
    """The longest stretch without output that ended behind `began`, from when to when; None: it is not known, or
    another one, later than the recovery."""
    ended = status.last_recovery.ended if status.last_recovery else 0
    found = next(((end - length, end) for end, length in status.gaps if end > began), None)
    return found if found is not None and found[0] <= ended else None


class _Axis:
    """Time from left to right; `zero` is what people count from."""

    def __init__(self, first: int, end: int, zero: int) -> None:
        self.first, self.end, self._zero = first, end, zero

    def at(self, moment: float) -> float:
        return round(LEFT + (moment - self.first) / (self.end - self.first) * WIDE, 2)

    def bar(self, row: str, since: float, until: float, title: str, strength: float) -> str:
        """A bar with a title."""
        x, y = self.at(since), ROWS[row]
        wide = round(self.at(until) - x, 2)
        return (
            f'<rect x="{x}" y="{y}" width="{wide}" height="{HIGH}" fill-opacity="{strength}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def ticks(self) -> Iterator[str]:
        """Milliseconds since the cause, and the names of the rows."""
        for name, y in ROWS.items():
            yield _text(LEFT - 8, y + 15, name, "end")
        for number in range(TICKS + 1):
            moment = self.first + (self.end - self.first) * number / TICKS
            yield _text(self.at(moment), 92, f"{(moment - self._zero) / 1000:.0f} ms", "middle")


def _output(axis: _Axis, gap: tuple[int, int] | None) -> Iterator[str]:
    if gap is None:
        yield _text(LEFT + WIDE / 2, ROWS["output"] + 15, "the gap is not known", "middle")
        return
    since, until = gap
    yield axis.bar("output", axis.first, since, "results came", 0.25)
    yield axis.bar("output", until, axis.end, "results came", 0.25)
    middle = axis.at((since + until) / 2)
    yield _text(middle, ROWS["output"] + 15, f"nothing for {(until - since) / 1000:.0f} ms", "middle")


def _steps(axis: _Axis, last: LastRecovery, began: int) -> Iterator[str]:
    moment = float(began)
    for number, (step, took) in enumerate(last.steps_ms.items()):
        until = moment + took * 1000
        yield axis.bar("recovery", moment, until, f"{step}: {took:.1f} ms", 0.8 if number % 2 else 0.45)
        moment = until
    words = ", ".join(f"{step} {took:.0f}" for step, took in last.steps_ms.items())
    yield _text(axis.at(began), ROWS["recovery"] + HIGH + 12, words, "start")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
