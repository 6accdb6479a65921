"""Known traces: of the runs that a worker has met lately, with what it needs to tell their spans' parents.

A trace's spans on several workers hang on two that one worker alone tells: the run's own, and the link's. If
that worker is killed before it has told them they would be missing; so whoever names one as a parent
remembers it for a while, and tells it once more when the job recovers.

Keeps: bounded in runs and in remembered spans. Does not: tell anything (traced_worker.py).
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from flamestream.model.meta import floor
from flamestream.model.time import Time
from flamestream.node.tracing.identities import Identities, Trace
from flamestream.node.tracing.span import Span

MOST_RUNS: Final = 4096
MOST_FOREIGN: Final = 4096
FOREIGN_US: Final = 30_000_000
"""A span that another worker told longer ago has left that worker, if it ever will."""


class KnownTraces:
    """The traces of one worker's life."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._runs: dict[Time, tuple[Trace, ...]] = {}
        self.unsettled: dict[bytes, Trace] = {}
        """Those of which results may still leave here, by their prefixes."""
        self._here: dict[bytes, int] = {}
        """The span in which items of a trace were processed here last, by its prefix."""
        self._foreign: deque[Span] = deque(maxlen=MOST_FOREIGN)

    def of(self, time: Time) -> Sequence[Trace]:
        """The traces of a run; none of most."""
        known = self._runs.get(time)
        if known is None:
            if not self._identities.sampled(time):
                return ()
            known = (self._identities.of_run(time),)
            self._keep(time, known)
        return known

    def learn(self, time: Time, callers: Sequence[Trace]) -> None:
        """Traces of callers that a run, or records of it, belong to. One of the whole run stands in place of
        its own."""
        known = {trace.prefix: trace for trace in (*self.of(time), *callers)}
        if known:
            self._keep(time, tuple(known[prefix] for prefix in sorted(known)))

    def settled(self, before: Time) -> None:
        """All results here of runs before that time are with their consumers."""
        end = floor(before)
        for prefix in [prefix for prefix in self.unsettled if prefix < end]:
            del self.unsettled[prefix]

    def replayed(self) -> None:
        """Runs that were through may enter once more."""
        self.unsettled = {trace.prefix: trace for traces in self._runs.values() for trace in traces}

    def processed(self, trace: Trace, span: int) -> None:
        """Items of the trace were processed here in this span."""
        self._here[trace.prefix] = span

    def parent_here(self, trace: Trace) -> int | None:
        """The span in which items of the trace were processed here last; None: none were, as far as is
        known."""
        return self._here.get(trace.prefix)

    def leans_on(self, span: Span) -> None:
        """A span of another worker was named as a parent."""
        self._foreign.append(span)

    def foreign(self, now: int) -> list[Span]:
        """Spans of others that were named lately, once each; they are forgotten."""
        found = {span.id: span for span in self._foreign if span.end > now - FOREIGN_US}
        self._foreign.clear()
        return list(found.values())

    def _keep(self, time: Time, traces: tuple[Trace, ...]) -> None:
        self._runs[time] = traces
        self.unsettled.update((trace.prefix, trace) for trace in traces)
        if len(self._runs) > MOST_RUNS:
            oldest = next(iter(self._runs))
            for trace in self._runs.pop(oldest):
                self._here.pop(trace.prefix, None)
                self.unsettled.pop(trace.prefix, None)
