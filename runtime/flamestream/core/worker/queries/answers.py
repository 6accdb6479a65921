"""Answers: the states that a worker has of the keys that others ask for (gateway.py).

Keeps: an answer is of minimal time here, in one piece. Does not: decide when to look: the acker does, or a gateway
that has heard of the time before.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.parts import States
from flamestream.core.protocol.messages import PeerMessage
from flamestream.core.protocol.queries import (
    MOST_BYTES,
    MOST_KNOWN,
    Gather,
    Gathered,
    Left,
    Look,
    Lookup,
    Peek,
    Seen,
)
from flamestream.core.worker.queries.scans import Scans
from flamestream.model.ids import WorkerId
from flamestream.model.time import START, Time

AT_ONCE: Final = 4
"""States that are compared, of those that somebody waits for, when minimal time moves on: each in its turn (!), so that
any number of clients that wait cost a pass no more."""
READ_AT_ONCE: Final = 64
"""States that are read in one call."""


class Answers:
    """The answers of one worker."""

    def __init__(
        self, me: WorkerId, states: Mapping[int, States], cuts: LiveCuts,
        tell: Callable[[WorkerId, PeerMessage], None],
    ) -> None:  # fmt: skip
        self._me, self._states, self._cuts, self._tell = me, states, cuts, tell
        self._owners: Sequence[WorkerId] = ()
        self.certain = START
        """Below it nothing will ever enter; it is minimal time, but for what fronts have only promised."""
        self._peeks: list[tuple[WorkerId, Peek]] = []
        self._waiting: deque[tuple[WorkerId, Peek]] = deque()
        """Those that wait for another state."""
        self._scans = Scans(states)

    def begin(self, owners: Sequence[WorkerId], cut: Time) -> None:
        """A new attempt, which replays from `cut`."""
        self._owners, self.certain = owners, cut

    def end(self) -> None:
        """The attempt is over."""
        self._peeks = []
        self._waiting.clear()
        self._scans.end_all()

    def advanced(self, certain: Time) -> None:
        """Minimal time has moved on."""
        self.certain = certain
        waiting, self._peeks = self._peeks, []
        for gateway, peek in waiting:
            self._peek(gateway, peek)
        for _ in range(min(len(self._waiting), AT_ONCE)):
            self._peek(*self._waiting.popleft())

    def take(self, gateway: WorkerId, message: Peek | Gather | Left) -> None:
        """A gateway asks for something."""
        match message:
            case Peek():
                self._peek(gateway, message)
            case Gather():
                if not self._scans.begin((gateway, message.number), message.scan):
                    busy = "there are too many scans"
                    self._tell(gateway, Seen(message.number, self.certain, [], busy, again=True))
            case Left():
                self._scans.end((gateway, message.number))
                gone = [
                    (of, peek) for of, peek in self._waiting if (of, peek.number) == (gateway, message.number)
                ]
                for each in gone:
                    self._waiting.remove(each)

    def go_on(self) -> bool:
        """Find some keys of scans. Whether there are more to look for."""
        if (through := self._scans.go_on()) is not None:
            gateway, number = through
            self._tell(gateway, Gathered(number))
        return self._scans.walking or through is not None

    def look(self, message: Look) -> None:
        """Answer these, all at minimal time."""
        mine = [(gateway, ask, self._mine(ask.lookups)) for gateway, ask in message.asks]
        states = self._read([lookup for _, _, lookups in mine for lookup in lookups])
        for gateway, ask, lookups in mine:
            if lookups:
                self._answer(gateway, ask.number, islice(states, len(lookups)))
            elif not ask.lookups:
                seen = self._scans.answer((gateway, ask.number), self.certain, self._cuts.minimal)
                if seen is not None:
                    self._tell(gateway, seen)

    def _peek(self, gateway: WorkerId, message: Peek) -> None:
        if message.at_least > self.certain:  # the gateway has heard of it before
            self._peeks.append((gateway, message))
        elif message.unlike is not None and self._is_known(message.lookups[0], message.unlike):
            self._waiting.append((gateway, message))
        else:
            self._answer(gateway, message.number, self._read(self._mine(message.lookups)))

    def _answer(self, gateway: WorkerId, number: int, states: Iterable[bytes | None]) -> None:
        found: list[bytes | None] = []
        size = 0
        for state in states:  # to the end, for those of the next question stand behind them
            size += 0 if state is None else len(state)
            if size <= MOST_BYTES:
                found.append(state)
        if size > MOST_BYTES:
            much = f"the states are more than {MOST_BYTES >> 20} MiB: ask for fewer keys at once"
            self._tell(gateway, Seen(number, self.certain, [], much))
        else:
            self._tell(gateway, Seen(number, self.certain, found))

    def _is_known(self, lookup: Lookup, known: bytes) -> bool:
        """Whether the state is just that. One that is too long to be compared again and again never is."""
        if len(known) > MOST_KNOWN:
            return False
        return (next(self._read([lookup])) or b"") == known

    def _read(self, lookups: Sequence[Lookup]) -> Iterator[bytes | None]:
        """The states of keys that are here, in their order; those of a vertex are read some at once."""
        for start in range(0, len(lookups), READ_AT_ONCE):
            some, keys = lookups[start : start + READ_AT_ONCE], dict[int, list[bytes]]()
            for lookup in some:
                keys.setdefault(lookup.vertex, []).append(lookup.key)
            found = {
                vertex: iter(self._states[vertex].states_at(its, self._cuts.minimal))
                for vertex, its in keys.items()
            }
            yield from (next(found[lookup.vertex]) for lookup in some)

    def _mine(self, lookups: Sequence[Lookup]) -> list[Lookup]:
        return [lookup for lookup in lookups if self._owners[lookup.slot] == self._me]
