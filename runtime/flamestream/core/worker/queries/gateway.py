"""Queries: states of keys, for clients who ask while the stream runs.

A client asks any worker, the query's gateway. All states of an answer are as of one time T: what runs below T have
made, and nothing else.

    strict   T is a minimal time that the acker has told behind a proof (looks.py), so T is above everything that
             anybody can have seen when the client asked: results below it have left, and other answers
    else     if one worker has all the keys, T is its own minimal time: one hop, and maybe a little older

A gateway waits until it knows that what the client wants will be in the answer, so nobody else waits for long. After a
recovery minimal time begins at a cut, below what an earlier answer may have shown; so a strict query waits until it is
above the bound, which is above every run that ever entered a journal.

Keeps: bounded queries at a gateway; an answer is of one attempt, or there is none. Does not: know who asks, decode
what it gives, or read a state (answers.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.parts import States
from flamestream.core.protocol.actions import Action, Answered, NotAnswered, Wake
from flamestream.core.protocol.events import Queried
from flamestream.core.protocol.messages import PeerMessage
from flamestream.core.protocol.queries import Ask, Gather, Gathered, Left, Look, Peek, Seen
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.worker.queries.answers import Answers
from flamestream.model.ids import WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import Time

MOST_OPEN: Final = 1024
"""Queries that a gateway has open."""
Tell = Callable[[WorkerId, PeerMessage], None]
FromPeer = Peek | Gather | Gathered | Left | Seen


def not_strict(settings: WorkerSettings) -> str:
    """The reason why a job has no strict answers; "": it has them."""
    timed = next((front.source for front in settings.fronts if front.timed), None)
    if timed is not None:
        after = "so after a failure nobody knows how far an earlier answer had come"
        return f"source {timed!r} is not journalled, {after}"
    if not settings.durable or settings.skips:
        return "the job's guarantee lets a failure undo what an earlier answer has shown"
    return ""


class _Open:
    """A query that waits for its answer at its gateway."""

    __slots__ = ("gathering", "missing", "query", "seen")

    def __init__(self, query: Queried) -> None:
        self.query = query
        self.missing: set[WorkerId] = set()
        """Workers that have not said yet what they are to say."""
        self.gathering = query.scan is not None
        """They are to say that they know the keys."""
        self.seen: dict[WorkerId, Seen] = {}


class Queries:
    """The queries of one worker, as their gateway."""

    def __init__(
        self, me: WorkerId, settings: WorkerSettings, states: Mapping[int, States], cuts: LiveCuts, tell: Tell
    ) -> None:
        self._cuts, self._tell = cuts, tell
        self.answers = Answers(me, states, cuts, tell)
        self._not_strict = not_strict(settings)
        self._owners: Sequence[WorkerId] = ()
        self._acker = me
        self._bound: Time | None = None
        """No run at or below it is new; None: not known yet."""
        self._open: dict[int, _Open] = {}
        self._early: dict[int, _Open] = {}
        """Those of them that have to wait."""
        self._actions: list[Action] = []

    def take_actions(self) -> list[Action]:
        """Words for clients, and a wake-up if there is more to do."""
        if self.answers.go_on():
            self._actions.append(Wake())
        actions, self._actions = self._actions, []
        return actions

    # --- the attempt ----------------------------------------------------------------------------------------

    def begin(self, layout: Layout, cut: Time) -> None:
        """A new attempt, which replays from `cut`: nobody answers yet."""
        self.end("the job recovers")
        self._owners, self._acker = layout.owners, layout.acker
        self.answers.begin(layout.owners, cut)

    def replays(self, bound: Time) -> None:
        """The attempt runs; no run at or below `bound` is new."""
        self._bound = bound

    def end(self, reason: str) -> None:
        """The attempt is over: nobody else answers."""
        self._bound = None
        # (!) nobody is told: others would hear it in an attempt that they have not begun
        self._actions += [NotAnswered(number, reason, again=True) for number in self._open]
        self._open, self._early = {}, {}
        self.answers.end()

    def advanced(self, certain: Time) -> None:
        """Minimal time has moved on; below `certain` nothing will ever enter."""
        self.answers.advanced(certain)  # first: this worker may be asked at once
        for number in [number for number, open_ in self._early.items() if self._is_due(open_.query)]:
            self._send(number, self._early.pop(number))

    # --- clients --------------------------------------------------------------------------------------------

    def asked(self, query: Queried) -> None:
        """A client asks here."""
        if self._bound is None:
            self._refuse(query.number, "the job recovers")
        elif query.strict and self._not_strict:
            self._refuse(query.number, f"no answer can be strict: {self._not_strict}", again=False)
        elif len(self._open) == MOST_OPEN:
            self._refuse(query.number, f"{MOST_OPEN} queries are open here")
        else:
            open_ = self._open[query.number] = _Open(query)
            if self._is_due(query):
                self._send(query.number, open_)
            else:
                self._early[query.number] = open_

    def left(self, number: int) -> None:
        """The client has gone."""
        self._early.pop(number, None)
        query = self._open.pop(number, None)
        if query is not None and query.missing and _stays(query.query):
            for owner in sorted(set(self._owners)):
                self._tell(owner, Left(number))

    def _refuse(self, number: int, reason: str, *, again: bool = True) -> None:
        self.left(number)
        self._actions.append(NotAnswered(number, reason, again))

    # --- the way of a query ---------------------------------------------------------------------------------

    def _is_due(self, query: Queried) -> bool:
        # (!) What is certain, not minimal time: that fronts may have promised in an attempt that is over.
        if query.at_least > self.answers.certain:
            return False
        # (!) An answer before the failure may have shown everything up to the bound.
        return not query.strict or (self._bound is not None and self._cuts.minimal > self._bound)

    def _send(self, number: int, open_: _Open) -> None:
        query = open_.query
        if query.scan is not None:
            open_.missing = set(self._owners)
            for owner in sorted(open_.missing):
                self._tell(owner, Gather(number, query.scan))
            return
        open_.missing = {self._owners[lookup.slot] for lookup in query.lookups}
        if query.strict or len(open_.missing) > 1:
            self._tell(self._acker, Ask(number, list(query.lookups), query.strict))
        else:
            for owner in sorted(open_.missing):
                self._tell(owner, Peek(number, query.at_least, list(query.lookups), query.unlike))

    def take(self, peer: WorkerId, message: FromPeer) -> None:
        """A word of another worker, or of this one's own."""
        match message:
            case Gathered():
                self._gathered(peer, message.number)
            case Seen():
                self._seen(peer, message)
            case _:
                self.answers.take(peer, message)

    def look(self, message: Look) -> None:
        """The acker tells of queries. It stands where minimal time here is (!), or an answer would be torn."""
        self.answers.look(message)

    def _gathered(self, owner: WorkerId, number: int) -> None:
        open_ = self._open.get(number)
        if open_ is None or not open_.gathering:
            return
        open_.missing.discard(owner)
        if not open_.missing:
            open_.missing, open_.gathering = set(self._owners), False
            self._tell(self._acker, Ask(number, [], open_.query.strict))

    def _seen(self, owner: WorkerId, message: Seen) -> None:
        open_ = self._open.get(message.number)
        if open_ is None:
            return
        if message.refused:
            self._refuse(message.number, message.refused, again=message.again)
            return
        open_.seen[owner] = message
        open_.missing.discard(owner)
        if not open_.missing:
            self.left(message.number)
            self._actions.append(self._whole(open_))

    def _whole(self, open_: _Open) -> Answered:
        """The answer, of what all have said."""
        query, seen = open_.query, open_.seen
        time = next(iter(seen.values())).time
        if query.scan is not None:
            return _merged(query.number, time, query.scan.limit, list(seen.values()))
        if len(seen) == 1:
            return Answered(query.number, time, next(iter(seen.values())).states)
        states = {owner: iter(each.states) for owner, each in seen.items()}
        in_order = [next(states[self._owners[lookup.slot]]) for lookup in query.lookups]
        return Answered(query.number, time, in_order)


def _stays(query: Queried) -> bool:
    """Whether owners keep it until it is answered."""
    return query.scan is not None or query.unlike is not None


def _merged(number: int, time: Time, limit: int, seen: list[Seen]) -> Answered:
    """A page of all rows that there are, up to the least key behind which somebody has left some out."""
    upto = min((each.upto for each in seen if each.upto), default=b"")
    rows = sorted(row for each in seen for row in zip(each.keys, each.states, strict=True))
    some = [row for row in rows if not upto or row[0] <= upto][:limit]
    if some and len(some) < len(rows):
        upto = some[-1][0] if len(some) == limit else upto
    return Answered(number, time, [state for _, state in some], [key for key, _ in some], upto)
