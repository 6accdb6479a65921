"""Which results the application's files, as they are now, can be held responsible for: those below the first
cut at which its code changed.

An index says which application made what (`SnapshotIndex.code`). State behind a change was begun by the code
before it, which is not there any more, so nobody can compute what should stand there.

Keeps: results of other code are never called lost or foreign. Does not: interpret anything (audit.py).
"""

from collections.abc import Sequence

from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.model.errors import UserError
from flamestream.model.time import END, Time, timestamp_of


def behind(spans: Sequence[CodeSpan], cut: Time) -> Sequence[CodeSpan]:
    """Spans of code of which there can be results at or above `cut`: the code that made a savepoint's state
    is the other job's matter.

    >>> behind([CodeSpan(Time(0), "old"), CodeSpan(Time(8), "new")], Time(8))
    [CodeSpan(since=8, digest='new')]
    """
    begun = [place for place, span in enumerate(spans) if span.since <= cut]
    return spans[begun[-1] :] if begun else spans


def by_this_code(spans: Sequence[CodeSpan], code: str, *, all_of_it: bool = False) -> tuple[Time, str]:
    """Until which time the application with digest `code` made what was delivered, and in words what it did
    not make ("" if nothing).

    `all_of_it`: the user lets this code stand for all the others. Raises UserError if it made nothing.
    """
    if not spans or all(span.digest == code for span in spans):
        return END, ""
    if all_of_it:
        return END, "the application's code was edited; all was interpreted with the code of now"
    changes = ", ".join(f"time {timestamp_of(span.since)} us ({span.digest[:12]})" for span in spans[1:])
    if spans[0].digest != code:  # state of other code cannot be computed any more (!)
        raise UserError(
            f"the application's code is {code[:12]}, but the job began with {spans[0].digest[:12]}"
            + (f" and changed at {changes}" if changes else "")
            + ": what other code has delivered cannot be interpreted. Put the files of then back, or audit "
            "with --changed: the code of now then stands for all of it"
        )
    # Also if this code came back later: the state behind the first change was begun by another.
    told = f"the application's code changed at {changes}: what was delivered from there on is not looked at"
    return spans[1].since, told
