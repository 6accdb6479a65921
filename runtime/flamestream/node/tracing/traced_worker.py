"""A worker that is traced: hears the events and the actions of the worker inside, and tells spans of them.

    source NAME ── journal                       when the run is durable
      ├─ process                                 the vertices that it passes where it was read
      │    └─ sink NAME                          from hand-over to acknowledgment
      └─ link w0 → w1                            a message for vertices of another worker
           └─ process ── sink NAME, call NAME    there
                                   └─ source NAME  the call's answer, in the trace of its request

Nothing of it goes to the worker inside: contexts that records came with stay here, are sent in frames before
the data, and are put into deliveries for the sinks that write them.

Keeps: what the worker inside computes, to the byte; a span's parent is the same run's or record's span, whose
id both ends compute. Does not: time an item: a `process` lasts as long as its pass, and says what an item takes at
each vertex by what the worker's meter has sampled lately (node/busy_meter.py).
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import msgspec

from flamestream.core.protocol import actions, events, messages
from flamestream.core.protocol.actions import Action
from flamestream.core.protocol.events import Entry, Event
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model import payload as codec
from flamestream.model.calls.call import Answer
from flamestream.model.graph import Graph
from flamestream.model.ids import Fence, Offset, Partition, SinkName, SourceName, WorkerId
from flamestream.model.meta import Meta, meta_of, record_of, time_of_meta
from flamestream.model.time import FrontId, Instant, Time, Timestamp, front_of, timestamp_of
from flamestream.node.tracing.identities import Identities, Trace, continued, traceparent
from flamestream.node.tracing.known import KnownTraces
from flamestream.node.tracing.passed_vertices import PassedVertices
from flamestream.node.tracing.recovery_spans import RecoverySpans
from flamestream.node.tracing.span import Attribute, Span
from flamestream.node.tracing.span import Kind as SpanKind

MOST_CALLERS: Final = 256
"""Records of one run that are in traces of their callers; of a run with more, the first ones."""
MOST_ANSWERED: Final = 1024
MOST_ARRIVED: Final = 4096
"""Runs whose contexts wait for their entry."""
WHOLE: Final = -1
"""The place of a context that all records of a run came with."""


class Worker(Protocol):
    """The worker inside: `core.worker.worker.Worker`."""

    me: WorkerId
    fence: Fence
    settings: WorkerSettings
    entered: list[tuple[SourceName, Entry, Sequence[object]]] | None

    def step(
        self, now: Timestamp, instant: Instant, events: list[Event], took: int | None = None, /
    ) -> list[Action]: ...


class TracedWorker:
    """`node.worker_host.Stepped`, around a worker. `give`: where spans go; `clock`: microseconds since 1970;
    `measured`: what each vertex has done lately, in the order of the graph."""

    def __init__(
        self, worker: Worker, graph: Graph, identities: Identities, give: Callable[[Span], None],
        clock: Callable[[], int], measured: Callable[[], Sequence[messages.Operation]] = lambda: (),
    ) -> None:  # fmt: skip
        self.me, self._worker, self._calls = worker.me, worker, frozenset(graph.calls)
        self._identities, self._give, self._clock = identities, give, clock
        self._entered: list[tuple[SourceName, Entry, Sequence[object]]] = []
        worker.entered = self._entered
        self._known = KnownTraces(identities)
        self._recovery = RecoverySpans(worker.me, identities, give)
        self._vertices = PassedVertices(graph, measured)
        self._mine: frozenset[FrontId] = frozenset()
        self._arrived: dict[tuple[FrontId, Partition, Offset], dict[int, str]] = {}
        """Contexts of records that have not entered yet."""
        self._received: list[tuple[WorkerId, messages.Data]] = []
        """Data of traced runs that this pass processes."""
        self._journalled: dict[FrontId, list[tuple[Time, int]]] = {}
        self._delivering: dict[tuple[SinkName, int], list[Span]] = {}
        self._given: dict[SinkName, bytes] = {}
        """The greatest meta that each sink was given in this attempt."""
        self._asked: dict[tuple[SourceName, Meta], list[Span]] = {}
        self._answered: deque[int] = deque(maxlen=MOST_ANSWERED)
        """Spans of calls that were told here lately: answers may go on below them."""
        self._now = self._done = 0

    def step(
        self, now: Timestamp, instant: Instant, batch: Sequence[Event], took: int | None = None
    ) -> list[Action]:
        """Take a pass of the worker inside, and tell the spans that it ends."""
        self._now = now
        heard = [self._hear(event) for event in batch]
        done = self._worker.step(now, instant, heard, took)
        self._done = max(now, self._clock())
        for source, entry, payloads in self._entered:
            if source in self._calls:
                self._known.learn(entry.time, self._requested(entry.time, payloads))
            self._enter(source, entry)
        self._entered.clear()
        for peer, data in self._received:
            self._process(peer, data)
        self._received.clear()
        return [self._carry_out(action) for action in done]

    # --- events ---------------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> Event:
        match event:
            case events.FromPeer():
                return self._frame(event)
            case events.RecordsArrived() if event.traces:
                self._note(event.front, event.partition, event.first, dict(event.traces))
            case events.RunRead() if event.traces:
                self._note(event.front, event.entry.partition, event.entry.first, dict(event.traces))
            case events.JournalAppended():
                self._journal(event.front, event.time)
            case events.BundlesAcknowledged():
                self._end(self._delivering.pop((event.sink, event.number), []))
            case events.CallReturned():
                error = "" if event.error is None else event.error.error
                calls = self._asked.pop((event.call, event.request), [])
                self._answered.extend(span.id for span in calls)
                self._end(calls, error)
            case events.FromCoordinator():
                self._told(event.message)
        return event

    def _told(self, message: messages.ToWorker) -> None:
        if isinstance(message, messages.Recover):
            self._mine = frozenset(message.assignment.layout.fronts_of(self.me))
            for pending in (self._arrived, self._journalled, self._delivering, self._given, self._asked):
                pending.clear()
            self._known.replayed()
            for span in self._known.foreign(self._now):
                self._give(span)
        self._recovery.told(message, self._now)

    def _note(self, front: FrontId, partition: Partition, first: Offset, contexts: dict[int, str]) -> None:
        if len(self._arrived) >= MOST_ARRIVED:
            del self._arrived[next(iter(self._arrived))]
        self._arrived[front, partition, first] = contexts

    def _frame(self, event: events.FromPeer) -> events.FromPeer:
        """The frame without what is for the shell."""
        frame, kept = event.frame, []
        for message in frame.messages:
            if isinstance(message, messages.Traces):
                self._learn(message)
                continue
            kept.append(message)
            if isinstance(message, messages.Data) and self._known.of(message.cause):
                self._received.append((event.peer, message))
        if len(kept) == len(frame.messages):
            return event
        return replace(event, frame=msgspec.structs.replace(frame, messages=kept))

    def _learn(self, message: messages.Traces) -> None:
        for prefix, trace, caller in message.callers[:MOST_CALLERS]:
            told = Trace(prefix, int.from_bytes(trace, "big"), int.from_bytes(caller, "big"))
            self._known.learn(time_of_meta(Meta(prefix)), [told])

    # --- runs -----------------------------------------------------------------------------------------------

    def _enter(self, source: SourceName, entry: Entry) -> None:
        """A run has entered here: its own span, and that of its way through the vertices here."""
        contexts = self._arrived.pop((front_of(entry.time), entry.partition, entry.first), None)
        if contexts:
            self._known.learn(entry.time, _callers(entry.time, contexts))
        for trace in self._known.of(entry.time):
            self._give(self._root(trace, entry.time, self._done, entry))
            span = self._identities.span(trace, b"process")
            told = self._vertices.behind(source)
            self._tell("process", trace, span, self._identities.span(trace), self._now, told)
            self._known.processed(trace, span)

    def _requested(self, time: Time, payloads: Sequence[object]) -> list[Trace]:
        """The traces of requests that answers go on in, below the spans of the calls; of a call that another worker has
        told, or one before it, the answer begins anew."""
        found = []
        for position, answer in enumerate(payloads):
            if not isinstance(answer, Answer):
                continue
            for trace in self._known.of(time_of_meta(Meta(answer.request))):
                call = self._identities.span(trace, b"call", answer.request)
                if answer.request.startswith(trace.prefix) and call in self._answered:
                    found.append(Trace(meta_of(time, position), trace.id, call))
        return found[:MOST_CALLERS]

    def _root(self, trace: Trace, time: Time, end: int, entry: Entry | None = None) -> Span:
        """The span of a run, or of one of its records: the root of what is told of it here."""
        front = front_of(time)
        source = next((f.source for f in self._worker.settings.fronts if f.front == front), SourceName(""))
        stamped = timestamp_of(time) if front in self._worker.settings.clocked else self._now
        attributes: dict[str, Attribute] = {"flamestream.time": str(time)}
        if entry is not None:
            attributes |= {
                "flamestream.partition": entry.partition, "flamestream.offset": int(entry.first),
                "flamestream.records": entry.count, **self._who(),
            }  # fmt: skip
        own = self._identities.span(trace)
        return Span(
            f"source {source}", trace.id, own, trace.caller, min(stamped, end), end, "consumer", attributes
        )

    def _parent(self, trace: Trace) -> int:
        """The span that what is done here for a trace belongs below."""
        here = self._known.parent_here(trace)
        if here is not None:
            return here
        time = time_of_meta(Meta(trace.prefix))
        if front_of(time) not in self._mine:
            self._known.leans_on(self._again(self._root(trace, time, self._now)))
        return self._identities.span(trace)

    def _process(self, peer: WorkerId, data: messages.Data) -> None:
        """A message of another worker was processed here."""
        for trace, place in self._places(data):
            link = self._link(trace, place, peer, self.me)
            root = self._root(trace, data.cause, self._now)
            for span in (root, link):
                self._known.leans_on(self._again(span))
            own = self._identities.span(trace, b"process", *place)
            told = {**self._vertices.of(data.vertices), "flamestream.peer": peer}
            self._tell("process", trace, own, link.id, self._now, told, kind="consumer")
            self._known.processed(trace, own)

    def _link(self, trace: Trace, place: tuple[bytes, bytes], sender: WorkerId, receiver: WorkerId) -> Span:
        return Span(
            f"link {sender} → {receiver}", trace.id, self._identities.span(trace, b"link", *place),
            self._identities.span(trace), self._now, max(self._now, self._done), "producer", self._who(),
        )  # fmt: skip

    def _places(self, data: messages.Data) -> Iterator[tuple[Trace, tuple[bytes, bytes]]]:
        """The traces of items in a message, with the least of the items: by it both ends name the link."""
        for trace in self._known.of(data.cause):
            items = [
                (meta, vertex)
                for meta, vertex in zip(data.metas, data.vertices, strict=True)
                if meta.startswith(trace.prefix)
            ]
            if items:
                meta, vertex = min(items)
                yield trace, (meta, b"%d" % vertex)

    # --- actions --------------------------------------------------------------------------------------------

    def _carry_out(self, action: Action) -> Action:
        match action:
            case actions.ToPeer():
                return self._send(action)
            case actions.Deliver():
                return self._deliver(action)
            case actions.Append() if action.entry.moves and self._known.of(action.entry.time):
                self._journalled.setdefault(action.front, []).append((action.entry.time, self._now))
            case actions.MakeCall():
                self._ask(action)
            case actions.ToldCoordinator():
                self._recovery.said(action.message, self._done)
                if isinstance(action.message, messages.Progress):
                    self._known.settled(action.message.settled)
        return action

    def _send(self, action: actions.ToPeer) -> actions.ToPeer:
        callers: dict[bytes, tuple[bytes, bytes, bytes]] = {}
        for message in action.frame.messages:
            if not isinstance(message, messages.Data):
                continue
            for trace in self._known.of(message.cause):
                if trace.caller:
                    told = trace.prefix, trace.id.to_bytes(16, "big"), trace.caller.to_bytes(8, "big")
                    callers[trace.prefix] = told
            for trace, place in self._places(message):
                self._give(self._link(trace, place, self.me, action.peer))
        if not callers:
            return action
        told_first = [messages.Traces(list(callers.values())), *action.frame.messages]
        return replace(action, frame=msgspec.structs.replace(action.frame, messages=told_first))

    def _journal(self, front: FrontId, upto: Time) -> None:
        waiting = self._journalled.get(front, [])
        while waiting and waiting[0][0] <= upto:
            time, since = waiting.pop(0)
            for trace in self._known.of(time):
                own, root = self._identities.span(trace, b"journal"), self._identities.span(trace)
                self._done = self._now
                self._tell("journal", trace, own, root, since, {})

    def _deliver(self, action: actions.Deliver) -> actions.Deliver:
        unsettled = self._known.unsettled
        if not self._may_have(action):
            return action
        first: dict[Trace, bytes] = {}
        for bundle in action.bundles:
            for meta, _ in codec.decode_items(bundle.items):
                for prefix in (meta[:8], record_of(Meta(meta))):
                    if (trace := unsettled.get(prefix)) is not None:
                        first[trace] = min(meta, first.get(trace, meta))
        spans = [self._sink_span(action, trace, meta) for trace, meta in first.items()]
        if not spans:
            return action
        self._delivering[action.sink, action.number] = spans
        contexts = {
            trace.prefix: traceparent(trace.id, span.id) for trace, span in zip(first, spans, strict=True)
        }
        return replace(action, traces=contexts)

    def _may_have(self, action: actions.Deliver) -> bool:
        """Whether items of a traced run may be in a call. Calls of a sink ascend, and a run is traced until it is
        settled, so most calls are beyond it: to decode them all was 7% of a worker at full rate (!)."""
        ends = [bundle.t_last for bundle in action.bundles]
        since, upto = self._given.get(action.sink, b""), max(ends)
        self._given[action.sink] = max(since, upto)
        if min(ends) < since:  # not ascending after all: nothing is known
            since = b""
        return any(since[:8] <= prefix <= upto for prefix in self._known.unsettled)

    def _sink_span(self, action: actions.Deliver, trace: Trace, first: bytes) -> Span:
        own = self._identities.span(trace, b"sink", action.sink.encode(), first)
        name, parent = f"sink {action.sink}", self._parent(trace)
        return Span(name, trace.id, own, parent, self._done, self._done, "producer", self._who())

    def _ask(self, action: actions.MakeCall) -> None:
        spans = [
            Span(
                f"call {action.call}", trace.id, self._identities.span(trace, b"call", action.request),
                self._parent(trace), self._done, self._done, "client", self._who(),
            )
            for trace in self._known.of(time_of_meta(action.request))
            if action.request.startswith(trace.prefix)
        ]  # fmt: skip
        if spans:
            self._asked[action.call, action.request] = spans

    # --- telling --------------------------------------------------------------------------------------------

    def _tell(
        self, name: str, trace: Trace, own: int, parent: int, since: int, attributes: Mapping[str, Attribute],
        kind: SpanKind = "internal",
    ) -> None:  # fmt: skip
        end = max(since, self._done)
        self._give(Span(name, trace.id, own, parent, since, end, kind, {**self._who(), **attributes}))

    def _end(self, spans: Sequence[Span], error: str = "") -> None:
        """Tell spans that end now."""
        for span in spans:
            self._give(replace(span, end=max(span.start, self._now), error=error))

    def _who(self) -> dict[str, Attribute]:
        return {"flamestream.worker": self.me, "flamestream.attempt": int(self._worker.fence.attempt)}

    @staticmethod
    def _again(span: Span) -> Span:
        """The span as whoever leans on it tells it again."""
        return replace(span, attributes={**span.attributes, "flamestream.told": "again"})


def _callers(time: Time, contexts: dict[int, str]) -> list[Trace]:
    """The traces of callers that records of a run are in."""
    found = []
    for position, header in sorted(contexts.items())[:MOST_CALLERS]:
        prefix = time.to_bytes(8, "big") if position == WHOLE else meta_of(time, position)
        if (trace := continued(prefix, header)) is not None:
            found.append(trace)
    return found
