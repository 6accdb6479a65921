"""A sink that is a hash or a stream of Redis: a delivery's entries and its slots' last bundles in one script,
so in one step.

The script (redis/scripts.py) checks each slot's fence and sequence number, writes the entries and notes each
slot's last bundle; or it changes nothing at all. Opening raises the fences of its slots in the same way. The
server writes a script to its append-only file as one, and answers when that is on the disk (redis/server.py
refuses servers that do not), so what is acknowledged outlives the server.

After a lost connection the slots are opened again. What the lost answer was about is there entirely or not at
all; if it arrives only later, it is a bundle that is there already, or of an older fence.

A large delivery goes in several calls, because Redis serves nobody else during a script; a bundle is never
divided.

All keys of a call are in one hash slot of a cluster: ours carry the hash tag of the user's key (`state_key`).

Keeps: entries and last bundle change together (invariants 2, 3); an older fence changes nothing (6); a sink
that has less than it had acknowledged is an error. Does not: delete entries, or keep what an unsynced replica
loses at a failover.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from flamestream.connectors.kit.ledger import Ledger, refusal
from flamestream.connectors.redis.connector import hash_tag
from flamestream.connectors.redis.entries import EntryMaker
from flamestream.connectors.redis.scripts import DELIVER, OPEN, WRITE, Script
from flamestream.connectors.redis.server import Server
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.model.errors import Bug, Corrupt, Fenced, UserError
from flamestream.model.ids import NO_FENCE, Fence, SequenceNumber, SinkName, Slot

CALL_BYTES: Final = 4 << 20
"""Items of one call, unless a single bundle has more."""
BUNDLE_BYTES: Final = 128 << 20
"""The most bytes of a bundle: Redis takes 512 MiB in an argument, and the items are there twice, ours and as
entries."""

_pack: Final = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class RedisPlace:
    """The key that a sink's entries go to, and how they are kept."""

    form: Literal["hash", "stream"]
    key: str
    max_length: int | None
    """The entries of a stream that stay, about; None: all."""
    history: str | None
    durable: bool
    """False: nothing is kept of slots, and nothing fenced."""


class RedisWriting:
    """`blocking.Blocking`."""

    def __init__(
        self, server: Server, place: RedisPlace, entries: EntryMaker, job: str, sink: SinkName
    ) -> None:
        self._server, self._place, self._entries = server, place, entries
        self._state = state_key(place.key, job, sink)
        self._fence: Fence = NO_FENCE
        self._slots: list[int] = []
        self._ledger = Ledger()

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        self._fence, self._slots = action.fence, sorted(action.slots)
        # Slots are opened over a new connection only, and these must be under this fence.
        self._server.hang_up()
        self._ledger = Ledger()
        self._server.connected(self._opened)
        return self._ledger.last(action.slots)

    def deliver(self, action: Deliver) -> None:
        if action.fence != self._fence:
            raise Fenced(f"delivery {action.number} is of {action.fence}, the connection of {self._fence}")
        self._server.connected(self._opened)
        fresh = self._ledger.check(action.bundles) if self._place.durable else action.bundles
        made = self._made(fresh)
        for part in _calls(made):
            self._write([*part])
            if self._place.durable:
                self._ledger.take(bundle for bundle, _ in part)

    def close(self) -> None:
        self._server.hang_up()

    # --- opening --------------------------------------------------------------------------------------------

    def _opened(self) -> None:
        """Over a new connection: open the slots, and see that nothing is lost."""
        if not self._place.durable:
            return
        told, *rest = self._run(OPEN, [self._state], *self._slots)
        if told == b"fenced":
            raise self._fenced(rest)
        last = {
            Slot(int(slot)): LastBundle(SequenceNumber(int(number)), t_last, items)
            for slot, number, t_last, items in rest[0]
        }
        self._ledger = self._ledger.reopened(last, f"{self._server.where}: {self._state}")

    # --- writing --------------------------------------------------------------------------------------------

    def _made(self, bundles: Sequence[Bundle]) -> list[tuple[Bundle, list[Any]]]:
        """Each bundle with its entries: all are made before the first is sent."""
        for bundle in bundles:
            if len(bundle.items) > BUNDLE_BYTES:
                raise UserError(
                    f"slot {bundle.slot}: bundle {bundle.sequence} has {len(bundle.items)} bytes, and Redis "
                    f"can take {BUNDLE_BYTES} in one "
                    "step: let one run of the graph give less to this sink, or choose a `files`, `rolling` "
                    "or `kafka` sink"
                )
        seen: dict[bytes, Slot] = {}
        return [(bundle, self._entries.entries(bundle, seen)) for bundle in bundles]

    def _write(self, part: list[tuple[Bundle, list[Any]]]) -> None:
        place = self._place
        longest = "" if place.max_length is None else place.max_length
        keys = [self._state, place.key]
        if place.history is not None:
            history = history_key(place.key, place.history)
            keys += [history, *(f"{history}:{bundle.slot}" for bundle, _ in part)]
        packed = packed_bundles(part)
        told, *rest = self._run(DELIVER if place.durable else WRITE, keys, place.form, longest, packed)
        if told == b"taken":
            return
        raise self._refused(
            told.decode(), [value.decode() if isinstance(value, bytes) else value for value in rest]
        )

    def _refused(self, told: str, rest: list[Any]) -> Exception:
        where, state = self._server.where, self._state
        match told, rest:
            case "fenced", _:
                return self._fenced(rest)
            case "lost", [slot]:
                return Corrupt(
                    f"{where}: {state} has lost slot {slot}, which was open under {self._fence}; it belongs "
                    "to FlameStream alone"
                )
            case "order", [slot, sequence, had]:
                told = refusal(Bundle(Slot(int(slot)), SequenceNumber(int(sequence)), b"", b""), int(had))
                return Corrupt(
                    f"{where}: {told}, so {state} was changed by somebody else; "
                    "it belongs to FlameStream alone"
                )
            case "type", [key, holds]:
                return UserError(
                    f"{where}: {key} holds a {holds}; this sink needs a key of its own (`form: "
                    f"{self._place.form}`)"
                )
            case "history", [slot, length]:
                return UserError(
                    f"{where}: history {self._place.history} has {length} bundles of slot {slot}, and not "
                    "what was delivered: `history` can only be set from a job's beginning, for one sink"
                )
        return Bug(f"{where}: a script answered {told} {rest}")

    def _fenced(self, newer: Sequence[Any]) -> Fenced:
        attempt, layout = map(int, newer)
        return Fenced(
            f"{self._server.where}: attempt {attempt} (layout {layout}) has taken over from {self._fence}"
        )

    def _run(self, script: Script, keys: list[str], *arguments: object) -> Any:
        return self._server.script(
            script.source, script.digest, keys, self._fence.attempt, self._fence.layout, *arguments
        )


def packed_bundles(part: Sequence[tuple[Bundle, list[Any]]]) -> bytes:
    """Bundles with their entries as msgpack. All bytes are strings there: the msgpack of Redis's Lua has no
    binaries."""

    def strings(value: Any) -> Any:
        if type(value) is bytes:
            return msgspec.Raw(b"\xdb" + len(value).to_bytes(4, "big") + value)
        return [strings(inner) for inner in value] if type(value) is list else value

    return _pack([strings([*bundle, entries]) for bundle, entries in part])


def state_key(key: str, job: str, sink: str) -> str:
    """The key of the hash in which a sink keeps its slots: in the hash slot of the cluster in which `key` is.

    >>> state_key("postings", "index", "out"), state_key("{shop}:postings", "index", "out")
    ('flamestream:{postings}:index/out', 'flamestream:{shop}:index/out')
    """
    return f"{_ours(key)}:{job}/{sink}"


def history_key(key: str, history: str) -> str:
    """The set of slots that have one; behind `:SLOT` is a list of all bundles of a slot, the first one
    first."""
    return f"{_ours(key)}:{history}"


def _ours(key: str) -> str:
    return f"flamestream:{{{hash_tag(key)}}}"


def _calls(made: Sequence[tuple[Bundle, list[Any]]]) -> Iterator[list[tuple[Bundle, list[Any]]]]:
    """Bundles with their entries, in parts of about CALL_BYTES."""
    part: list[tuple[Bundle, list[Any]]] = []
    size = 0
    for bundle, entries in made:
        if part and size + len(bundle.items) > CALL_BYTES:
            yield part
            part, size = [], 0
        part.append((bundle, entries))
        size += len(bundle.items)
    if part:
        yield part
