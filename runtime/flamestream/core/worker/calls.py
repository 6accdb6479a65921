"""Calls: the calls of one worker in one attempt: their requests, and what they ask of the shell.

    minimal time -> barrier -> requests -> MakeCall      CallReturned -> the call's front, as a record
                    intents -> the call's front -> durable -> MakeCall

A request goes to the worker that has the call's front for its slot, so request and answer are on one worker.
A front of answers takes no credit (!): what is asked was let in already. Above `pending` nothing more is
settled instead, so sources wait.

Keeps: nothing is made before the journal is sealed and every worker is ready. Does not: know how a call is
made (node/calls/caller.py).
"""

from collections.abc import Callable, Iterable, Sequence

from flamestream.core.dataflow.parts import Parts
from flamestream.core.protocol.actions import Action, MakeCall
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.events import CallReturned, Entry
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.worker.requests import Request, Requests
from flamestream.model import payload as codec
from flamestream.model.calls.call import Answer, Intent, hash_of, ids_of
from flamestream.model.calls.loops import Round, Rounds
from flamestream.model.event_time import Marker
from flamestream.model.graph import Graph
from flamestream.model.ids import Epoch, Fence, Slot, SourceName, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.payloads.older import renewed
from flamestream.model.time import END, FrontId, Time

Enter = Callable[[FrontId, Sequence[object], bool], None]
"""Answers or intents are to enter at a call's front; as one run, whatever their bytes?"""


class Calls:
    """All calls of one worker. `actions` gathers what must be done; `enter` takes what enters."""

    def __init__(
        self, graph: Graph, settings: WorkerSettings, fence: Fence, layout: Layout, me: WorkerId, cut: Time,
        parts: Parts, enter: Enter,
    ) -> None:  # fmt: skip
        self.actions: list[Action] = []
        self._fence, self._me, self._enter = fence, me, enter
        self._ids = {
            SourceName(name): ids_of(settings.job, sink.stored_as) for name, sink in graph.calls.items()
        }
        self._rounds = Rounds(graph, {front.front: front.source for front in settings.fronts})
        self._running = False
        self._entering: dict[FrontId, list[Answer | Intent]] = {}
        """Answers and intents since the last pass, by the front at which they are to enter."""
        self._calls: dict[SourceName, Requests] = {}
        self._of_front: dict[FrontId, Requests] = {}
        for name, sink in graph.calls.items():
            fronts = [front.front for front in settings.fronts if front.source == name]
            requests = Requests(sink, fronts, cut, wait_for_commit=settings.two_phase)
            self._calls[SourceName(name)] = requests
            self._of_front.update(dict.fromkeys(fronts, requests))
            self._entering.update((front, []) for front in fronts)
        self._by_vertex = {requests.vertex.id: requests for requests in self._calls.values()}
        self.barriers = {number: parts.barrier() for number in self._by_vertex}
        """Barriers of requests, by the vertex of the requests' sink."""
        self.doors = {
            number: tuple(_owner(layout, requests.front_of(Slot(slot)), me) for slot in range(settings.slots))
            for number, requests in self._by_vertex.items()
        }
        """Who has each slot, by the vertex of the requests' sink."""

    # --- recovery -------------------------------------------------------------------------------------------

    def sealed(self, front: FrontId, entries: Iterable[Entry]) -> None:
        """The entries of a front that count, above the cut."""
        if (requests := self._of_front.get(front)) is not None:
            for entry in entries:
                for entered in codec.decode_many(entry.payloads) if entry.count else ():
                    if not isinstance(entered, Round):
                        requests.sealed(entry.time, entered)

    def resume(self, requests: Sequence[Chain]) -> None:
        """Every journal is sealed; `requests` are all that the snapshot holds."""
        for number, its in self._by_vertex.items():
            doors = self.doors[number]
            its.held(
                chain for chain in requests if chain.operation == number and doors[chain.slot] == self._me
            )

    def start(self) -> None:
        """Every worker is ready: calls may be made."""
        self._running = True

    def drain(self) -> None:
        """Make no more calls; answers to those that are being made still enter."""
        self._running = False

    # --- requests and answers -------------------------------------------------------------------------------

    def release(self, minimal: Time) -> None:
        """Release requests and results below minimal time, which are final. Raises UserError if a replay asks
        something else."""
        for number, barrier in self.barriers.items():
            self._by_vertex[number].put(barrier.release(minimal))
            self._by_vertex[number].passed(minimal)

    def go_on(self) -> None:
        """Make what may be made."""
        if not self._running:
            return
        for requests in self._calls.values():
            for request in requests.next_ones():
                if (error := self._rounds.too_often(requests.call, request.meta)) is not None:
                    self._answer(requests, request, request.answer(error=error))
                elif not requests.journals_intents:
                    self._make(requests, request)
                elif request.intended is None:
                    self._entering[request.front].append(Intent(request.meta, hash_of(request.payload)))
                else:
                    self._answer(requests, request, requests.in_doubt(request))

    def _make(self, requests: Requests, request: Request) -> None:
        self.actions.append(
            MakeCall(
                self._fence,
                requests.call,
                request.meta,
                # as it is now; its hash, by which a journalled answer knows it, stays that of what was stored (!)
                renewed(request.payload),
                self._ids[requests.call](request.meta),
            )
        )

    def returned(self, event: CallReturned) -> None:
        """Take the outcome of a call as the answer to its request."""
        requests = self._calls[event.call]
        if (request := requests.under_way(event.request)) is not None:
            self._answer(requests, request, request.answer(event.results, event.error))

    def _answer(self, requests: Requests, request: Request, answer: Answer) -> None:
        self._entering[request.front] += requests.returned(request, answer)

    @property
    def waits_for_a_pass(self) -> bool:
        """Whether something enters in the next pass."""
        return any(self._entering.values())

    def enter(self) -> None:
        """Let enter what has come since the last time."""
        for front, entering in self._entering.items():
            if entering:
                self._entering[front] = []
                # (!) Whole, however many bytes it has: its place counts the answers behind it.
                whole = self._rounds.counts(front)
                for run in self._rounds.runs(front, entering):
                    self._enter(front, run, whole)

    def entered(self, source: SourceName, time: Time, payloads: Sequence[object]) -> None:
        """A run has entered, now or in a replay."""
        if (requests := self._calls.get(source)) is not None:
            for payload in payloads:
                if isinstance(payload, Marker | Round):
                    continue
                assert isinstance(payload, Answer | Intent), f"front of {source} got {payload!r}"
                requests.entered(time, payload)

    def durable(self, front: FrontId, time: Time) -> None:
        """The journal of a front has every entry up to `time`."""
        if (requests := self._of_front.get(front)) is not None:
            for request in requests.durable(front, time):
                self._make(requests, request)

    # --- epochs, credit, end --------------------------------------------------------------------------------

    def rows(self, epoch: Epoch, cut: Time) -> list[Row]:
        """Rows of requests that the snapshot at `cut` has to hold."""
        return [row for requests in self._calls.values() for row in requests.rows(epoch, cut)]

    def commit(self, cut: Time) -> None:
        """An epoch is committed at `cut`."""
        for requests in self._calls.values():
            requests.commit(cut)

    @property
    def settled(self) -> Time:
        """Sources get no credit back for what is at or above it."""
        return min((requests.settled for requests in self._calls.values()), default=END)

    @property
    def idle(self) -> bool:
        """No request of this worker waits for an answer that has entered."""
        return all(requests.idle for requests in self._calls.values())

    @property
    def waiting(self) -> dict[SourceName, int]:
        """Requests without an answer that has entered, by call."""
        return {name: requests.unanswered for name, requests in self._calls.items()}

    @property
    def asked(self) -> int:
        """Requests that are being made."""
        return sum(requests.asked for requests in self._calls.values())


def _owner(layout: Layout, front: FrontId, me: WorkerId) -> WorkerId:
    """Before the first attempt nobody has a front."""
    return layout.fronts[front] if layout.fronts else me
