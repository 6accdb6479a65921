"""The chain: all decisions of a rolling sink, numbered without gaps, each an object that is created if
absent.

    {"type": "opened", "fence": [3, 1], "writer": "w2"}
    {"type": "part", "log": 2, "first": 1, "last": 40, "file": "part-...", "rows": 81920, ...}
    {"type": "closed", "log": 2}

A process appends only behind what it has read, so every decision is made in the knowledge of all before it.
Every 64 decisions whoever appends leaves a checkpoint of what they come to, with the parts since the one
before; without it others read a little more.

Keeps: the state is a function of the decisions alone. Does not: decide (opening.py, rolling.py), or delete
decisions.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from flamestream.connectors.rolling.segments import decoded, found
from flamestream.fenced.log import Delivered
from flamestream.model.decoding import json_decoder
from flamestream.model.errors import Bug, Corrupt
from flamestream.model.ids import NO_FENCE, Fence, Slot
from flamestream.ports import ObjectStore

CHAIN: Final = "_flamestream/chain/"
CHECKPOINTS: Final = "_flamestream/checkpoints/"
CHECKPOINT_EVERY: Final = 64


class Opened(msgspec.Struct, frozen=True, tag_field="type", tag="opened"):
    """A worker has a log of its own; the log's number is this decision's."""

    fence: Fence
    writer: str


class Part(msgspec.Struct, frozen=True, tag_field="type", tag="part"):
    """Segments `first` to `last` of `log` are in `file`."""

    log: int
    first: int
    last: int
    file: str
    rows: int
    size: int
    least: bytes
    """Meta of its first item; in JSON base64."""
    most: bytes
    newest: list[Delivered]
    """The last bundle of each slot in it."""


class Closed(msgspec.Struct, frozen=True, tag_field="type", tag="closed"):
    """`log` is sealed, all its segments are in parts, and deleted."""

    log: int


Decision = Opened | Part | Closed


class OpenLog(msgspec.Struct):
    """A log that is not closed."""

    fence: Fence
    writer: str
    absorbed: int = 0
    """Segments up to this one are in parts."""


class State(msgspec.Struct):
    """The state that decisions 1 to `index` come to."""

    index: int = 0
    newest: Fence = NO_FENCE
    logs: dict[int, OpenLog] = {}
    last: dict[Slot, Delivered] = {}
    """Last bundles among those in parts."""
    parts: list[Part] = []
    """The parts since the checkpoint `before`."""
    before: int = 0


_decode: Final[Any] = json_decoder(Decision)
_decode_state: Final = json_decoder(State)
_encode: Final = msgspec.json.Encoder().encode


class Chain:
    """The chain as far as this process has read it. All calls block."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.state = State()
        self._loaded = False

    def refresh(self) -> State:
        """Read what is new."""
        if not self._loaded:
            self._load()
        while (data := found(self.store, _name(self.state.index + 1))) is not None:
            self._apply(decoded(_decode, data, _name(self.state.index + 1)))
        return self.state

    def check_end(self) -> None:
        """Raises Corrupt if decisions are there behind a missing one. (A listing of at most a thousand.)"""
        after = self.state.index + 1
        listed = self.store.names(f"{CHAIN}{after // 1000:09}")
        if listed and listed[-1] > _name(after) and found(self.store, _name(after)) is None:
            raise Corrupt(f"{_name(after)} is missing and {listed[-1]} is there; restore it from a backup")

    def append(self, decide: Callable[[State], Decision | None]) -> int:
        """Append what `decide` makes of the newest state; its number. 0 if it decides that there is nothing
        to do."""
        while True:
            # A decision of our own whose answer was lost is read here like anybody else's: what `decide`
            # appends a second time must do no harm (!).
            decision = decide(self.refresh())
            if decision is None:
                return 0
            number = self.state.index + 1
            if self.store.put_new(_name(number), _encode(decision)):
                self._apply(decision)
                self._leave_checkpoint()
                return number

    def parts(self) -> Iterator[Part]:
        """All of them, the newest checkpoint's first."""
        yield from self.state.parts
        before = self.state.before
        while before:
            state = self._checkpoint(before)
            if state is None:
                raise Corrupt(f"{CHECKPOINTS}{before:012}.json is missing; restore it from a backup")
            yield from state.parts
            before = state.before

    # --- reading --------------------------------------------------------------------------------------------

    def _load(self) -> None:
        # A listing that lacks the newest costs some reading and no more: the decisions behind it say the
        # rest.
        for name in reversed(self.store.names(CHECKPOINTS)):
            state = self._checkpoint(int(name.rpartition("/")[2].removesuffix(".json")))
            if state is not None:
                self.state = state
                self._forget_parts()
                break
        self._loaded = True

    def _checkpoint(self, index: int) -> State | None:
        name = f"{CHECKPOINTS}{index:012}.json"
        data = found(self.store, name)
        return None if data is None else decoded(_decode_state, data, name)

    def _leave_checkpoint(self) -> None:
        # One that is there already serves as well.
        if self.state.index % CHECKPOINT_EVERY == 0:
            self.store.put_new(f"{CHECKPOINTS}{self.state.index:012}.json", _encode(self.state))
            self._forget_parts()

    def _forget_parts(self) -> None:
        """Drop the parts that are in the checkpoint at `index`."""
        self.state.parts, self.state.before = [], self.state.index

    def _apply(self, decision: Decision) -> None:
        state = self.state
        state.index += 1
        match decision:
            case Opened(fence=fence, writer=writer):
                if fence < state.newest:
                    raise Corrupt(
                        f"{_name(state.index)}: {fence} was opened behind {state.newest}; was the chain "
                        "changed by hand?"
                    )
                state.newest = fence
                state.logs[state.index] = OpenLog(fence, writer)
            case Part():
                self._apply_part(decision)
            case Closed(log=log):
                state.logs.pop(log, None)

    def _apply_part(self, part: Part) -> None:
        log = self.state.logs.get(part.log)
        if log is None or part.first != log.absorbed + 1:
            raise Bug(f"{_name(self.state.index)}: {part.file} does not follow the parts before it")
        log.absorbed = part.last
        for bundle in part.newest:
            before = self.state.last.get(bundle[0])
            if before is None or before[1] < bundle[1]:
                self.state.last[bundle[0]] = bundle
        self.state.parts.append(part)


def _name(number: int) -> str:
    return f"{CHAIN}{number:012}.json"
