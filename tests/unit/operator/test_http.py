"""The operator's own port: silent connections hide nothing, and one job's figures hide no other's."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import REGISTRY

from flamestream.job.status import JobStatus
from flamestream_operator import http, metrics
from flamestream_operator.http import Health
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.kube.readers import Readers
from support.operator.accounts import Accounts
from support.operator.operator_world import World
from support.ports import free_port

Play = Callable[[int], Awaitable[None]]


def served(play: Play, observe: Callable[[], None] = lambda: None) -> None:
    """Play with the port that it is at."""

    async def run() -> None:
        port = free_port()
        runner = await Health(lambda: "", lambda: "", Readers(Accounts()), observe).serve(port)
        try:
            await play(port)
        finally:
            await runner.cleanup()

    asyncio.run(run())


async def ask(port: int, path: str, method: str = "GET", token: str = "") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    login = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{login}Connection: close\r\n\r\n".encode())
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


def test_silent_connections_do_not_keep_a_probe_out(monkeypatch: Any) -> None:
    """None of them ends by itself meanwhile."""
    monkeypatch.setattr(http, "HEAD_SECONDS", 600.0)

    async def play(port: int) -> None:
        silent = []
        for _ in range(200):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /hea")
            silent.append((reader, writer))
        assert (await ask(port, "/healthz")).startswith(b"HTTP/1.1 200")
        first, _ = silent[0]
        assert await asyncio.wait_for(first.read(), 30) == b"", "the oldest has given way"
        async with asyncio.timeout(30):
            while (
                sum(not reader.at_eof() and reader.exception() is None for reader, _ in silent)
                > http.MOST_CONNECTIONS
            ):
                await asyncio.sleep(0.01)
        last, _ = silent[-1]
        assert not last.at_eof() and last.exception() is None
        for _, writer in silent:
            writer.close()

    served(play)


def test_a_connection_that_says_nothing_ends_in_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.2)

    async def play(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHos")
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()

    served(play)


def test_other_methods_and_paths_are_answered() -> None:
    async def play(port: int) -> None:
        assert (await ask(port, "/healthz", "HEAD")).startswith(b"HTTP/1.1 200")
        assert (await ask(port, "/healthz", "PUT")).startswith(b"HTTP/1.1 405")
        assert (await ask(port, "/jobs/a/b")).startswith(b"HTTP/1.1 404")
        assert b" 400 " in (await ask(port, "/healthz", "BREW"))[:13]
        assert b" 4" in (await ask(port, "x:1", "CONNECT"))[:10]

    served(play)


def test_figures_are_for_who_may_read_them_and_probes_for_anybody() -> None:
    async def play(port: int) -> None:
        assert (await ask(port, "/healthz")).startswith(b"HTTP/1.1 200")
        assert (await ask(port, "/readyz")).startswith(b"HTTP/1.1 200")
        assert (await ask(port, "/metrics", token="prometheus")).startswith(b"HTTP/1.1 200")
        for method in ("GET", "HEAD"):
            stranger = await ask(port, "/metrics", method)
            assert stranger.startswith(b"HTTP/1.1 401") and b"WWW-Authenticate: Bearer" in stranger
            assert b"flamestream_" not in stranger
            assert (await ask(port, "/metrics", method, "somebody")).startswith(b"HTTP/1.1 403")
            assert (await ask(port, "/metrics", method, "made-up")).startswith(b"HTTP/1.1 401")

    served(play)


def test_one_job_s_figures_do_not_hide_those_of_others() -> None:
    operator = World().operators[0]
    for name in ("bad", "good"):
        memory = operator.jobs._memories["n", name] = Memory("uid")
        memory.hosted_run = 0

    def status(job: str) -> JobStatus:
        if job == "n.bad":
            raise IndexError("list index out of range")
        return JobStatus(job=job, pid=1, updated=0, phase="running", attempt=7)

    operator.hosting.status = status  # type: ignore[method-assign]
    labels = {"kind": "figures"}
    before = REGISTRY.get_sample_value("flamestream_operator_reconcile_errors_total", labels) or 0

    async def play(port: int) -> None:
        answer = await ask(port, "/metrics", token="prometheus")
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'flamestream_job_attempt{job="n.good"} 7.0' in answer
        assert b'job="n.bad"' not in answer

    served(play, operator.jobs.observe)
    assert REGISTRY.get_sample_value("flamestream_operator_reconcile_errors_total", labels) == before + 1
    metrics.forget("n.good")
