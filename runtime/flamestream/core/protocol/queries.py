"""The messages of queries: states of keys, asked for while the stream runs, all as of one cut.

    gateway -- Ask --> acker -- Look, behind the minimal time that is its cut --> all -- Seen --> gateway
                       acker -- Prove --> a front's worker -- Proved --> acker, before that of a strict one
    gateway -- Gather --> all, who walk through their keys -- Gathered --> gateway, before it asks a scan
    gateway -- Peek --> the one owner of all its keys -- Seen --> gateway

Does not: say who sends what when (worker/queries/).
"""

from typing import Final

import msgspec

from flamestream.model.ids import Slot, WorkerId
from flamestream.model.time import FrontId, Time

MOST_LOOKUPS: Final = 256
"""Keys of one query."""
MOST_SCANNED: Final = 10_000
"""Keys of one scan's answer."""
MOST_KNOWN: Final = 256
"""Bytes of a state that a client waits to be another: it is looked at again and again."""
MOST_BYTES: Final = 4 << 20
"""Bytes of states in an answer from one worker."""


class Matching(msgspec.Struct, frozen=True, array_like=True):
    """The keys that are meant."""

    head: bytes
    """The encoded key begins with it: which table it is of."""
    text: str | None = None
    """A beginning of the text that follows; None: anything may."""


class Lookup(msgspec.Struct, frozen=True, array_like=True):
    """A key whose state is asked for. The key is a canonical encoding."""

    vertex: int
    slot: Slot
    key: bytes


class Scan(msgspec.Struct, frozen=True, array_like=True):
    """Those keys of a vertex that are meant, behind a key, in the order of their encodings."""

    vertex: int
    matching: Matching
    after: bytes
    limit: int
    """The most that are wanted."""


class Gather(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To all: find the keys that query `number` of mine means, a few a pass. Answer: Gathered, then Seen at a Look."""

    number: int
    scan: Scan


class Gathered(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To a gateway: I know all keys of its query `number` but those that come from now on."""

    number: int


class Left(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To all: nobody waits for query `number` of mine any more, which is a scan or waits for another state."""

    number: int


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To the acker: all owners are to answer query `number` of mine, at one time."""

    number: int
    lookups: list[Lookup]
    """Empty: it is a scan, for which all have gathered keys."""
    strict: bool
    """Whether the answer must have all that anybody has seen until now."""


class Prove(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The acker asks the worker of a journalled front for an entry that nobody needs: once it is durable, no newer
    attempt had begun now. Answer: Proved."""

    front: FrontId
    number: int


class Proved(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To the acker: the journal has taken an entry that was begun behind Prove `number`."""

    number: int


class Look(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The acker tells all: answer these, each of its gateway, as of the minimal time that you heard last."""

    asks: list[tuple[WorkerId, Ask]]


class Peek(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To the owner of all keys: answer query `number` of mine as of your minimal time, once all below `at_least` is in
    it."""

    number: int
    at_least: Time
    lookups: list[Lookup]
    unlike: bytes | None = None
    """Not before the state of the one key is another than this, as of `Queried`."""


class Seen(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """To a gateway: the states of the keys of its query `number` that are mine, in their order, as of `time`: what all
    runs below it have made."""

    number: int
    time: Time
    states: list[bytes | None]
    """Encoded; None: the key has none."""
    refused: str = ""
    """The reason why there is no answer."""
    again: bool = False
    """Whether there may be one if it is asked again."""
    keys: list[bytes] = []
    """The keys of the states, ascending, where it is of a scan."""
    upto: bytes = b""
    """The key behind which a scan has left some out; b"": nowhere."""
