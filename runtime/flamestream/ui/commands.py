"""Commands of `flamestream` that answer for a view, each in a process of its own: the page shows what they print.

An audit runs the functions of the job's author, and may take minutes and memory; none of it is done in the server.

Keeps: at most MOST at once, each bounded in time and in what it prints; they end with the server. Does not: know what
an answer means.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from flamestream.model.decoding import DecodeError, from_json
from flamestream.ui.source import Ran

MOST: Final = 2
SECONDS: Final = 1800.0
MOST_BYTES: Final = 32 << 20
MOST_WAITING: Final = 16


class Commands:
    """The commands of one server."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MOST)
        self._tasks: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._last: dict[tuple[str, ...], Ran] = {}

    @property
    def busy(self) -> bool:
        """Whether no more may wait."""
        return len(self._tasks) >= MOST_WAITING

    def ran(self, name: tuple[str, ...]) -> Ran:
        """The last command that was started under a name, or its answer."""
        return self._last.get(name, Ran())

    def start(self, name: tuple[str, ...], arguments: Sequence[str], *, nice: int = 0) -> Ran:
        """Start one under a name that has none under way. `nice`: how far below others it stands for a processor."""
        began = now()
        self._last[name] = Ran(state="running", began=began)
        self._tasks[name] = asyncio.create_task(self._to_the_end(name, began, arguments, nice))
        return self._last[name]

    async def answer(self, arguments: Sequence[str]) -> Ran:
        """The answer of one that somebody waits for."""
        began = now()
        async with self._room:
            code, answer = await _run(arguments, nice=0)
        return Ran(state="done", began=began, ended=now(), code=code, answer=answer)

    async def close(self) -> None:
        """End all."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _to_the_end(
        self, name: tuple[str, ...], began: int, arguments: Sequence[str], nice: int
    ) -> None:
        try:
            async with self._room:
                code, answer = await _run(arguments, nice=nice)
            self._last[name] = Ran(state="done", began=began, ended=now(), code=code, answer=answer)
        finally:
            del self._tasks[name]


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


async def _run(arguments: Sequence[str], *, nice: int) -> tuple[int, Any]:
    """Exit code and answer of `flamestream ...`, of which --json is a part."""
    command = ["nice", "-n", str(nice), sys.executable, "-m", "flamestream.cli.main", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env=os.environ,
    )  # fmt: skip
    assert process.stdout is not None, "it is a pipe"
    try:
        async with asyncio.timeout(SECONDS):
            said = await _read(process.stdout)
            code = await process.wait()
    except TimeoutError:
        return 5, _error("retryable", f"{' '.join(arguments)} took more than {SECONDS:.0f} s and was ended")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    try:
        return code, from_json(said)
    except DecodeError:
        return code, _error("bug", f"{' '.join(arguments)} printed no answer (exit code {code})")


async def _read(stream: asyncio.StreamReader) -> bytes:
    parts, size = [], 0
    while part := await stream.read(1 << 16):
        size += len(part)
        if size <= MOST_BYTES:
            parts.append(part)
    return b"".join(parts)


def _error(category: str, message: str) -> dict[str, dict[str, str]]:
    return {"error": {"category": category, "message": message}}
