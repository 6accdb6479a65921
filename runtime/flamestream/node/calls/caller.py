"""The caller of one worker: asks a process of its own for each call, and tells the worker what it gave.

That process may die: then another is started, and what was under way is asked again, unless its call is made
once at most. A request during which it dies again and again is answered with an error, so one that kills its
caller does not stop the others for ever.

Keeps: one answer a request; a request that is under way already is not asked a second time, whatever fence
asks. Does not: know what a function does (process.py).
"""

import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from flamestream.core.protocol.actions import MakeCall
from flamestream.core.protocol.events import CallReturned
from flamestream.model.backoff import Backoff
from flamestream.model.calls.call import CallFunction, InDoubt
from flamestream.model.decoding import from_msgpack
from flamestream.model.failure import failure
from flamestream.model.payloads.codec import decode
from flamestream.net.framing import FrameConnection
from flamestream.node.calls.process import MOST_SAID, Answered, Asked, CallerConfig, Said
from flamestream.ports import Post, Reactor, Timer

log = logging.getLogger(__name__)

AGAIN: Final = Backoff(0.1, 5.0)
"""Seconds between two processes."""
MOST_DEATHS: Final = 3
"""Processes that end during one request: the first may be another's fault, and the second that of one that
came meanwhile; so the last one is asked for nothing else,"""
ALONE: Final = 10.0
"""for so many seconds from its start."""
_MALLOC: Final = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(16 << 20)}
"""For glibc in its process. asyncio reads into a new buffer of 256 KB: taken from the system and given back
each time, it makes a read of a client's seven times as dear (17 us, and 2.4 so)."""
MAX_FRAME: Final = 64 << 20
MOST_OUT: Final = 64 << 20
"""Bytes of requests that are sent to the process and not answered; one more may go above it."""


class CallerEnded(Exception):
    """The process that makes a worker's calls ended whenever this one was under way."""


@dataclass(slots=True)
class _UnderWay:
    action: MakeCall
    deaths: int = 0
    """Processes that ended meanwhile."""


class Caller:
    """`ports.Caller`."""

    def __init__(
        self, config: CallerConfig, calls: Mapping[str, CallFunction[..., Any]], reactor: Reactor,
        post: Post,
    ) -> None:  # fmt: skip
        self._config, self._calls, self._reactor, self._post = config, calls, reactor, post
        self._under_way: dict[str, _UnderWay] = {}
        self._asking: deque[Asked] = deque()
        """Not sent yet."""
        self._out = 0
        """Bytes of what is sent and not answered."""
        self._suspects: deque[str] = deque()
        """Ids of requests that are asked one after the other, the first of which is asked now."""
        self._alone = ""
        """The one of these that is asked while nothing else is sent; empty if there is none."""
        self._others: Timer | None = None
        """When others are sent all the same: it may take long."""
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: FrameConnection | None = None
        self._again: Timer | None = None
        self._failures = 0
        """Processes in a row that ended before they had answered anything."""
        self._ends = ""
        self._down: dict[str, str] = {}
        """Why services are down, by the call that asks them."""
        self._start()

    @property
    def problem(self) -> str:
        """Why calls are not made as they should be; empty if they are."""
        down = [
            f"the service of call {call} is down ({text}): requests wait" for call, text in self._down.items()
        ]
        return "; ".join([self._ends, *down] if self._ends else down)

    def make(self, action: MakeCall) -> None:
        """Ask, once."""
        known = self._under_way.get(action.id)
        if known is not None:  # of an older attempt of this worker: the same request, by its id
            known.action = action
            return
        self._under_way[action.id] = _UnderWay(action)
        self._ask(action)

    def close(self) -> None:
        """Ask nothing more, and hear nothing."""
        for timer in filter(None, (self._again, self._others)):
            timer.cancel()
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "flamestream.node.calls.process", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**_MALLOC, **os.environ},
            )
        self._connection = FrameConnection(self._reactor, ours, MAX_FRAME, self._frames, self._ended)
        self._connection.send(
            msgspec.msgpack.encode(msgspec.structs.replace(self._config, parent=os.getpid()))
        )
        # (!) Those during which a process ended are asked one by one: else one that ends it takes all others
        # with it again. The most suspicious come first, while nothing else is asked.
        suspects = (request for request, each in self._under_way.items() if each.deaths)
        self._suspects = deque(sorted(suspects, key=lambda each: -self._under_way[each].deaths))
        self._next_suspect()
        for under_way in self._under_way.values():
            if not under_way.deaths:
                self._ask(under_way.action)

    def _next_suspect(self) -> None:
        while self._suspects and self._suspects[0] not in self._under_way:
            self._suspects.popleft()
        if not self._suspects:
            self._set_alone("")
            return
        suspect = self._under_way[self._suspects[0]]
        # (!) Its next process would be its last: that must be its own fault.
        self._set_alone(suspect.action.id if suspect.deaths == MOST_DEATHS - 1 else "")
        self._ask(suspect.action, first=True)

    def _set_alone(self, request: str) -> None:
        """Send nothing beside this one for a while; "": anything."""
        if self._others is not None:
            self._others.cancel()
        self._alone = request
        self._others = self._reactor.later(ALONE, self._release) if request else None

    def _release(self) -> None:
        """Send other requests again: the suspect has been alone for long enough."""
        self._set_alone("")
        self._flush()

    def _ask(self, action: MakeCall, *, first: bool = False) -> None:
        if self._connection is None:
            return  # the next process is asked for all that is under way
        if not self._asking:  # all of a pass are one frame, if they are not many bytes
            self._reactor.soon(self._flush)
        asked = Asked(action.id, action.call, action.payload)
        (self._asking.appendleft if first else self._asking.append)(asked)

    def _flush(self) -> None:
        """(!) No more than the process can be expected to take, whatever it is doing."""
        while self._connection is not None and self._asking and self._out < MOST_OUT:
            frame, size = list[Asked](), 0
            while self._asking and size < MOST_SAID and self._alone in ("", self._asking[0].id):
                frame.append(asked := self._asking.popleft())
                size += len(asked.payload)
            if not frame:
                return  # they wait for the one that is asked alone
            self._out += size
            self._connection.send(msgspec.msgpack.encode(frame))

    def _frames(self, frames: list[bytes]) -> None:
        for said in (each for frame in frames for each in from_msgpack(frame, list[Said])):
            if isinstance(said, Answered):
                self._answered(said)
            elif said.text:
                self._down[said.call] = said.text
            else:
                self._down.pop(said.call, None)

    def _answered(self, answer: Answered) -> None:
        if (under_way := self._under_way.pop(answer.id, None)) is None:
            return
        self._failures, self._ends = 0, ""
        action = under_way.action
        self._out -= len(action.payload)
        if self._asking:
            self._reactor.soon(self._flush)
        results = decode(answer.results) if answer.results else ()
        error = decode(answer.error) if answer.error else None
        self._post(CallReturned(action.fence, action.call, action.request, results, error))
        if self._suspects and self._suspects[0] == answer.id:
            self._next_suspect()

    def _ended(self, reason: str) -> None:
        """The process is gone: what was under way is asked again, or given up."""
        assert self._process is not None, "it had a connection"
        self._process.kill()
        code, self._connection, self._out = self._process.wait(), None, 0
        # what was not asked had no part in it
        not_asked = {asked.id for asked in self._asking} | set(list(self._suspects)[1:])
        self._asking.clear()
        self._failures += 1
        self._ends = f"the process that makes calls ended ({_how(code)}), {self._failures} times in a row"
        self._down.clear()  # the next one finds out anew
        log.warning("caller ended", extra={"code": code, "reason": reason, "calls": len(self._under_way)})
        for request, under_way in list(self._under_way.items()):
            if request not in not_asked:
                self._survived(request, under_way, code)
        self._again = self._reactor.later(AGAIN.after(self._failures), self._start)

    def _survived(self, request: str, under_way: _UnderWay, code: int) -> None:
        """Whether a request may be asked again; else it is answered."""
        under_way.deaths += 1
        function, action = self._calls[under_way.action.call], under_way.action
        error: Exception | None = None
        if function.settings.doubt == "never":
            error = InDoubt("its caller ended: whether it took effect is not known")
        elif under_way.deaths >= MOST_DEATHS:
            error = CallerEnded(f"{under_way.deaths} callers ended ({_how(code)}) while it was under way")
        if error is not None:
            del self._under_way[request]
            made = failure(function.function, error, decode(action.payload))
            self._post(CallReturned(action.fence, action.call, action.request, (), made))


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
