"""The caller's process: makes the calls of one worker, in one asyncio loop, so that what users' clients do
never holds up the engine.

    worker -> request -> tries, with pauses -> results, or an error -> worker

Too many tries that do not end, a loop that stands still, or no file descriptor that is left end this process;
the worker starts another and asks again.

Keeps: an answer for each request, as long as it lives. Does not: know what was asked before it began, or keep
anything but for a call's cache; make a try (tries.py).
"""

import asyncio
import errno
import faulthandler
import gc
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flamestream.job.application import load
from flamestream.job.exit_codes import ended_by
from flamestream.job.py_files import PyFile
from flamestream.machine import process_shell
from flamestream.model.calls.call import CallFunction, answered, calls_of, change_calls
from flamestream.model.decoding import from_msgpack
from flamestream.model.errors import FlameStreamError
from flamestream.model.failure import failure
from flamestream.model.payloads.codec import decode, encode
from flamestream.node.calls import egress
from flamestream.node.calls.answer_cache import AnswerCache, Reply
from flamestream.node.calls.clients import ClientsOfCall, OpenClients
from flamestream.node.calls.link import Link, one_frame
from flamestream.node.calls.tries import Tries, end_if_failed

if TYPE_CHECKING:
    from flamestream.connectors.clients import ClientSettings

log = logging.getLogger(__name__)

STANDS_STILL: Final = 12.0
"""Seconds without a turn of the loop after which this process ends."""
WITHOUT_DESCRIPTORS: Final = 3
"""Seconds in a row without a file descriptor and without a result after which it ends, too."""
MOST_SAID: Final = 1 << 20
"""Bytes of answers, about, in one frame."""


class CallerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame to a caller's process."""

    application: str
    graph: str
    py_files: tuple[PyFile, ...] = ()
    job: str
    worker: str
    parent: int
    calls: dict[str, dict[str, int | float | str]] = {}
    """Changes of the manifest to their settings."""
    egress: tuple[str, ...] | None = None
    """Hosts and networks that functions may connect to (egress.py); None: any."""
    clients: dict[str, dict[str, Any]] = {}
    """Clients that the manifest names for functions to ask with (connectors/clients.py)."""
    most: int
    """Bytes that the results of one request may have, encoded."""


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A request."""

    id: str
    call: str
    payload: bytes


class Answered(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The answer to a request: results as an encoded tuple, or an encoded error in their place."""

    id: str
    results: bytes = b""
    error: bytes = b""


class Trouble(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The service of a call is down, or, with an empty text, no longer."""

    call: str
    text: str


Said = Answered | Trouble


class AnswerTooLarge(Exception):
    """The results of a call are more than a journal's entry takes."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"{size:,} bytes, and the journal takes {most:,}: give fewer or shorter results, or store what is "
            "large and give its place"
        )


class CallerProcess:
    """Takes requests from a socket, and gives answers to it."""

    def __init__(
        self, calls: dict[str, CallFunction[..., Any]], opened: OpenClients, most: int,
        send: Callable[[bytes], None],
    ) -> None:  # fmt: skip
        self._calls, self._most, self._send = calls, most, send
        self._said: list[Said] = []
        self._said_bytes = 0
        self._closed = False
        self.gave = 0
        """How many requests have got results."""
        self._under_way: set[asyncio.Task[None]] = set()
        """Requests that may have an answer in a cache."""
        self._left: set[asyncio.Task[Any] | Future[Any]] = set()
        """Tries, and threads of tries, that have passed their time and have not ended."""
        at_once = _at_once(calls)
        self._most_left = max(8, at_once)
        # (!) One for each that may run, and for each that may never end: else tries would wait for a thread.
        threads = ThreadPoolExecutor(at_once + self._most_left + 1)
        self._tries = {
            name: Tries(
                call,
                threads,
                self._leave,
                self._tell(name),
                ClientsOfCall(opened, call.settings.timeout / 1e6),
            )
            for name, call in calls.items()
        }
        now = asyncio.get_running_loop().time
        self._caches = {
            name: AnswerCache(call.settings.cache / 1e6, now)
            for name, call in calls.items()
            if call.settings.cache
        }

    def take(self, frame: bytes) -> None:
        """Requests."""
        for request in from_msgpack(frame, list[Asked]):
            if (cache := self._caches.get(request.call)) is not None:
                task = asyncio.create_task(self._serve(request, cache))
                self._under_way.add(task)
                task.add_done_callback(self._over)
                continue
            payload = decode(request.payload)
            self._tries[request.call].ask(payload, request.id, partial(self._tried, request, payload))

    def _tried(self, request: Asked, payload: Any, outcome: Any) -> None:
        self._say(Answered(request.id, *self._reply(request, payload, outcome)))

    def _reply(self, request: Asked, payload: Any, outcome: Any) -> Reply:
        function = self._calls[request.call].function
        results, error = answered(function, payload, outcome)
        if error is None and len(encoded := encode(results)) <= self._most:
            self.gave += 1
            return Reply(encoded)
        if error is None:
            error = failure(function, AnswerTooLarge(len(encoded), self._most), payload)
        return Reply(error=encode(error))

    async def _serve(self, request: Asked, cache: AnswerCache) -> None:
        self._say(Answered(request.id, *await cache.reply(request.payload, partial(self._made, request))))

    async def _made(self, request: Asked) -> Reply:
        payload = decode(request.payload)
        outcome = await self._tries[request.call].outcome(payload, request.id)
        return self._reply(request, payload, outcome)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        end_if_failed(task)

    def _tell(self, call: str) -> Callable[[str], None]:
        return lambda text: self._say(Trouble(call, text))

    def _say(self, said: Said) -> None:
        if not self._said:  # what is said in one turn of the loop is one frame
            asyncio.get_running_loop().call_soon(self._flush)
        self._said.append(said)
        self._said_bytes += len(said.results) if isinstance(said, Answered) else 0
        if self._said_bytes > MOST_SAID:
            self._flush()

    def _flush(self) -> None:
        if not self._said:
            return
        frame = msgspec.msgpack.encode(self._said)
        self._said, self._said_bytes = [], 0
        if not self._closed:
            self._send(frame)

    def close(self) -> None:
        """Say nothing more (!): as the loop ends it cancels every try, which is no answer."""
        self._closed = True

    def _leave(self, task: asyncio.Task[Any] | Future[Any]) -> None:
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        if len(self._left) > self._most_left:
            log.error("calls do not end: this process does", extra={"left": len(self._left)})
            os._exit(1)


async def serve(sock: socket.socket, config: CallerConfig) -> None:
    """Until the worker closes the socket."""
    graph = load(Path(config.application), config.graph, config.py_files)
    change_calls(graph, config.calls)
    calls = calls_of(graph)
    opened = OpenClients(_clients_of(config), _at_once(calls))
    await opened.open(f"flamestream-{config.job}"[:63])
    link = Link(lambda frame: process.take(frame))  # noqa: PLW0108 (it is made below, with `send`)
    process = CallerProcess(calls, opened, config.most, link.send)
    # What was loaded stays: looked through again and again, it would hold up every call under way.
    gc.collect()
    gc.freeze()
    watching = asyncio.create_task(_watched(process))
    try:
        await asyncio.get_running_loop().create_connection(lambda: link, sock=sock)
        await link.ended
        log.info("the worker has ended")
    finally:
        process.close()
        await opened.close()
        watching.cancel()


def _at_once(calls: Mapping[str, CallFunction[..., Any]]) -> int:
    """How many tries may run."""
    return sum(call.settings.concurrency for call in calls.values())


def _clients_of(config: CallerConfig) -> dict[str, tuple[str, "ClientSettings"]]:
    """Kind and settings of the clients, by their names."""
    if not config.clients:
        return {}
    from flamestream.connectors import clients  # it brings every connector, which takes half of a start

    return {
        name: (next(iter(spec)), clients.settings_of(spec, f"spec.clients.{name}"))
        for name, spec in config.clients.items()
    }


async def _watched(process: CallerProcess) -> None:
    """A function that blocks the loop stops every other call, and one that leaks connections fails them all:
    better to end, and ask again."""
    without = 0
    while True:
        faulthandler.dump_traceback_later(STANDS_STILL, exit=True)
        gave = process.gave
        await asyncio.sleep(1)
        # where results still come, that many are only open at once
        without = without + 1 if process.gave == gave and not _descriptor_left() else 0
        if without == WITHOUT_DESCRIPTORS:
            log.error("calls leave no file descriptor: this process ends")
            os._exit(1)


def _descriptor_left() -> bool:
    try:
        os.close(os.dup(sys.stderr.fileno()))
    except OSError as error:
        return error.errno != errno.EMFILE
    return True


def main(fd: int) -> int:
    """`python -m flamestream.node.calls.process FD`"""
    sys.excepthook = process_shell.uncaught
    sock = socket.socket(fileno=fd)
    config = from_msgpack(one_frame(sock), CallerConfig)
    process_shell.begin(config.parent, job=config.job, role="caller", worker=config.worker)
    if config.egress is not None:
        egress.watch(config.egress)
    try:
        asyncio.run(serve(sock, config))
    except FlameStreamError as error:
        return ended_by(error)
    # Threads of calls that never ended are nobody's any more: Python would wait for them.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
