"""Requests: those of one call on one worker in one attempt, from their release to their answer's commit.

    released, or held by the snapshot -> waiting -> (intent -> durable) -> asked -> answered
       -> entered at a time -> forgotten when minimal time passes that

What is answered is what the sealed journal says (!), and nothing else: an answer that came and was not
journalled never was. So a recovery takes requests from the snapshot and from the replay, answers from the
journal, and asks for the rest again, each with the id it had. With `doubt="never"` an intent is journalled
before a request is made; one that has an intent and no answer is in doubt, and that is its answer.

Keeps: a request is made only when it is final; the first answer counts; a snapshot holds every request below
its cut whose answer is not below it, and whether it has an intent. Does not: call, or append (calls.py).
Source: design-next, section 4 and its rules 1 to 9.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flamestream.core.dataflow.barrier import Result
from flamestream.core.dataflow.delivery import NOT_AGAIN, difference
from flamestream.core.protocol.chain import Chain, Row
from flamestream.model.calls.call import Answer, CallFunction, InDoubt, Intent, hash_of
from flamestream.model.errors import Corrupt
from flamestream.model.failure import failure
from flamestream.model.ids import Epoch, SinkName, Slot, SourceName
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.time import END, FrontId, Time
from flamestream.model.vertex import Vertex

INTENDED: Final = b"\x01"
NOT_INTENDED: Final = b"\x00"
"""In front of a request's payload in a snapshot: whether its intent is below the cut."""


@dataclass(slots=True)
class Request:
    """A final item that asks for an answer."""

    meta: Meta
    slot: Slot
    front: FrontId
    """Where its answer enters."""
    payload: bytes
    """Encoded."""
    key: bytes = b""
    """Canonical, where answers keep the order of a key."""
    intended: Time | None = None
    """The time of its intent."""
    returned: Answer | None = None
    """Its answer, which has not entered yet."""
    answered: Time | None = None
    """The time at which its answer entered."""

    def answer(self, results: Sequence[object] = (), error: ErrorValue | None = None) -> Answer:
        """An answer to it."""
        return Answer(self.meta, hash_of(self.payload), tuple(results), error)


class Requests:
    """The requests of one call; `vertex` is the sink that they go to."""

    def __init__(
        self, vertex: Vertex, fronts: Sequence[FrontId], cut: Time, *, wait_for_commit: bool
    ) -> None:
        """`fronts` share the slots. `wait_for_commit`: a request leaves with its epoch, as all output of the
        job does."""
        assert vertex.call is not None, "requests are of a call"
        self.vertex, self.call = vertex, SourceName(vertex.name)
        self._function: CallFunction[..., Any] = vertex.call
        self._settings = vertex.call.settings
        self._fronts, self._cut = fronts, cut
        self._final_below = cut if wait_for_commit else END
        """Requests below it may be made."""
        self._requests: dict[bytes, Request] = {}
        self._waiting: deque[Request] = deque()
        """Not made yet, ascending."""
        self._asked: dict[bytes, Request] = {}
        self._returned = 0
        """How many of these have an answer, which waits for its turn."""
        self._intending: dict[FrontId, deque[Request]] = {front: deque() for front in fronts}
        """Requests whose intent has entered, and is not durable yet."""
        self._open: deque[Request] = deque()
        """Without an answer that has entered, ascending; those at the front may have one by now."""
        self.unanswered = 0
        """Requests without an answer that has entered."""
        self._by_key: dict[bytes, deque[Request]] = {}
        self._done: deque[Request] = deque()
        """Those whose answer has entered, in the order of that."""
        self._answers: dict[bytes, Answer] = {}
        """Answers in the journal to requests that the replay has not made yet."""
        self._times: dict[bytes, Time] = {}
        self._intents: dict[bytes, Time] = {}

    # --- what was before this attempt -----------------------------------------------------------------------

    def sealed(self, time: Time, entered: Answer | Intent) -> None:
        """The journal has this above the cut."""
        if isinstance(entered, Intent):
            self._intents.setdefault(entered.request, time)
        elif entered.request not in self._answers:  # of several tries the first counts (!)
            self._answers[entered.request], self._times[entered.request] = entered, time

    def held(self, chains: Iterable[Chain]) -> None:
        """The requests that the snapshot holds. The journal was sealed before."""
        for chain in sorted(chains, key=lambda chain: chain.key):
            state = chain.states[-1]
            request = self._request(Meta(chain.key), chain.slot, state[1:])
            if state[:1] == INTENDED:
                self._intents.setdefault(chain.key, self._cut)
            self._take(request)

    # --- requests -------------------------------------------------------------------------------------------

    def put(self, released: Iterable[Result]) -> None:
        """Final items, ascending. Raises UserError if a replay asks something else."""
        for meta, slot, payload in released:
            self._take(self._request(meta, slot, encode(payload)))

    def _request(self, meta: Meta, slot: Slot, payload: bytes) -> Request:
        return Request(meta, slot, self.front_of(slot), payload)

    def front_of(self, slot: Slot) -> FrontId:
        """The front of a slot's answers."""
        return self._fronts[slot % len(self._fronts)]

    def _take(self, request: Request) -> None:
        self._requests[request.meta] = request
        request.intended = self._intents.get(request.meta)
        if (answer := self._answers.pop(request.meta, None)) is not None:
            if answer.hash != hash_of(request.payload):
                raise difference(SinkName(self.call), request.slot, request.meta, ASKED_ELSE)
            request.answered = self._times.pop(request.meta)
            self._done.append(request)
            return
        self.unanswered += 1
        self._open.append(request)
        if self._settings.order == "key":
            request.key = self._key_of(request)
            self._by_key.setdefault(request.key, deque()).append(request)
        self._waiting.append(request)

    def _key_of(self, request: Request) -> bytes:
        assert self.vertex.key is not None, 'order="key" has a key'
        return encode(self.vertex.key(decode(request.payload)))

    def passed(self, minimal: Time) -> None:
        """Every request below `minimal` was put. Raises UserError if one was answered and is not asked
        again."""
        for meta in [meta for meta in self._answers if time_of_meta(Meta(meta)) < minimal]:
            if time_of_meta(Meta(meta)) < self._cut:
                raise Corrupt(
                    f"the snapshot lacks a request of call {self.call} (meta {meta.hex()}) whose answer is "
                    "in the journal. Restore both to one moment; or begin anew (`flamestream reset`)"
                )
            raise difference(SinkName(self.call), Slot(0), Meta(meta), NOT_AGAIN)
        while self._done and self._done[0].answered is not None and self._done[0].answered < minimal:
            # No cut is at or below its answer any more, so no snapshot has to hold it.
            self._requests.pop(self._done.popleft().meta, None)

    # --- what to do -----------------------------------------------------------------------------------------

    def next_ones(self) -> Iterator[Request]:
        """Requests that may be made now, each once."""
        while self._waiting and self._has_room:
            if time_of_meta(self._waiting[0].meta) >= self._final_below:
                return
            request = self._waiting.popleft()
            self._asked[request.meta] = request
            yield request

    @property
    def _has_room(self) -> bool:
        """(!) An answer that waits for its turn takes no place of those that run: else one request that stays
        without an answer stops every key, as soon as so many of its own key stand behind it."""
        asked, at_once = len(self._asked), self._settings.most_asked
        return asked - self._returned < at_once and asked < max(self._settings.pending, at_once)

    @property
    def journals_intents(self) -> bool:
        """A request is made behind its intent."""
        return self._settings.doubt == "never"

    def in_doubt(self, request: Request) -> Answer:
        """The answer to a request that may have been made before."""
        error = InDoubt("it was under way when its worker failed: whether it took effect is not known")
        return request.answer(error=failure(self._function.function, error, decode(request.payload)))

    def durable(self, front: FrontId, time: Time) -> Iterator[Request]:
        """Requests that may be made, since their intents at `front` up to `time` are journalled: each
        once."""
        intending = self._intending[front]
        while intending and (at := intending[0].intended) is not None and at <= time:
            yield intending.popleft()

    def under_way(self, meta: bytes) -> Request | None:
        """A request that is being made; None if an answer has come."""
        found = self._asked.get(meta)
        return None if found is None or found.returned is not None else found

    def returned(self, found: Request, answer: Answer) -> list[Answer]:
        """The answer to a request that is under way has come: what may enter now."""
        found.returned = answer
        if self._settings.order != "key":
            del self._asked[found.meta]
            return [answer]
        self._returned += 1
        queue, ready = self._by_key[found.key], list[Answer]()
        # (!) In the order of the key's requests: a later one's answer waits for the earlier ones'.
        while queue and queue[0].returned is not None:
            first = queue.popleft()
            self._returned -= 1
            del self._asked[first.meta]
            assert first.returned is not None, "it was asked for above"
            ready.append(first.returned)
        if not queue:
            del self._by_key[found.key]
        return ready

    # --- what entered ---------------------------------------------------------------------------------------

    def entered(self, time: Time, what: Answer | Intent) -> None:
        """An answer or an intent has entered at `time`, now or in a replay."""
        request = self._requests.get(what.request)
        if isinstance(what, Intent):
            if request is not None and request.intended is None:
                request.intended = time
                self._intending[request.front].append(request)
        elif request is not None and request.answered is None:
            request.answered = time
            self.unanswered -= 1
            self._done.append(request)

    # --- epochs and credit ----------------------------------------------------------------------------------

    def rows(self, epoch: Epoch, cut: Time) -> list[Row]:
        """Rows that the snapshot at `cut`, which minimal time has come to, has to hold (!)."""
        return [
            Row(
                self.vertex.id,
                request.slot,
                bytes(request.meta),
                epoch,
                True,
                # an intent at or above the cut is in the journal, which a recovery reads from there on
                (INTENDED if request.intended is not None and request.intended < cut else NOT_INTENDED)
                + request.payload,
            )
            for request in self._requests.values()
            if request.answered is None or request.answered >= cut
        ]

    def commit(self, cut: Time) -> None:
        """An epoch is committed at `cut`."""
        if self._final_below != END:
            self._final_below = cut

    @property
    def settled(self) -> Time:
        """Credit for what is at or above it stays taken: END while there is room for requests."""
        while self._open and self._open[0].answered is not None:
            self._open.popleft()
        full = self.unanswered > self._settings.pending
        return time_of_meta(self._open[0].meta) if full else END

    @property
    def idle(self) -> bool:
        """No request waits for an answer that has entered."""
        return not self.unanswered and not self._answers

    @property
    def asked(self) -> int:
        """Requests that are being made, or whose answer waits for its turn."""
        return len(self._asked)


ASKED_ELSE: Final = "asked something else when it was answered"
