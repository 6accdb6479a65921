"""A bucket's two parts (poster, Fig. 7): what is below minimal time cannot change, and a snapshot is a piece
of it."""

from collections.abc import Iterable

from flamestream.core.protocol.chain import Row, chains_of
from flamestream.model.ids import Epoch
from flamestream.model.time import END, Time
from flamestream.papers.grouping import KEY, Flow
from flamestream.papers.report import Report, Table

WINDOW = 3
ARRIVALS = (10, 20, 30, 40, 60)
CUT, LATE = 35, 50


def run() -> Report:
    """Minimal time splits a bucket; a snapshot at it, before and behind a late item; and what it restores."""
    flow = Flow(WINDOW)
    for time in ARRIVALS:
        flow.come(time)
    flow.pass_to(CUT)
    flow.cuts.announce(Epoch(1), Time(CUT))
    rows = [_row(f"minimal time has passed {CUT}", flow)]
    before = _snapshot(flow)
    flow.come(LATE)
    rows.append(_row(f"{LATE} comes late", flow))
    again = _snapshot(flow)
    restored = Flow(WINDOW, Time(CUT))
    restored.grouping.load(chains_of([before]))
    for time in (*(time for time in ARRIVALS if time >= CUT), LATE):
        restored.come(time)
    rows.append(_row("restored, and the rest again", restored))
    for each in (flow, restored):
        each.left.clear()
        each.pass_to(END)
    return Report(
        "A bucket's immutable and mutable part (poster, Fig. 7)",
        "minimal time cuts a bucket in two. Nothing changes below it, so the state of any cut there is a "
        "piece of the bucket, one window long, and can be taken while the stream goes on.",
        (
            Table(
                f"A bucket of a grouping of {WINDOW}, cut at {CUT}",
                ("when", "immutable", "mutable", "snapshot"),
                tuple(rows),
            ),
        ),
        f"The snapshot has the same {len(before.state)} bytes whenever it is taken, and what is computed "
        "from it equals what was computed without it.",
        before == again and flow.left == restored.left,
    )


def _snapshot(flow: Flow) -> Row:
    [row] = [row for row in flow.grouping.rows(0, Epoch(1), Time(CUT)) if row is not None]
    return row


def _row(when: str, flow: Flow) -> tuple[str, ...]:
    times = flow.grouping.buckets[KEY].payloads
    below, above = (time for time in times if time < CUT), (time for time in times if time >= CUT)
    saved = flow.grouping.state_at(KEY, Time(CUT))
    return when, _listed(below), _listed(above), _listed(saved)


def _listed(times: Iterable[int]) -> str:
    return " ".join(map(str, times))
