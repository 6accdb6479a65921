"""Which results an audit can judge where a job's code was changed: those of code that is still there.

An index says which application made what (`SnapshotIndex.code`): each span begins at the cut of a tick, or of
the start with other code. State behind a span was begun by the code before it. So results are judged up to the
first span whose code is neither that of now nor kept (node/kept_code.py).

Keeps: results of code that is not there are never called lost or foreign. Does not: interpret anything
(timeline.py).
"""

from collections.abc import Collection, Sequence

from flamestream.audit.committed import LastCommit
from flamestream.core.coordinator.epochs import spans_of
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.model.errors import UserError
from flamestream.model.time import END, START, Time, timestamp_of


def spans_behind(last: LastCommit) -> Sequence[CodeSpan]:
    """Spans of code of which the job can have results; none if nothing is known of its code."""
    if last.record is None or last.index is None or not last.index.code:
        return ()
    # other code may run, and have committed nothing yet
    return behind(
        spans_of(last.index, last.record.code), START if last.savepoint is None else last.savepoint.cut
    )


def behind(spans: Sequence[CodeSpan], cut: Time) -> Sequence[CodeSpan]:
    """Spans of code of which there can be results at or above `cut`: the code that made a savepoint's state
    is the other job's matter.

    >>> behind([CodeSpan(Time(0), "old"), CodeSpan(Time(8), "new")], Time(8))
    [CodeSpan(since=8, digest='new')]
    """
    begun = [place for place, span in enumerate(spans) if span.since <= cut]
    return spans[begun[-1] :] if begun else spans


def judged_until(
    spans: Sequence[CodeSpan], code: str, kept: Collection[str] = (), *, all_of_it: bool = False
) -> tuple[Time, str]:
    """Up to which time there is code to judge what was delivered by, and in words what changes of code mean
    for the verdict ("": there were none).

    `code`: digest of the application as it is now; `kept`: digests of those that there are copies of;
    `all_of_it`: the user lets the application of now stand for all the others. Raises UserError if there is
    none of the code that the job began with.
    """
    if not spans or all(span.digest == code for span in spans):
        return END, ""
    if all_of_it:
        return END, "the application's code was edited; all was interpreted with the code of now"
    gone = next((span for span in spans if span.digest != code and span.digest not in kept), None)
    if gone is None:
        times = "was changed" if len(spans) > 1 else "was edited behind the last start"
        return END, f"the application's code {times}: each result was interpreted with the code that made it"
    changes = ", ".join(map(_where, spans[1:]))
    if gone is spans[0]:  # state of other code cannot be computed any more (!)
        raise UserError(
            f"the application's code is {code[:12]}, but the job began with {gone.digest[:12]}"
            + (f" and changed at {changes}" if changes else "")
            + ", and is not at hand: what other code has delivered cannot be interpreted. Put the files of then "
            "back, or audit with --changed: the code of now then stands for all of it"
        )
    # Also if known code came back later: the state behind this span was made by code that is not there.
    told = (
        f"the application's code changed at {changes}: what was delivered from {_where(gone)} on is not "
        "looked at, since that code is not at hand"
    )
    return gone.since, told


def _where(span: CodeSpan) -> str:
    return f"time {timestamp_of(span.since)} us ({span.digest[:12]})"
