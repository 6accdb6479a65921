"""The rest of a cluster around the operator: kubelets that run pods, Spark that makes executors, workers that
connect, coordinators that share one job record.

Keeps what the real ones keep: a worker is let in only with the token of the run that its coordinator was
started with; only the coordinator that has written the record last commits an epoch; a drained job has
committed all that entered.
"""

import base64
import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from flamestream.job.status import JobStatus, LastRecovery, WorkerFigures
from flamestream.model.errors import StoreUnavailable, UserError
from flamestream.model.ids import SourceName
from flamestream.node.samples import Sample
from flamestream.store.zookeeper_leave import Leave
from flamestream_operator.coordination.hosting import ConnectedWorker, JobToCoordinate, Savepoint
from flamestream_operator.objects.meta import ROLE, Object
from flamestream_operator.objects.small import digest_of_application
from support.operator.fake_kubernetes import FakeKubernetes

SECOND = 1_000_000


@dataclass
class Record:
    """The job record of one job: outlives objects and operators."""

    attempt: int = 0
    epoch: int = 0
    completed: bool = False
    code: str = ""
    """Digest of the application that the newest attempt runs."""
    holder: str = ""
    """The job that goes on with it under a name of its own."""
    unsaved_since: float = 0.0
    """Seconds: when something happened that no epoch has saved; 0: nothing."""
    commits: list[tuple[int, int]] = field(default_factory=list)
    """(attempt, run token's hash) of every commit."""


class Fleet:
    """What the cluster does by itself."""

    def __init__(self, kubernetes: FakeKubernetes) -> None:
        self.kubernetes = kubernetes
        self.records: dict[str, Record] = {}
        self.leaves: dict[str, Leave] = {}
        self.asks: dict[str, str] = {}
        """By whom each job is asked to end: as of records, those of all clusters that reach the same ZooKeeper."""
        self.ips = 0
        self.broken_digest = ""
        """An application that does not load."""
        self.breaks_late = False
        """It passes its trial nevertheless."""
        self.canary: Object = {}
        """What trials say of one; with new errors they are refused."""
        self.store_is_away = False
        self.cut: set[str] = set()
        """Nodes that nothing is heard of."""
        self.wanted = 0
        """How many workers coordinators want; 0: as many as they were told."""
        self.cold = False
        """Standbys have not read the committed snapshot yet."""
        self.gate = ""
        """The scheduling gate of workers' pods; "": they are let in."""

    def step(self) -> None:
        """Pods go on by one phase, drivers make executors, the garbage collector finds who has lost its
        owner."""
        self.kubernetes.collect()
        for pod in list(self.kubernetes.of("Pod")):
            key = ("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
            phase = (pod.get("status") or {}).get("phase", "Pending")
            if key in self.kubernetes.things and phase == "Pending" and self._is_held_back(pod):
                self.kubernetes.merge(key, {"spec": {"schedulingGates": [{"name": self.gate}]}})
            elif key in self.kubernetes.things and phase == "Pending":
                self.ips += 1
                status: dict[str, object] = {
                    "phase": "Running",
                    "podIP": f"10.0.{self.ips // 250}.{self.ips % 250}",
                }
                if pod["metadata"]["labels"].get(ROLE) == "preflight":
                    status = self._tried(pod)
                if pod["metadata"]["labels"].get(ROLE) == "driver" and self._is_broken(pod):
                    ended: dict[str, object] = {
                        "exitCode": 1,
                        "message": '{"category": "user", "reason": "ImportError", "message": "no such '
                        'module"}',
                    }
                    status = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}
                spec = {"nodeName": "node1", "schedulingGates": None}
                self.kubernetes.merge(key, {"status": status, "spec": spec})
            elif phase == "Running" and pod["metadata"]["labels"].get(ROLE) == "driver":
                self._executors(pod)

    def _is_held_back(self, pod: Object) -> bool:
        return bool(self.gate) and pod["metadata"]["labels"].get(ROLE) == "worker"

    def _tried(self, pod: Object) -> Object:
        broken = self._is_broken(pod) and not self.breaks_late
        said = (
            '{"ok": false, "reason": "ImportError", "message": "no such module"}'
            if broken
            else json.dumps({"ok": True, "code": self.code_of(pod)})
        )
        if self.canary and not broken and self._compares(pod):
            broken = bool(self.canary["newErrors"])
            said = json.dumps(
                {
                    "ok": not broken,
                    "reason": "CanaryFailed",
                    "message": "it has errors",
                    "code": self.code_of(pod),
                }
                | {"canary": self.canary}
            )
        ended = {"exitCode": int(broken), "message": said}
        return {
            "phase": "Failed" if broken else "Succeeded",
            "containerStatuses": [{"state": {"terminated": ended}}],
        }

    def _compares(self, pod: Object) -> bool:
        """Whether a trial has the code that runs beside the new one, and was not told to leave it."""
        meta, volumes = pod["metadata"], {each["name"]: each for each in pod["spec"]["volumes"]}
        config = self.kubernetes.things[("ConfigMap", meta["namespace"], meta["name"])]["data"]
        if (
            "before.json" not in config
            or (json.loads(config["job.json"])["spec"].get("upgrade") or {}).get("canary") == 0
        ):
            return False
        copy = volumes["before"]["configMap"]["name"]
        before = digest_of_application(self.kubernetes.things[("ConfigMap", meta["namespace"], copy)])
        assert before == json.loads(config["before.json"])["digest"], "the code that runs"
        return True

    def _is_broken(self, pod: Object) -> bool:
        return bool(self.broken_digest) and self.code_of(pod) == self.broken_digest

    def code_of(self, pod: Object) -> str:
        """Digest of the application in a pod, or in its driver's; "none" if it is in the image."""
        holder = pod if pod["metadata"]["labels"][ROLE] != "worker" else self._driver_of(pod)
        for volume in (holder or {"spec": {}})["spec"].get("volumes") or ():
            if volume["name"] == "application":
                name = volume["configMap"]["name"]
                copy = self.kubernetes.things[("ConfigMap", pod["metadata"]["namespace"], name)]
                return digest_of_application(copy)
        return "none"

    def _executors(self, driver: Object) -> None:
        meta, settings = driver["metadata"], self._settings(driver)
        for number in range(settings.get("tasks", 0)):
            name = f"{settings['podNamePrefix']}-exec-{number}"
            if ("Pod", meta["namespace"], name) not in self.kubernetes.things:
                owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
                labels = {**meta["labels"], ROLE: "worker"}
                self.kubernetes.make(
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "spec": {},
                        "metadata": {
                            "name": name,
                            "namespace": meta["namespace"],
                            "labels": labels,
                            "ownerReferences": [owner],
                        },
                    }
                )

    def _settings(self, driver: Object) -> Object:
        """What a driver's ConfigMap says; {} if it has none."""
        meta = driver["metadata"]
        config = self.kubernetes.things.get(("ConfigMap", meta["namespace"], meta["name"]))
        texts = config["data"] if config is not None else {}
        found: Object = json.loads(
            next((text for name, text in texts.items() if name.startswith("driver-")), "{}")
        )
        return found

    def _driver_of(self, pod: Object) -> Object | None:
        """Itself, or whose executor it is."""
        if pod["metadata"]["labels"].get(ROLE) == "driver":
            return pod
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        return self.kubernetes.things.get(("Pod", pod["metadata"]["namespace"], owner))

    def _dials(self, pod: Object) -> bool:
        """Whether there is a worker in it: of batches, in the driver."""
        if (role := pod["metadata"]["labels"].get(ROLE)) not in ("worker", "driver"):
            return False
        driver = self._driver_of(pod)
        batches = driver is not None and self._settings(driver).get("batches", False)
        return bool(role == ("driver" if batches else "worker"))

    def workers(self, job: str, token: str) -> list[Object]:
        """Running workers that have this token."""
        namespace, _, name = job.partition(".")
        found = []
        for pod in self.kubernetes.of("Pod"):
            meta = pod["metadata"]
            ours = (
                self._dials(pod)
                and meta["namespace"] == namespace
                and meta["labels"]["flamestream.dev/job"] == name
            )
            if (
                ours
                and pod["spec"].get("nodeName") not in self.cut
                and (pod.get("status") or {}).get("phase") == "Running"
                and self._token_of(pod) == token
            ):
                found.append(pod)
        return found

    def _token_of(self, worker: Object) -> str:
        namespace, driver = worker["metadata"]["namespace"], self._driver_of(worker)
        if driver is None:
            return ""
        secret = next(
            volume["secret"]["secretName"]
            for volume in driver["spec"]["volumes"]
            if volume["name"] == "secret"
        )
        found = self.kubernetes.things.get(("Secret", namespace, secret))
        return base64.b64decode(found["data"]["token"]).decode() if found else ""

    def end_workers(self, job: str, token: str, code: str = "") -> None:
        """Told to stop, they end (those of `code` alone, if it is said), and their driver with them."""
        drivers = set()
        for pod in self.workers(job, token):
            if code in ("", self.code_of(pod)) and (driver := self._driver_of(pod)) is not None:
                drivers.add((pod["metadata"]["namespace"], driver["metadata"]["name"]))
        for namespace, name in drivers:
            ended = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
            if ("Pod", namespace, name) in self.kubernetes.things:
                self.kubernetes.merge(("Pod", namespace, name), {"status": ended})


class FakeHosting:
    """The coordinators of one operator's process."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.jobs: dict[str, _Hosted] = {}

    def close(self) -> None:
        """It has no threads."""

    def open(self) -> None:
        """Nobody waits outside."""

    def start(self, job: JobToCoordinate) -> None:
        known = self.jobs.get(job.job)
        if known is None or known.settings != job:
            fresh_token = known is None or known.settings.token != job.token
            if known is not None and not fresh_token:
                known.settings, known.code = job, job.settings.code or known.code
            else:
                self.jobs[job.job] = _Hosted(self.fleet, job)

    def stop(self, job: str) -> None:
        self.jobs.pop(job, None)

    def status(self, job: str) -> JobStatus | None:
        return self.jobs[job].status() if job in self.jobs else None

    def samples(self, job: str, behind: int = 0) -> list[Sample]:
        return []

    def members(self, job: str) -> tuple[ConnectedWorker, ...]:
        return self.jobs[job].members() if job in self.jobs else ()

    def suspend(self, job: str) -> None:
        if job in self.jobs:
            self.jobs[job].draining = True

    def end(self, job: str) -> None:
        if job in self.jobs:
            self.jobs[job].finish("stopped")

    def gone(self, job: str, ip: str) -> None:
        if job in self.jobs:
            self.jobs[job].shunned.add(ip)

    def upgrade(self, job: str, next_one: JobToCoordinate | None) -> None:
        if job in self.jobs:
            known = self.jobs[job].settings
            # else the coordinator that has made the tick would be taken for another
            assert next_one is None or (next_one.token, next_one.keys) == (known.token, known.keys)
            self.jobs[job].next = next_one

    def retire(self, job: str, ips: Sequence[str]) -> None:
        for ip in ips:
            self.gone(job, ip)

    def hand_over(self, job: str, to: str) -> None:
        if job in self.jobs:
            self.jobs[job].to = to

    def leave(self, job: str) -> "Future[Any]":
        return _done(self.fleet.leaves.get(job))

    def give_leave(self, job: str, leave: Leave | None) -> "Future[Any]":
        if leave is None:
            self.fleet.leaves.pop(job, None)
            return _done("")
        self.fleet.leaves[job] = leave
        return _done(self.fleet.asks.get(job, ""))

    def ask(self, job: str, to: str) -> "Future[Any]":
        self.fleet.asks[job] = to
        return _done(None)

    def record(self, job: str) -> "Future[Any]":
        return _done(self.fleet.records.get(job))

    def committed(self, job: str) -> "Future[Any]":
        """No snapshot is in a store here."""
        return _done(None)

    def forget(self, job: JobToCoordinate, *, begins_anew: bool = False) -> "Future[None]":
        known = self.fleet.records.get(job.identity)
        if known is not None and known.holder != job.settings.takes_over_as:
            return _done(None)
        self.fleet.records.pop(job.identity, None)
        if begins_anew and known is not None:
            self.fleet.records[job.identity] = Record(attempt=known.attempt)
        return _done(None)

    def restore(self, job: JobToCoordinate, savepoint: Any) -> "Future[Any]":
        """Only into a job without state, as the real one."""
        future: Future[Any] = Future()
        if job.identity in self.fleet.records:
            future.set_exception(UserError(f"job {job.job!r} has a state of its own"))
        elif self.fleet.store_is_away:
            future.set_exception(StoreUnavailable("the store does not answer"))
        else:
            self.fleet.records[job.identity] = Record(epoch=savepoint.epoch)
            future.set_result(None)
        return future

    def savepoint(self, job: JobToCoordinate, name: str) -> "Future[Any]":
        """Of the newest epoch."""
        if self.fleet.store_is_away:
            future: Future[Any] = Future()
            future.set_exception(StoreUnavailable("the store does not answer"))
            return future
        epoch = self.fleet.records[job.identity].epoch
        folder = f"savepoints/{job.job}/{name}"
        return _done(
            Savepoint(
                job=job.job, name=name, store=job.store, epoch=epoch, cut=epoch * 10,
                index=f"{folder}/index.json", index_hash="0", graph="g", size=100, objects=2,
            )
        )  # fmt: skip

    def delete_savepoint(self, keys: tuple[str, str], savepoint: Any) -> "Future[None]":
        return _done(None)

    def healthy(self) -> bool:
        return True

    def step(self) -> None:
        """Every coordinator takes an epoch if it may."""
        for hosted in list(self.jobs.values()):
            hosted.step()


class _Hosted:
    """One job's coordinator: it fences by taking the next attempt."""

    def __init__(self, fleet: Fleet, settings: JobToCoordinate) -> None:
        self.fleet, self.settings = fleet, settings
        self.attempt = 0
        self.draining = False
        self.to = ""
        """The job that it is to hand over to."""
        was, its = settings.went_on_from, settings.settings
        self.before = None if was is None else (was.settings.code, was)
        """The code before, and its settings."""
        self.watch = [0, 0] if was is None else [its.watch_us // SECOND, its.keep_us // SECOND]
        """For how many steps more the code that runs is watched, and that before kept."""
        self.refused = self.refusal = ""
        self.next: JobToCoordinate | None = None
        self.code = settings.settings.code
        """Digest of the application that it coordinates; "": the first worker's, which nobody has seen yet."""
        self.outcome = ""
        self.shunned: set[str] = set()
        self.layout: tuple[str, ...] = ()
        self.recoveries = 0
        self.problems: list[str] = []
        """What its workers tell of their sources and sinks."""
        self.event_times: dict[SourceName, int | None] = {}
        self.late: dict[SourceName, int] = {}
        self.items = 1
        """Items in and out of each worker."""

    @property
    def record(self) -> Record:
        return self.fleet.records.setdefault(self.settings.identity, Record())

    def step(self) -> None:
        if self.outcome:
            return
        self.watch = [max(0, each - 1) for each in self.watch]
        if self.record.holder != self.settings.settings.takes_over_as:
            self.finish("handed over")
            return
        if self.record.completed:
            self.finish("completed")
            return
        here = {
            pod["status"]["podIP"]: self.fleet.code_of(pod)
            for pod in self.fleet.workers(self.settings.job, self.settings.token)
        }
        if not self.code and here:
            self.code = next(iter(here.values()))
        if self.settings.settings.code and self.record.code not in ("", self.code):
            # Another leader has made the tick.
            if self.next is None or self.next.settings.code != self.record.code:
                self.layout = ()
                return
            self.code, self.settings = self.record.code, wanted_with(self.next, self.settings)
        usable = [ip for ip, code in here.items() if ip not in self.shunned and code == self.code]
        if (
            self.attempt != self.record.attempt
            or not set(self.layout) <= set(usable)
            or (len(self.layout) < self.settings.settings.workers <= len(usable))
        ):
            if len(usable) < self.settings.settings.workers:
                self.layout = ()
                return
            self.record.attempt += 1  # compare-and-set: everything older is fenced
            self.record.code = self.code
            self.attempt, self.layout = self.record.attempt, tuple(usable[: self.settings.settings.workers])
            self.recoveries += 1
            return
        if self.next is not None and not self.draining and self._turned(here, self.next):
            return
        self.record.epoch += 1
        self.record.commits.append((self.attempt, hash(self.settings.token)))
        if self.to:
            self.record.holder, self.record.code = self.to, ""
            self.finish("handed over")
        elif self.draining:
            self.finish("drained")

    def _turned(self, here: dict[str, str], wanted: JobToCoordinate) -> bool:
        """Whether workers of other code have taken over: epoch, attempt and code in one write."""
        code, count = wanted.settings.code, wanted.settings.workers
        ahead = [ip for ip, its in here.items() if its == code != self.code]
        if len(ahead) < count:
            return False
        before, self.code, self.record.code = self.code, code, code
        its = wanted.settings
        self.before, self.watch = (before, self.settings), [its.watch_us // SECOND, its.keep_us // SECOND]
        self.next = None
        self.record.epoch += 1
        self.record.attempt += 1
        self.record.commits.append((self.record.attempt, hash(self.settings.token)))
        self.attempt, self.layout, self.settings = (
            self.record.attempt,
            tuple(ahead[:count]),
            wanted_with(wanted, self.settings),
        )
        if not any(self.watch):
            self.fleet.end_workers(self.settings.job, self.settings.token, before)
        return True

    def take_back(self, reason: str) -> None:
        """The code that is watched has failed: that before goes on, by a tick."""
        assert self.before is not None and self.watch[0], "no code is watched"
        self.refused, self.refusal = self.code, reason
        code, settings = self.before
        here = self.fleet.workers(self.settings.job, self.settings.token)
        usable = [pod["status"]["podIP"] for pod in here if self.fleet.code_of(pod) == code]
        self.code = self.record.code = code
        self.settings, self.before, self.watch, self.next = settings, None, [0, 0], None
        self.record.attempt += 1
        self.attempt, self.layout = self.record.attempt, tuple(usable[: self.settings.settings.workers])

    def finish(self, outcome: str) -> None:
        if not self.outcome:
            self.outcome = outcome
            self.fleet.end_workers(self.settings.job, self.settings.token)

    def members(self) -> tuple[ConnectedWorker, ...]:
        if self.outcome:
            return ()
        pods = self.fleet.workers(self.settings.job, self.settings.token)
        ips = [pod["status"]["podIP"] for pod in pods]
        return tuple(
            ConnectedWorker(
                f"w-{ip}", f"{ip}:1", 1e9, ip not in self.layout, not self.fleet.cold or ip in self.layout
            )
            for ip in ips
        )

    def status(self) -> JobStatus:
        workers = [
            WorkerFigures(worker=f"w-{ip}", connected=True, items_in=self.items, items_out=self.items)
            for ip in self.layout
        ]
        running = bool(self.layout) and self.attempt == self.record.attempt
        phase = "finished" if self.outcome else "running" if running else "gathering"
        last = (
            LastRecovery(cause="a worker was lost", duration_ms=float(self.recoveries))
            if self.recoveries
            else None
        )
        return JobStatus(
            wanted=self.fleet.wanted or self.settings.settings.workers,
            job=self.settings.job, pid=1, updated=0, phase=phase, attempt=self.attempt,
            epoch=self.record.epoch, cut=self.record.epoch * 10, workers=workers, recoveries=self.recoveries,
            last_recovery=last, outcome=self.outcome, unsaved_since=int(self.record.unsaved_since * 1e6),
            message=f"handed over to {self.record.holder}" if self.outcome == "handed over" else "",
            problems=self.problems, event_times=self.event_times, late=self.late, code=self.record.code,
            before=self.before[0] if self.before is not None and any(self.watch) else "",
            watched=bool(self.watch[0]), refused=self.refused, refusal=self.refusal,
        )  # fmt: skip


def wanted_with(wanted: JobToCoordinate, before: JobToCoordinate) -> JobToCoordinate:
    """The next application's settings, with the token and keys of the run."""
    return replace(wanted, token=before.token, keys=before.keys)


def _done(result: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(result)
    return future
