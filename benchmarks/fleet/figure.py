"""A fleet of jobs under one operator, or several: how fast they come to run, and what they cost it then.

    python benchmarks fleet --jobs 1000            # the whole, in a quiet window: some ten minutes
    python benchmarks fleet --jobs 100 --seconds 30    # a short look
    python benchmarks fleet --jobs 1000 --shards 3     # divided among three leaders
    python benchmarks fleet --table                # what is there so far

The operator is its real process, one a shard, on a real API server, ZooKeeper (with TLS) and S3. Kubelets and workers
are simulated (kubelets.py, workers.py): each job has four workers, over real control links, of which three take part.
Everything shares one machine, so the operator's own CPU time stands beside what the clock says.

| figure | is |
|---|---|
| accepted | from the first job's creation until all have the phase Running: jobs a minute; the operator's CPU a job |
| resident | the memory of the largest of the operator's processes when all run, and at the end |
| epochs | committed in all jobs while nothing else happens, counted by the workers, and cores of the operator beside |
| requests | to the API server in that time, by its audit log: a job and an hour |
| decision | ten workers die at once, one each of ten jobs, again and again: until the new attempts are in ZooKeeper |
| hand-over | a leader is killed, then its successor asked to end: until each of its jobs is coordinated again |
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx2
from harness import PATHS
from harness.cost import Cost
from harness.drive import where
from harness.job import noise
from harness.report import CACHE
from harness.results import percentile
from harness.rows import parser_of, tell
from harness.tables.fleet import fleet_table
from lightkube import AsyncClient, KubeConfig
from lightkube.types import on_error_retry

from flamestream_operator.kube.api import _kinds as kinds
from flamestream_operator.shards import name_of, shard_of
from fleet.hand_over import HandOver
from fleet.kubelets import Kubelets
from fleet.places import SERVICE, Leader, Places
from fleet.records import Records, is_another_attempt

OUT: Final = CACHE / "fleet.jsonl"
DYING: Final = 10
"""Workers that die at the same moment."""
PATIENT: Final = httpx2.Timeout(60)
"""Of the kubelets and of who creates the jobs: where the API server is what is slow they do not give up."""
AT_ONCE: Final = 8
"""Jobs that are created at the same time."""
PAUSE: Final = 2.0
"""Seconds until the next ten."""


class FalseWorkers:
    """The process of workers.py."""

    def __init__(self) -> None:
        self.leaders: list[str] = []
        """Their addresses, by shard."""
        self.committed = 0
        self.ready: list[str] = []
        self.jobs: dict[str, str] = {}
        """By address."""

    async def start(self) -> None:
        """It listens to what it is told."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([*PATHS, *sys.path])}
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fleet.workers", env=environment, limit=1 << 22,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._hearing = asyncio.create_task(self._hear())

    def begin(self, job: str, name: str, address: str, token: str) -> None:
        """A worker dials."""
        self.jobs[address] = job
        shard = str(shard_of(job, len(self.leaders)))
        self._say(do="begin", job=job, name=name, address=address, token=token, shard=shard)

    def lead(self, leaders: list[str]) -> None:
        """Leaders have these addresses."""
        self.leaders = leaders
        for shard, address in enumerate(leaders):
            self._say(do="lead", shard=str(shard), address=address)

    def die(self, address: str) -> None:
        """A worker is gone."""
        self._say(do="die", address=address)

    async def end(self) -> None:
        """All at once."""
        self._hearing.cancel()
        self.process.kill()
        await self.process.communicate()

    def _say(self, **line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")

    async def _hear(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            said = json.loads(line)
            self.committed, self.ready = said["committed"], said["ready"]


class Requests:
    """The API server's audit log of the operator's account, read on from where it was."""

    def __init__(self, file: Path) -> None:
        self._file, self._at = file, 0

    def since(self) -> Counter[str]:
        """Requests since the last call, by verb and kind; a watch that goes on is none."""
        with self._file.open("rb") as log:
            log.seek(self._at)
            data = log.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        events = (json.loads(line) for line in whole.splitlines())
        return Counter(
            " ".join(
                filter(
                    None,
                    (
                        event["verb"],
                        about.get("resource", "other"),
                        about.get("subresource"),
                    ),
                )
            )
            for event in events
            if (about := event.get("objectRef") or {}) is not None and event["stage"] != "ResponseStarted"
        )


class Fleet:
    """One run: its figures, one after the other."""

    def __init__(self, places: Places, options: Any) -> None:
        self._places, self._options = places, options
        self._running: dict[str, float] = {}
        """When each job was first seen to run."""
        self._created: dict[str, float] = {}

    async def measure(self) -> dict[str, Any]:
        """All figures."""
        places, jobs = self._places, self._options.jobs
        client: Any = AsyncClient(
            config=KubeConfig.from_file(str(places.api_server.kubeconfig)), timeout=PATIENT,
            namespace=places.namespace, trust_env=False,
        )  # fmt: skip
        for thing in places.things():
            await client.create(kinds()[thing["kind"]](thing))
        workers = FalseWorkers()
        await workers.start()
        operators = [places.operator() for _ in range(self._options.shards)]
        cost = Cost([each.process.pid for each in operators])
        requests = Requests(places.api_server.audit_log)
        kubelets = Kubelets(client, places.namespace, workers.begin)
        try:
            async with asyncio.TaskGroup() as tasks:
                beside = [tasks.create_task(each) for each in (kubelets.run(), self._watch(client))]
                workers.lead(await self._led(client))
                row = await self._accepted(client, cost, requests)
                # one that was left out of an attempt is not told, and says that it takes part
                await _until(lambda: len(workers.ready) >= 3 * jobs, "all workers take part", 120)
                await asyncio.sleep(self._options.settle)
                row |= await self._quiet(cost, requests, workers)
                row |= await self._dying(workers)
                row["resident_mb"].append(round(cost.resident(), 1))
                if self._options.hand_overs:
                    row["hand_overs"] = await self._handed_over(client, workers, operators)
                for task in beside:
                    task.cancel()
            return row
        except BaseException:
            sys.stderr.write(places.said())
            raise
        finally:
            await workers.end()
            await client.close()

    async def _led(self, client: Any) -> list[str]:
        """The address of each shard's leader, once it has said it."""
        names, deadline = (
            [name_of(SERVICE, shard) for shard in range(self._options.shards)],
            time.monotonic() + 60,
        )
        while True:
            slices = [each async for each in client.list(kinds()["EndpointSlice"], namespace="default")]
            ports = {each["metadata"]["name"]: each["ports"][0]["port"] for each in map(dict, slices)}
            if set(names) <= set(ports):
                return [f"127.0.0.1:{ports[name]}" for name in names]
            assert time.monotonic() < deadline, "not within 60 s: each shard is led"
            await asyncio.sleep(0.05)

    async def _watch(self, client: AsyncClient) -> None:
        watched: Any = client.watch(
            kinds()["FlameStreamJob"], namespace=self._places.namespace, on_error=on_error_retry
        )
        async for _, job in watched:
            if (job.get("status") or {}).get("phase") == "Running":
                self._running.setdefault(job.metadata.name, time.monotonic())

    async def _accepted(self, client: Any, cost: Cost, requests: Requests) -> dict[str, Any]:
        jobs = [self._places.job(number, self._options.interval) for number in range(self._options.jobs)]
        requests.since()
        cpu, main, began = cost.cpu(), cost.main(), time.monotonic()

        async def create(some: list[Any]) -> None:
            for job in some:
                self._created[job["metadata"]["name"]] = time.monotonic()
                await client.create(kinds()["FlameStreamJob"](job))

        await asyncio.gather(*(create(jobs[first::AT_ONCE]) for first in range(AT_ONCE)))
        await _until(lambda: len(self._running) == len(jobs), "all jobs run", self._options.deadline)
        seconds, cpu, main = max(self._running.values()) - began, cost.cpu() - cpu, cost.main() - main
        took = [self._running[name] - self._created[name] for name in self._created]
        asked = requests.since()
        return {
            "jobs": len(jobs),
            "shards": self._options.shards,
            "jobs_a_minute": round(len(jobs) / seconds * 60, 1),
            "cpu_ms_a_job": round(cpu / len(jobs) * 1e3, 1),
            "main_cpu_ms_a_job": round(main / len(jobs) * 1e3, 1),
            "running_s": {"p50": round(percentile(took, 50), 2), "p99": round(percentile(took, 99), 2)},
            "requests_to_run": round(sum(asked.values()) / len(jobs), 1),
            "requests_to_run_by_kind": _shown(asked, len(jobs)),
            "resident_mb": [round(cost.resident(), 1)],
        }

    async def _quiet(self, cost: Cost, requests: Requests, workers: FalseWorkers) -> dict[str, Any]:
        """Nothing happens but epochs."""
        requests.since()
        cpu, main, began, committed = cost.cpu(), cost.main(), time.monotonic(), workers.committed
        await asyncio.sleep(self._options.seconds)
        seconds = time.monotonic() - began
        asked, hours = requests.since(), seconds / 3600
        return {
            "seconds": round(seconds, 1),
            "interval": self._options.interval,
            "epochs_a_second": round((workers.committed - committed) / seconds, 1),
            "cores": round((cost.cpu() - cpu) / seconds, 3),
            "main_cores": round((cost.main() - main) / seconds, 3),
            "requests_an_hour": round(sum(asked.values()) / self._options.jobs / hours, 1),
            "requests_by_kind": _shown(asked, self._options.jobs * hours),
        }

    async def _dying(self, workers: FalseWorkers) -> dict[str, Any]:
        records, took = Records(self._places), list[float]()
        try:
            chosen = {workers.jobs[address]: address for address in workers.ready}
            victims = list(chosen.items())[: DYING * self._options.rounds]
            for first in range(0, len(victims), DYING):
                dying = victims[first : first + DYING]
                found = [records.watched(job).until(is_another_attempt) for job, _ in dying]
                began = time.monotonic()
                for _, address in dying:
                    workers.die(address)
                took += [(await asyncio.wait_for(each, 30) - began) * 1e3 for each in found]
                await asyncio.sleep(PAUSE)
        finally:
            await asyncio.to_thread(records.close)
        shown = {f"p{q}": round(percentile(took, q), 1) for q in (50, 90, 99)} if took else {}
        return {"decision_ms": shown, "decisions": len(took)}

    async def _handed_over(
        self, client: Any, workers: FalseWorkers, operators: list[Leader]
    ) -> list[dict[str, Any]]:
        """The leader of most jobs is killed, and its successor asked to end."""
        rows, jobs = list[dict[str, Any]](), set(workers.jobs.values())
        by_shard = Counter(shard_of(job, self._options.shards) for job in jobs)
        shard = by_shard.most_common(1)[0][0]
        its = [job for job in jobs if shard_of(job, self._options.shards) == shard]

        def moved(address: str) -> None:
            workers.lead([*workers.leaders[:shard], address, *workers.leaders[shard + 1 :]])

        for number in (signal.SIGKILL, signal.SIGTERM):
            leader = next(each for each in operators if workers.leaders[shard] == f"127.0.0.1:{each.port}")
            change = HandOver(self._places, its, lambda: self._led(client), moved)
            row, successor = await change.by(number, leader, saved=self._options.saved)
            rows.append(row)
            operators.append(successor)
            await asyncio.sleep(PAUSE)
        return rows


def _shown(asked: Counter[str], by: float) -> dict[str, float]:
    return {kind: round(count / by, 2) for kind, count in asked.most_common(24)}


async def _until(seen: Callable[[], object], what: str, within: float) -> None:
    deadline = time.monotonic() + within
    while not seen():
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        await asyncio.sleep(0.05)


def measure(options: Any) -> dict[str, Any]:
    """The row of one run."""
    before = noise()
    with tempfile.TemporaryDirectory(prefix="flamestream-fleet-", ignore_cleanup_errors=True) as folder:
        places = Places(Path(folder), options.shards, options.lease)
        try:
            places.start()
            row = asyncio.run(Fleet(places, options).measure())
        finally:
            places.close()
    return row | before | where()


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--shards", type=int, default=1, help="leaders among whom the jobs are divided")
    parser.add_argument("--seconds", type=float, default=120.0, help="in which nothing happens but epochs")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds before that")
    parser.add_argument("--interval", default="1s", help="between a job's epochs")
    parser.add_argument("--rounds", type=int, default=10, help="times ten workers die")
    parser.add_argument(
        "--hand-overs", action="store_true", help="kill a leader at the end, and ask one to end"
    )
    parser.add_argument(
        "--saved", action="store_true", help="wait for an epoch of each job of theirs as well"
    )
    parser.add_argument("--lease", type=float, default=4.0, help="seconds that a leader's Lease lasts")
    parser.add_argument("--deadline", type=float, default=900.0, help="seconds until all jobs run")
    options = parser.parse_args()
    # whoever ends it early ends its servers with it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tell(options, map(measure, [options]), fleet_table)


if __name__ == "__main__":
    main()
