"""Productions: the calls of a worker of which some are productions. Those are made here, in the worker, one
after the other, as functions are called where they need no journal. All else is for the caller's process.

Keeps: an answer for each request, in the order of requests. Does not: try again, or bound the time of a
function: the worker's watchdog does.
"""

from collections.abc import Mapping
from typing import Any

from flamestream.core.protocol.actions import MakeCall
from flamestream.core.protocol.events import CallReturned
from flamestream.model.calls.call import CallFunction, answered
from flamestream.model.failure import failure
from flamestream.model.payloads.codec import decode, encode
from flamestream.node.calls.caller import Caller
from flamestream.node.calls.process import AnswerTooLarge
from flamestream.ports import Post, Reactor


class Productions:
    """`ports.Caller`. `most`: bytes that the results of one input may have, encoded; `others`: makes the
    calls that are no productions."""

    def __init__(
        self, productions: Mapping[str, CallFunction[..., Any]], most: int, reactor: Reactor, post: Post,
        others: Caller | None,
    ) -> None:  # fmt: skip
        self._productions, self._most, self._reactor, self._post = productions, most, reactor, post
        self._others = others
        self._waiting: list[MakeCall] = []

    @property
    def problem(self) -> str:
        """Why calls are not made as they should be; empty if they are."""
        return "" if self._others is None else self._others.problem

    def make(self, action: MakeCall) -> None:
        """Ask, or make behind what else this pass has to do."""
        if action.call not in self._productions:
            assert self._others is not None, "a graph with calls that are no productions has a caller"
            self._others.make(action)
            return
        if not self._waiting:
            self._reactor.soon(self._produce)
        self._waiting.append(action)

    def close(self) -> None:
        """Ask nothing more, and hear nothing."""
        if self._others is not None:
            self._others.close()

    def _produce(self) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self._post(self._made(self._productions[action.call], action))

    def _made(self, call: CallFunction[..., Any], action: MakeCall) -> CallReturned:
        item = decode(action.payload)
        results, error = answered(call.function, item, call(item))
        if (size := len(encode(results))) > self._most:
            results, error = (), failure(call.function, AnswerTooLarge(size, self._most), item)
        return CallReturned(action.fence, action.call, action.request, results, error)
