"""The page of a cluster as an operator serves it, over a stand-in of the API server and of the coordinators."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

from flamestream.job.status import JobStatus
from flamestream.model.errors import UserError
from flamestream.node.samples import Sample
from flamestream_operator.coordination.hours import Hour
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.page.history import History
from flamestream_operator.page.serving import PageSettings, serve_page
from support.operator.users import Users
from support.ports import free_port

Object = dict[str, Any]


class Said:
    """What coordinators say: `Hosting`, as far as a page asks it."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobStatus] = {}
        self.asked = 0
        """How often for a status."""
        self.hour = Hour()
        """The samples of each job."""

    def status(self, job: str) -> JobStatus | None:
        self.asked += 1
        return self.jobs.get(job)

    def samples(self, job: str, behind: int = 0) -> list[Sample]:
        return self.hour.behind(behind)

    def committed(self, job: str) -> "Future[Any]":
        answer: Future[Any] = Future()
        answer.set_exception(UserError(f"job {job!r} is not coordinated now"))
        return answer


def job(namespace: str, name: str, phase: str = "Running", **status: Any) -> Object:
    """A FlameStreamJob as the API server has it."""
    spec = {"guarantee": "exactly-once", "sources": {}, "sinks": {}}
    meta = {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}", "resourceVersion": "1"}
    return {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase, "message": "", **status},
    }


def pod(namespace: str, name: str, of: str, role: str) -> Object:
    labels = {"flamestream.dev/job": of, "flamestream.dev/role": role}
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "labels": labels,
        },
        "spec": {"containers": [{"name": role}]},
        "status": {"phase": "Running"},
    }


def over(name: str, at: str, times: int, of: str = "sales", **status: Any) -> Object:
    """A drill that has ended."""
    meta = {"namespace": "shop", "name": name, "uid": name, "creationTimestamp": f"2026-11-27T{at}:00Z"}
    told = {"startedAt": f"2026-11-27T{at}:01Z", "finishedAt": f"2026-11-27T{at}:09Z", **status}
    return {"metadata": meta, "spec": {"job": of, "times": times}, "status": told}


def record(of: str, fields: Object) -> logging.LogRecord:
    """What a coordinator of job `of` logs."""
    kept = {name: value for name, value in fields.items() if name not in ("at", "level", "logger", "event")}
    made = logging.makeLogRecord({"msg": fields["event"], "levelno": logging.INFO, "levelname": "INFO"})
    vars(made).update(kept | {"job": of})
    return made


class Readers:
    """`ReadingPods`, as far as a page asks them: a pod ends at once, unless it is to hang, and its log is what `said`
    has."""

    def __init__(self, shown: "ShownCluster") -> None:
        self._shown = shown
        self.asked: list[tuple[str, Sequence[str]]] = []
        """The pods that were made, with their arguments."""
        self.removed: list[str] = []
        self.said, self.phase, self.launched = "[]", "Succeeded", True

    async def trace(self, key: tuple[str, str], name: str, arguments: Sequence[str]) -> bool:
        if self.launched:
            self.asked.append((name, arguments))
            self._shown.users.logs[name] = ["printed by the application", self.said]
            made = pod(key[0], name, key[1], "trace")
            self._shown.cluster.put_pod({**made, "status": {"phase": self.phase}})
        return self.launched

    async def remove(self, namespace: str, name: str) -> None:
        self.removed.append(name)


class ShownCluster:
    """One replica of the operator. `leads`: whether it has coordinators."""

    def __init__(self, users: Users, *, leads: bool = True, port: int = 0, **settings: Any) -> None:
        self.users, self.cluster, self.said, self.history = users, Cluster(), Said(), History()
        self.readers = Readers(self)
        self.leads, self.others = leads, set[str]()
        """Jobs that another leader has."""
        usual = {"hosts": ("page.example",), "actions": True, "drills": True}
        self.settings = PageSettings(port=port or free_port(), namespace="space", **{**usual, **settings})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    def runs(self, *jobs: Object, told: JobStatus | None = None) -> None:
        """These jobs are there, with this word of their coordinators."""
        for each in jobs:
            self.cluster.jobs.put(each)
            if told is not None:
                self.said.jobs[f"{each['metadata']['namespace']}.{each['metadata']['name']}"] = told

    @asynccontextmanager
    async def served(self) -> AsyncIterator[web.AppRunner]:
        users: Any = self.users
        said: Any = self.said
        readers: Any = self.readers
        runner = await serve_page(
            self.settings, users, self.cluster, lambda: said if self.leads else None,
            lambda: readers if self.leads else None, self.history,
            lambda job: None if self.leads and job not in self.others else "coordinators",
        )  # fmt: skip
        try:
            yield runner
        finally:
            await runner.cleanup()

    @contextmanager
    def in_a_thread(self) -> Iterator[None]:
        """Served beside who looks at it."""
        over_, ready = threading.Event(), threading.Event()

        async def serve() -> None:
            async with self.served():
                ready.set()
                await asyncio.to_thread(over_.wait)

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            assert ready.wait(90)
            yield
        finally:
            over_.set()
            thread.join()
