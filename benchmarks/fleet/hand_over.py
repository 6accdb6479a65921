"""A leader goes, and another one has its jobs: killed without a word, or asked to end as in a rolling update.

From the signal until each job is coordinated again: the new leader's own word stands in the job's record. A record
with another attempt would be a recovery, in which a stream stands still; as long as there is none, workers go on with
what they have and need nobody.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx2
from harness.cost import Cost
from harness.results import percentile

from flamestream.core.protocol.job_record import JobRecord
from fleet.places import Leader, Places
from fleet.records import Records, Watched, is_another_attempt

WITHIN: Final = 60.0
IDLE: Final = 0.15
"""Processors that the one that waits uses at most once it has seen what there is: on a cluster it has been there for
days."""


def _is_led_anew(before: JobRecord, now: JobRecord) -> bool:
    return now.writer != before.writer


def _is_saved_anew(before: JobRecord, now: JobRecord) -> bool:
    return _is_led_anew(before, now) and now.committed > before.committed


class HandOver:
    """Of one shard's jobs."""

    def __init__(
        self, places: Places, jobs: list[str], led: Callable[[], Awaitable[list[str]]],
        moved: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`jobs` by their identity. `led`: the address of each shard's leader; `moved` is told of the new one's."""
        self._places, self._jobs, self._led, self._moved = places, jobs, led, moved

    async def by(
        self, number: signal.Signals, leader: Leader, *, saved: bool
    ) -> tuple[dict[str, Any], Leader]:
        """Send this signal to the leader: what was seen, and its successor. `saved`: wait for an epoch of each job as
        well."""
        spare = self._places.operator()
        await _is_ready(spare)
        await _is_idle(spare)
        records = Records(self._places)
        try:
            watched = [records.watched(job) for job in self._jobs]
            found = [each.until(_is_led_anew) for each in watched]
            commits = [each.until(_is_saved_anew) for each in watched] if saved else []
            cost = Cost([spare.process.pid])
            cpu = cost.cpu()
            began = time.monotonic()
            leader.process.send_signal(number)
            led = await self._until_led(spare)
            again = await _all(found, watched, began)
            cpu = cost.cpu() - cpu
            saved_s = await _all(commits, watched, began)
        finally:
            await asyncio.to_thread(records.close)
        seen = {
            "signal": number.name, "jobs": len(again), "led_s": round(led - began, 2), "again_s": _spread(again),
            "saved_s": _spread(saved_s), "cpu_s": round(cpu, 2),
            "recovered": sum(map(_has_recovered, watched)),
        }  # fmt: skip
        return seen, spare

    async def _until_led(self, spare: Leader) -> float:
        address, until = f"127.0.0.1:{spare.port}", time.monotonic() + WITHIN
        while address not in await self._led():
            assert time.monotonic() < until, "nobody has taken the Lease"
            await asyncio.sleep(0.02)
        self._moved(address)
        return time.monotonic()


async def _all(found: list[asyncio.Future[float]], watched: list[Watched], began: float) -> list[float]:
    """Seconds since then."""
    if found:
        await asyncio.wait(found, timeout=WITHIN)
    late = [str(record) for record, each in zip(watched, found, strict=False) if not each.done()]
    assert not late, f"not within {WITHIN:g} s: {late}"
    return [each.result() - began for each in found]


def _has_recovered(record: Watched) -> bool:
    return is_another_attempt(record.before, record.now)


def _spread(seconds: list[float]) -> dict[str, float]:
    return {f"p{q}": round(percentile(seconds, q), 2) for q in (0, 50, 99, 100)} if seconds else {}


async def _is_idle(spare: Leader) -> None:
    cost, until = Cost([spare.process.pid]), time.monotonic() + WITHIN
    while True:
        before = cost.cpu()
        await asyncio.sleep(1)
        if cost.cpu() - before < IDLE:
            return
        assert time.monotonic() < until, "a process of the operator's that waits is busy"


async def _is_ready(spare: Leader) -> None:
    until = time.monotonic() + WITHIN
    async with httpx2.AsyncClient(trust_env=False) as client:
        while True:
            try:
                if (await client.get(f"http://127.0.0.1:{spare.probes}/readyz")).is_success:
                    return
            except httpx2.TransportError:
                pass  # it does not listen yet
            assert time.monotonic() < until, "a process of the operator's is not ready"
            await asyncio.sleep(0.1)
