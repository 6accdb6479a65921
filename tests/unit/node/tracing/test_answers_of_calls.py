"""An answer of a call goes on in the trace of its request; what an item takes at a vertex is said with its process."""

from dataclasses import dataclass, field
from typing import Any

import flamestream as fs
from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol.messages import Operation
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.model import payload as codec
from flamestream.model.calls.call import Answer, Intent
from flamestream.model.graph import Graph
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition, SourceName, WorkerId
from flamestream.model.meta import meta_of
from flamestream.model.time import FrontId, Instant, Time, Timestamp, time_of
from flamestream.node.tracing.identities import Identities
from flamestream.node.tracing.span import Span
from flamestream.node.tracing.traced_worker import TracedWorker

FENCE = Fence(Attempt(1), LayoutVersion(1))
ITEMS, CALL = FrontId(0), FrontId(1)
ASKED, ANSWERED = time_of(Timestamp(5), ITEMS), time_of(Timestamp(9), CALL)
REQUEST = meta_of(ASKED, 3)


@fs.call
async def price(order: int) -> int:
    return order


def asking() -> Graph:
    graph = fs.Graph("prices")
    graph.source("orders", int).call(price).sink("priced")
    return graph.validated()


@dataclass
class Inside:
    """A worker that enters and does what a test says."""

    settings: WorkerSettings
    me: WorkerId = WorkerId("w0")
    fence: Fence = FENCE
    entered: list[Any] | None = None
    enters: list[Any] = field(default_factory=list)
    does: list[act.Action] = field(default_factory=list)

    def step(self, *_: object) -> list[act.Action]:
        assert self.entered is not None
        self.entered += self.enters
        done, self.does, self.enters = self.does, [], []
        return done


class Traced:
    """`every`: of so many runs one is sampled."""

    def __init__(self, every: int = 1, measured: list[Operation] | None = None) -> None:
        graph = asking()
        (self.call,) = graph.calls
        fronts = (
            FrontSettings(ITEMS, SourceName("orders"), False, 1, True),
            FrontSettings(CALL, SourceName(self.call), False, 1, False),
        )
        self.inside = Inside(WorkerSettings("job", 4, fronts))
        self.spans: list[Span] = []
        self.worker = TracedWorker(
            self.inside, graph, Identities("job", every), self.spans.append, lambda: 7, lambda: measured or []
        )  # fmt: skip

    def step(self, *events: ev.Event) -> None:
        self.worker.step(Timestamp(6), Instant(6), events)

    def asks(self) -> None:
        self.inside.enters = [(SourceName("orders"), _entry(ASKED), [0, 1, 2, 4])]
        request = act.MakeCall(FENCE, SourceName(self.call), REQUEST, codec.encode(4), "id")
        self.inside.does = [request]
        self.step()

    def returns(self) -> None:
        self.step(ev.CallReturned(FENCE, SourceName(self.call), REQUEST, (4,)))

    def enters(self, *payloads: object) -> None:
        self.inside.enters = [(SourceName(self.call), _entry(ANSWERED), payloads)]
        self.step()

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name.startswith(name)]


def _entry(time: Time) -> ev.Entry:
    return ev.Entry(time, Partition(""), Offset(0), 1)


def answer_to(request: bytes) -> Answer:
    return Answer(request, b"")


def test_an_answer_is_in_the_trace_of_its_request_below_the_call() -> None:
    traced = Traced()
    traced.asks()
    traced.returns()
    traced.enters(answer_to(meta_of(time_of(Timestamp(2), ITEMS), 0)), answer_to(REQUEST))
    (call,) = traced.named("call")
    below = [span for span in traced.named(f"source {traced.call}") if span.parent == call.id]
    assert [span.trace for span in below] == [call.trace] == [traced.named("source orders")[0].trace]
    assert [span.trace for span in traced.named("process") if span.parent == below[0].id] == [call.trace]


def test_an_answer_to_a_run_that_is_not_traced_is_not_either() -> None:
    traced = Traced(every=1 << 40)
    traced.asks()
    traced.returns()
    traced.enters(answer_to(REQUEST))
    assert traced.spans == []


def test_an_answer_whose_call_nobody_here_has_told_of_begins_a_trace_of_its_own() -> None:
    """So nothing is left without its parent: another worker has asked, and may have died with that span."""
    traced = Traced()
    traced.enters(answer_to(REQUEST), Intent(REQUEST, b""))
    assert {span.parent for span in traced.named(f"source {traced.call}")} == {0}


def test_a_process_says_what_an_item_takes_at_each_vertex_by_what_was_sampled() -> None:
    measured = [Operation(str(vertex)) for vertex in range(len(asking().vertices))]
    measured[0] = Operation("0", recent_in=10, recent_us=25)
    measured[1] = Operation("1", recent_in=0, recent_us=0)
    traced = Traced(measured=measured)
    traced.asks()
    (process,) = traced.named("process")
    assert process.attributes["flamestream.vertex_us"] == ("source orders: 2.5",)
    unmeasured = Traced()
    unmeasured.asks()
    assert "flamestream.vertex_us" not in unmeasured.named("process")[0].attributes
