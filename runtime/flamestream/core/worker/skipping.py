"""Skipping: where a front goes on under `at-most-once`, which has no journal.

    below the cut   | had entered, and nothing of it has left   | was not read
    is in the state | skipped, and counted                      | comes next

Output waits for its epoch's commit, so whatever a front reads again doubles nothing. How far it had come is
therefore no matter of safety: the last reports of workers say it, and what none has told is read once more.
A coordinator that has heard nothing skips nothing.

Keeps: nothing is skipped that had not entered, and what is skipped is counted for the life of the job. Does
not: gather reports (core/coordinator/coordinator.py), or read (fronts.py).
"""

import msgspec

from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.time import Time


def gone_on(at_cut: FrontPosition, reached: FrontPosition | None) -> FrontPosition:
    """The place where a front goes on that was `at_cut`, and had come to `reached` in the attempts since.

    >>> cut = FrontPosition(front=0, last=9, offsets={"p": 3}, records=3)
    >>> gone_on(cut, FrontPosition(front=0, last=17, offsets={"p": 5, "q": 1}, records=6))
    FrontPosition(front=0, last=9, offsets={'p': 5, 'q': 1}, ended=False, records=6, skipped=3, begins=0)
    """
    if reached is None:
        return at_cut
    offsets = dict(at_cut.offsets)
    # `max`: the commit may be of a moment behind the report
    for partition, offset in reached.offsets.items():
        offsets[partition] = max(offset, offsets.get(partition, offset))
    records = max(at_cut.records, reached.records)
    # Stamps go on at the cut: no result above it has left.
    return msgspec.structs.replace(
        at_cut, offsets=offsets, records=records, skipped=at_cut.skipped + records - at_cut.records
    )


def delivered_above(count: int, first: Time) -> str:
    """The reason why a job cannot go on whose consumers have results of `count` runs or more above its
    cut."""
    # (!) Their records would enter once more, in another order: what they led to would be there twice.
    return (
        f"consumers have results of at least {count} runs above the committed cut (the first at time {first}), which "
        "at-most-once never gives before their commit: the job began under another guarantee. Start it with "
        "that once more, stop it with a drain (which commits everything), and change the guarantee then; or "
        "begin anew (`flamestream reset`) with empty sinks"
    )
