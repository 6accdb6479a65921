"""A cluster of core workers that are traced: their spans in the order in which each gave them."""

from typing import Any

from flamestream.core.protocol import events as ev
from flamestream.model.graph import Graph
from flamestream.model.ids import WorkerId
from flamestream.node.tracing.identities import Identities
from flamestream.node.tracing.span import Span
from flamestream.node.tracing.traced_worker import TracedWorker
from support.core.core_cluster import CoreCluster


class TracedCluster(CoreCluster):
    """Each worker is traced. `every`: of so many runs one is sampled."""

    def __init__(
        self, graph: Graph, workers: int = 2, seed: int = 0, *, every: int = 1, **changes: Any
    ) -> None:
        self.every = every
        self.spans: dict[WorkerId, list[Span]] = {}
        self.contexts: dict[int, str] = {}
        """Contexts that records come with, by their offsets."""
        super().__init__(graph, workers, seed, **changes)

    def add(self) -> WorkerId:
        name = super().add()
        given = self.spans[name] = []
        traced = TracedWorker(
            self.workers[name], self.graph, Identities("job", self.every), given.append, lambda: self.now
        )
        self.workers[name] = traced  # type: ignore[assignment]
        return name

    def step(self, name: WorkerId, *events: ev.Event) -> Any:
        return super().step(name, *[self._with_contexts(event) for event in events])

    def _with_contexts(self, event: ev.Event) -> ev.Event:
        """As a source that reads headers gives them, also of what it reads again."""
        if isinstance(event, ev.RecordsArrived):
            place = event.fence, event.front, event.partition, event.first, event.payloads, event.size
            found = self._of(event.first, len(event.payloads))
            return ev.RecordsArrived(*place, traces=found)
        if isinstance(event, ev.RunRead):
            found = self._of(event.entry.first, event.entry.count)
            return ev.RunRead(event.fence, event.front, event.entry, event.payloads, found)
        return event

    def _of(self, first: int, count: int) -> dict[int, str]:
        return {at - first: told for at, told in self.contexts.items() if first <= at < first + count}

    def all_spans(self) -> list[Span]:
        """All spans, of all workers there ever were."""
        return [span for given in self.spans.values() for span in given]

    def record(self, offset: int, payload: Any, context: str = "") -> None:
        """A record of the first source, maybe with a context."""
        if context:
            self.contexts[offset] = context
        self.feed(0, payload)


def orphans(spans: list[Span], callers: set[int] = frozenset()) -> list[Span]:  # type: ignore[assignment]
    """Spans whose parent nobody has told. `callers`: spans of others."""
    known = {(span.trace, span.id) for span in spans}
    return [
        span for span in spans
        if span.parent and span.parent not in callers and (span.trace, span.parent) not in known
    ]  # fmt: skip
