"""Queries: states of keys, for clients who ask while the stream runs.

A client asks any worker, the query's gateway. All states of an answer are as of one time T: what runs below T have
made, and nothing else.

    strict   T is a minimal time that the acker has told behind a proof (looks.py), so T is above everything that
             anybody can have seen when the client asked: results below it have left, and other answers
    else     if one worker has all the keys, T is its own minimal time: one hop, and maybe a little older

A gateway waits until its own minimal time has come to what the client wants to be in the answer (!), so nobody else
waits for long. After a recovery minimal time begins at a cut, below what an earlier answer may have shown; so a strict
query waits until it is above the bound, which is above every run that ever entered a journal.

Keeps: bounded queries at a gateway; an answer is of one attempt, or there is none. Does not: know who asks, or decode
what it gives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.parts import States
from flamestream.core.protocol.actions import Action, Answered, NotAnswered
from flamestream.core.protocol.events import Queried
from flamestream.core.protocol.messages import PeerMessage
from flamestream.core.protocol.queries import MOST_BYTES, Ask, Look, Lookup, Peek, Seen
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model import payload as codec
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START, Time

MOST_OPEN: Final = 1024
"""Queries that a gateway has open."""
Tell = Callable[[WorkerId, PeerMessage], None]


def not_strict(settings: WorkerSettings) -> str:
    """The reason why a job has no strict answers; "": it has them."""
    timed = next((front.source for front in settings.fronts if front.timed), None)
    if timed is not None:
        return f"source {timed!r} is not journalled, so after a failure nobody knows how far an earlier answer had come"
    if not settings.durable or settings.skips:
        return "the job's guarantee lets a failure undo what an earlier answer has shown"
    return ""


class _Open:
    """A query that waits for its answer at its gateway."""

    __slots__ = ("floor", "lookups", "missing", "states", "strict", "time")

    def __init__(self, query: Queried, floor: Time) -> None:
        self.lookups, self.strict, self.floor = list(query.lookups), query.strict, floor
        self.missing: set[WorkerId] = set()
        self.states: list[bytes | None] = [None] * len(self.lookups)
        self.time = START


class Queries:
    """The queries of one worker, as their gateway and as the owner of keys."""

    def __init__(
        self, me: WorkerId, settings: WorkerSettings, states: Mapping[int, States], cuts: LiveCuts, tell: Tell
    ) -> None:
        self._me, self._states, self._cuts, self._tell = me, states, cuts, tell
        self._not_strict = not_strict(settings)
        self._owners: Sequence[WorkerId] = ()
        self._acker, self._certain = me, START
        self._bound: Time | None = None
        """No run at or below it is new; None: not known yet."""
        self._open: dict[int, _Open] = {}
        self._early: dict[int, _Open] = {}
        """Those of them whose floor is above minimal time."""
        self._peeks: list[tuple[WorkerId, Peek]] = []
        self._actions: list[Action] = []

    def take_actions(self) -> list[Action]:
        """Everything that clients are to be told."""
        actions, self._actions = self._actions, []
        return actions

    # --- the gateway ----------------------------------------------------------------------------------------

    def begin(self, layout: Layout, cut: Time) -> None:
        """A new attempt, which replays from `cut`: nobody answers yet."""
        self.end("the job recovers")
        self._owners, self._acker, self._peeks, self._certain = layout.owners, layout.acker, [], cut

    def replays(self, bound: Time) -> None:
        """The attempt runs; no run at or below `bound` is new."""
        self._bound = bound

    def asked(self, query: Queried) -> None:
        """A client asks here."""
        if self._bound is None:
            self.refuse(query.number, "the job recovers")
        elif query.strict and self._not_strict:
            self.refuse(query.number, f"no answer can be strict: {self._not_strict}", again=False)
        elif len(self._open) == MOST_OPEN:
            self.refuse(query.number, f"{MOST_OPEN} queries are open here")
        else:
            # (!) An answer before the failure may have shown everything up to the bound.
            floor = max(query.at_least, Time(self._bound + 1)) if query.strict else query.at_least
            self._open[query.number] = self._early[query.number] = _Open(query, floor)
            self._go_on()

    def left(self, number: int) -> None:
        """The client has gone."""
        self._open.pop(number, None)
        self._early.pop(number, None)

    def end(self, reason: str) -> None:
        """The attempt is over: nobody else answers."""
        self._bound = None
        for number in list(self._open):
            self.refuse(number, reason)

    def advanced(self, certain: Time) -> None:
        """Minimal time has moved on; below `certain` nothing will ever enter."""
        self._certain = certain
        self._go_on()

    def _go_on(self) -> None:
        ready = [number for number, query in self._early.items() if query.floor <= self._cuts.minimal]
        for number in ready:
            self._send(number, self._early.pop(number))
        waiting, self._peeks = self._peeks, []
        for gateway, peek in waiting:
            self.peek(gateway, peek)

    def _send(self, number: int, query: _Open) -> None:
        query.missing = {self._owners[lookup.slot] for lookup in query.lookups}
        if query.strict or len(query.missing) > 1:
            self._tell(self._acker, Ask(number, query.lookups, query.strict))
        else:
            for owner in list(query.missing):
                self._tell(owner, Peek(number, query.floor, query.lookups))

    def seen(self, owner: WorkerId, message: Seen) -> None:
        """An owner answers."""
        query = self._open.get(message.number)
        if query is None:
            return
        if message.too_much:
            most = f"the states are more than {MOST_BYTES >> 20} MiB"
            self.refuse(message.number, f"{most}: ask for fewer keys at once", again=False)
            return
        mine = [place for place, lookup in enumerate(query.lookups) if self._owners[lookup.slot] == owner]
        for place, state in zip(mine, message.states, strict=True):
            query.states[place] = state
        query.time = message.time
        query.missing.discard(owner)
        if not query.missing:
            self.left(message.number)
            self._actions.append(Answered(message.number, query.time, query.states))

    def refuse(self, number: int, reason: str, *, again: bool = True) -> None:
        """Give a client no answer."""
        self.left(number)
        self._actions.append(NotAnswered(number, reason, again))

    # --- the owner ------------------------------------------------------------------------------------------

    def look(self, message: Look) -> None:
        """The acker tells of queries. It stands where minimal time here is (!), or an answer would be torn."""
        for gateway, ask in message.asks:
            if any(self._has(lookup.slot) for lookup in ask.lookups):
                self._answer(gateway, ask.number, ask.lookups)

    def peek(self, gateway: WorkerId, message: Peek) -> None:
        """A gateway asks for keys of this worker alone."""
        if message.floor > self._cuts.minimal:  # the gateway has heard of it before
            self._peeks.append((gateway, message))
        else:
            self._answer(gateway, message.number, message.lookups)

    def _answer(self, gateway: WorkerId, number: int, lookups: Sequence[Lookup]) -> None:
        states: list[bytes | None] = []
        size = 0
        for lookup in lookups:
            if self._has(lookup.slot):
                states.append(state := self._state(lookup))
                size += 0 if state is None else len(state)
                if size > MOST_BYTES:
                    self._tell(gateway, Seen(number, self._certain, [], too_much=True))
                    return
        self._tell(gateway, Seen(number, self._certain, states))

    def _has(self, slot: Slot) -> bool:
        return self._owners[slot] == self._me

    def _state(self, lookup: Lookup) -> bytes | None:
        try:
            return codec.encode(self._states[lookup.vertex].state_at(lookup.key, self._cuts.minimal))
        except KeyError:
            return None
