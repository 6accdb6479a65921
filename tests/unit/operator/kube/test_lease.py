"""Losing the Lease: the process begins anew, in its place, with nothing of what it was. Taking one that ran
out: just then."""

import asyncio
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from flamestream_operator.kube import lease
from flamestream_operator.objects.meta import Object
from support.operator.fake_kubernetes import FakeKubernetes
from support.operator.operator_world import World

LIVES = """
import os, socket, threading, time
from flamestream_operator.kube.lease import end_process

life = int(os.environ.get("LIFE", "0"))
port = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "0"))))
print(life, os.getpid(), threading.active_count(), flush=True)
if life < 2:
    os.environ |= {"LIFE": str(life + 1), "PORT": str(port.getsockname()[1])}
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    end_process("the Lease ran out")
"""


def test_who_loses_the_lease_begins_anew_without_its_threads_and_sockets() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", LIVES], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    lives = [line.split() for line in done.stdout.splitlines()]
    assert [life for life, _, _ in lives] == ["0", "1", "2"], done.stderr
    assert len({pid for _, pid, _ in lives}) == 1, "the same container process"
    assert {threads for _, _, threads in lives} == {"1"}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only those who wait move."""
    now = [100.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(lease, "asyncio", SimpleNamespace(sleep=sleep, timeout=asyncio.timeout))
    return now


def contenders(api: FakeKubernetes, seconds: float) -> list[lease.Leadership]:
    gone: list[str] = []
    return [lease.Leadership(api, "default", "lease", name, seconds, gone.append) for name in ("one", "two")]


def test_a_lease_that_runs_out_is_taken_then_and_not_at_the_next_look(now: list[float]) -> None:
    async def play() -> None:
        one, two = contenders(World().kubernetes, 4.0)
        await one.acquire()
        now[0] += 0.3
        await two.acquire()
        assert 104.3 < now[0] < 104.4, "four seconds after it was first seen, to a moment"

    asyncio.run(play())


def test_a_lease_is_not_taken_before_the_fraction_of_a_second_for_which_it_is_held(now: list[float]) -> None:
    async def play() -> None:
        one, two = contenders(World().kubernetes, 4.4)
        await one.acquire()
        await two.acquire()
        assert not one.valid

    asyncio.run(play())


def test_a_renewal_that_a_slow_answer_tells_of_counts_from_the_answer(now: list[float]) -> None:
    async def play() -> None:
        api = World().kubernetes
        one, two = contenders(api, 4.0)
        await one.acquire()
        get = api.get

        async def slow(kind: str, namespace: str, name: str) -> Object | None:
            api.get = get  # type: ignore[method-assign]
            now[0] += 2.0
            await one._renew()
            return await get(kind, namespace, name)

        api.get = slow  # type: ignore[method-assign]
        await two.acquire()
        assert not one.valid

    asyncio.run(play())
