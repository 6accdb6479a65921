"""The life of a journalled job, step by step; after each its figures are looked at, beside what is known from
elsewhere."""

import asyncio
from pathlib import Path
from typing import Any

from flamestream.job.status import JobStatus
from flamestream_operator.objects.small import digest_of_application
from support.operator.figures import Looked, between, is_time
from support.operator.plain_cluster import APPLICATION, PlainCluster, results_of

BROKEN = APPLICATION.replace("total + number,", "total + number if number < 0 else 1 // 0,")
RAISES = APPLICATION.replace("total + number,", "total + number if number % 4 else total // (number % 4),")
UNLOADABLE = "import nothing_of_this_name\n"


class Input:
    """Lines of a followed file, so the source is journalled and it is known how many there are."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path, self._file, self.lines = folder, folder / "numbers.txt", 0

    def feed(self, count: int) -> None:
        with self._file.open("a") as file:
            file.writelines(f"{number}\n" for number in range(self.lines, self.lines + count))
        self.lines += count

    def late(self, count: int) -> None:
        """Lines that are there already."""
        with self._file.open("a") as file:
            file.writelines("3\n" for _ in range(count))


def spec_of(source: Input) -> dict[str, Any]:
    """Two workers and a standby, which follow these lines."""
    return {
        "sources": {"numbers": {"files": {"path": str(source.path), "follow": True, "records": "lines"}}},
        "journal": {"folder": "zookeeper://"},
        "workers": {"replicas": 2, "standby": 1, "slots": 16},
    }


async def started(cluster: PlainCluster, source: Input, looked: Looked) -> str:
    """It runs and is stable, with its first hundred lines through; when it was started."""
    source.feed(100)
    await cluster.apply(**spec_of(source))
    await _all_out(cluster, source)
    await cluster.until(
        lambda: _is_stable(cluster), "all of its workers could take over, and that is written"
    )
    await cluster.until(
        lambda: _tells_operations(cluster), "workers have told what their operations have done"
    )
    told = cluster.told
    assert told is not None
    _metrics_of_a_start(cluster, told, looked)
    _metrics_of_operations(cluster, looked)
    looked.grown()
    _status_of_a_start(cluster, told, looked)
    await _run_of_a_start(cluster, told, looked)
    _conditions_of_a_start(cluster, looked)
    return cluster.status.started_at


def _is_stable(cluster: PlainCluster) -> bool:
    return cluster.status.last_stable is not None and cluster.status.drivers[0].state == "Running"


def _metrics_of_a_start(cluster: PlainCluster, told: JobStatus, looked: Looked) -> None:
    numbers = {
        "items_total": 100,
        "runs_total": between(1, 100),
        "acknowledged_bundles_total": between(1, 500),
        "attempt": 1,
        "in_flight_items": 0,
        "replayed_items_total": 0,
        "invalidated_results_total": 0,
        "transactions_total": 0,
        "transaction_decisions_total": 0,
        "aborted_transactions_total": 0,
        "epochs_total": between(0, told.epoch),
        "epoch_age_seconds": between(0, 60),
        "memory_bytes": between(20 << 20, 2 << 30),
        "snapshot_bytes": between(1, 1 << 20),
        "latency_seconds_count": between(1, 200),
        "latency_seconds_sum": between(1e-4, 100),
        "release_latency_seconds_count": between(1, 100),
        "snapshot_seconds_count": between(1, told.epoch + 1),
        "minimal_time_lag_seconds": between(0, 60),
        "output_age_seconds": between(0, 60),
    }
    for name, expected in numbers.items():
        for labels in ({"direction": "in"}, {"direction": "out"}) if name == "items_total" else ({},):
            looked.metric(cluster, name, expected, **labels)
    looked.metric(cluster, "workers", 2, role="layout")
    looked.metric(cluster, "workers", 1, role="standby")
    for workers in ("mean", "most"):
        looked.metric(cluster, "busy_ratio", between(0, 1), workers=workers)
    for condition, holds in (("Ready", 1), ("Recovering", 0)):
        looked.metric(cluster, "condition", holds, condition=condition)
    looked.metric(cluster, "recoveries_total", 1, cause="start")
    looked.metric(cluster, "recovery_seconds_count", 1)
    looked.metric(cluster, "recovery_step_seconds_count", 1, step="record")
    looked.metric(cluster, "recovery_step_seconds_count", 1, step="replay")


def _tells_operations(cluster: PlainCluster) -> bool:
    """Whether it is of all lines, by all workers: each tells it every two seconds, in its own time."""
    told = cluster.told.operations if cluster.told is not None else []
    return bool(told) and told[0].items_in == 100 and min(told[2].items_out, told[3].items_in) >= 100


def _metrics_of_operations(cluster: PlainCluster, looked: Looked) -> None:
    """The source, the fold by five keys, and the sink; what was taken back and given again counts, too."""
    for operation, direction, expected in (
        ("0 numbers", "in", 100), ("0 numbers", "out", 100), ("2 reduce lambda", "in", between(100, 300)),
        ("2 reduce lambda", "out", between(100, 900)), ("3 out", "in", between(100, 900)), ("3 out", "out", 0),
    ):  # fmt: skip
        looked.metric(cluster, "operation_items_total", expected, operation=operation, direction=direction)
    looked.metric(cluster, "operation_keys", 5, operation="2 reduce lambda")
    looked.metric(cluster, "operation_keys", 0, operation="1 map int")
    looked.metric(cluster, "operation_state_bytes", between(5, 1 << 12), operation="2 reduce lambda")
    looked.metric(cluster, "operation_busy_ratio", between(0, 2), operation="2 reduce lambda")


def _status_of_a_start(cluster: PlainCluster, told: JobStatus, looked: Looked) -> None:
    fields = {
        "phase": "Running",
        "guarantee": "exactly-once",
        "attempt": 1,
        "launches": 1,
        "observed_generation": 1,
        "problems": [],
        "event_times": {},
        "late": {},
        "skipped": {},
        "epoch.number": between(1, told.epoch + 5),
        "epoch.cut": lambda cut: int(cut) > 0,
        "epoch.time": is_time,
        "workers.desired": 2,
        "workers.ready": 2,
        "workers.standby": 1,
        "workers.summary": "2/2",
        "workers.selector": "flamestream.dev/job=sums,flamestream.dev/role=worker",
        "recovery": None,
        "suspension": None,
        "failures.count": 0,
        "finished_at": "",
        "message": "",
        "snapshot.store": cluster.spec()["checkpoint"]["store"],
    }
    for name, expected in fields.items():
        looked.field(cluster, name, expected)


async def _run_of_a_start(cluster: PlainCluster, told: JobStatus, looked: Looked) -> None:
    pod = await cluster.api.get("Pod", cluster.namespace, "sums-driver-a-1")
    config = await cluster.api.get("ConfigMap", cluster.namespace, "app")
    assert pod is not None and config is not None
    fields = {
        "drivers.name": "sums-driver-a-1",
        "drivers.application": "a",
        "drivers.launch": 1,
        "drivers.tasks": 3,
        "drivers.revision": bool,
        "drivers.uid": pod["metadata"]["uid"],
        "drivers.state": "Running",
        "drivers.since": is_time,
        "run.number": 1,
        "run.generation": 1,
        "run.code": bool,
        "run.application": digest_of_application(config),
        "run.stage": "Running",
        "run.cause": "",
        "run.started_at": is_time,
        "run.graph": told.graph,
        "run.attempt": 0,
        "intent.key": "",
        "intent.generation": 0,
        "last_stable.generation": 1,
        "last_stable.code": cluster.status.run.code,
        "last_stable.application": digest_of_application(config),
        "last_stable.spec": lambda spec: spec["workers"]["replicas"] == 2,
    }
    for name, expected in fields.items():
        looked.field(cluster, name, expected)


def _conditions_of_a_start(cluster: PlainCluster, looked: Looked) -> None:
    types = {each.type: each for each in cluster.status.conditions}
    assert types["Ready"].status == types["Running"].status == "True" and types["Failed"].status == "False"
    for name, expected in (
        ("type", "Ready"),
        ("status", "True"),
        ("reason", "Whole"),
        ("message", ""),
        ("last_transition_time", is_time),
        ("observed_generation", 1),
    ):
        looked.field(cluster, f"conditions.{name}", expected)


async def killed(cluster: PlainCluster, source: Input, looked: Looked, lost: int = 1) -> None:
    """`lost`: workers that were killed in this run, this one among them."""
    before = cluster.told
    assert before is not None
    looked.grown()
    victim = cluster.kill()
    await cluster.until(lambda: cluster.runs(before.attempt + 1), "a killed worker is replaced")
    cut = cluster.status.recovery.replayed_from if cluster.status.recovery is not None else ""
    source.feed(100)
    await _all_out(cluster, source)
    looked.metric(cluster, "recoveries_total", lost, cause="lost")
    looked.metric(cluster, "attempt", before.attempt + 1)
    looked.metric(cluster, "epochs_total", between(1, (cluster.told or before).epoch))
    looked.grown()
    looked.field(cluster, "recovery.count", lost)
    looked.field(cluster, "recovery.attempt", before.attempt + 1)
    looked.field(cluster, "recovery.kind", "lost")
    looked.field(cluster, "recovery.cause", lambda cause: cause.startswith("lost a-w"))
    looked.field(cluster, "recovery.time", is_time)
    looked.field(cluster, "recovery.duration_ms", between(1, 60_000))
    looked.field(
        cluster,
        "recovery.replayed_from",
        lambda now: now == cut and before.cut <= int(now) < (cluster.told or before).cut,
    )
    assert victim.lives >= 1


async def led_by_another(cluster: PlainCluster, source: Input, looked: Looked) -> None:
    """The stream runs on, and what has been counted goes on being counted."""
    before = cluster.told
    assert before is not None
    cluster.lose_leader()
    cluster.new_leader()
    await cluster.until(lambda: cluster.runs(before.attempt), "the next leader adopts the stream")
    looked.field(cluster, "attempt", before.attempt)
    looked.field(cluster, "recovery.count", 1)
    await killed(cluster, source, looked, lost=2)
    await _coordinated_anew(cluster, "150ms")
    await killed(cluster, source, looked, lost=3)


async def _coordinated_anew(cluster: PlainCluster, interval: str) -> None:
    """By the same leader."""
    began = cluster.told.began if cluster.told is not None else 0
    await cluster.edit({"checkpoint": {"interval": interval}})
    await cluster.until(
        lambda: cluster.told is not None and cluster.told.began > began and cluster.runs(),
        "it has another coordinator",
    )


async def saved_and_suspended(cluster: PlainCluster, source: Input, looked: Looked) -> None:
    """A savepoint by the clock, a suspension, and on from there."""
    await cluster.edit({"savepoints": {"every": "1s", "keep": 2}})
    await cluster.until(lambda: bool(cluster.status.last_savepoint), "a savepoint by the clock is due")
    looked.field(cluster, "last_savepoint", is_time)
    await cluster.edit({"savepoints": None, "suspend": True})
    await cluster.until(lambda: cluster.status.phase == "Suspended", "it is suspended")
    record = await asyncio.wrap_future(cluster.coordinators.record(f"{cluster.namespace}.{cluster.name}"))
    assert record is not None
    looked.field(cluster, "suspension.epoch", record.committed)
    looked.field(cluster, "suspension.cut", str(record.cut))
    looked.field(cluster, "suspension.clean", True)
    looked.field(cluster, "suspension.time", is_time)
    looked.field(cluster, "suspension.outputs", between(100, source.lines))
    looked.field(cluster, "epoch.number", record.committed)
    looked.field(cluster, "workers.ready", 0)
    looked.field(cluster, "run.cause", "Suspend")
    looked.field(cluster, "run.stage", "Stopped")
    looked.field(cluster, "drivers", [])
    # what a write at a transition brings along
    looked.field(cluster, "snapshot.size", between(1, 1 << 20))
    looked.field(cluster, "items.input", between(100, 10_000))
    looked.field(cluster, "items.output", between(100, source.lines))
    for name in ("p50_ms", "p99_ms", "delivered_p50_ms", "delivered_p99_ms"):
        looked.field(cluster, f"latency.{name}", between(0.1, 60_000))
    attempt = cluster.status.attempt
    await cluster.edit({"suspend": False})
    await cluster.until(lambda: cluster.runs(attempt + 1), "it is resumed")
    looked.field(cluster, "run.number", 2)
    looked.field(cluster, "run.attempt", attempt)
    looked.field(cluster, "suspension", None)
    source.feed(100)
    await _all_out(cluster, source)


async def compared(cluster: PlainCluster, source: Input, looked: Looked) -> None:
    """New code is tried with what the stream has not saved yet, beside the code that runs."""
    await cluster.until(lambda: cluster.status.last_stable is not None, "it is stable")
    saved = source.lines
    await _coordinated_anew(cluster, "5m")
    source.feed(20)  # no epoch is due behind it
    await cluster.until(lambda: len(cluster.delivered()) == source.lines, "all lines are through")
    await cluster.edit_code(RAISES)
    await cluster.until(
        lambda: cluster.status.preflight is not None and cluster.status.preflight.state == "Failed", "refused"
    )
    fed = range(saved, source.lines)
    old = dict(results_of(range(source.lines)))
    new = dict(results_of(number for number in range(source.lines) if number < saved or number % 4))
    equal = sum(old[number] == new.get(number) for number in fed)
    looked.field(cluster, "preflight.canary.records", len(fed))
    looked.field(cluster, "preflight.canary.new_errors", sum(number % 4 == 0 for number in fed))
    looked.field(cluster, "preflight.canary.equal", equal)
    looked.field(cluster, "preflight.canary.differ", len(fed) - equal)
    for name in ("micros_before", "micros_after"):
        looked.field(cluster, f"preflight.canary.{name}", between(0.1, 1e6))
    looked.field(cluster, "preflight.canary.summary", lambda summary: f"{equal} results equal" in summary)
    first = next(number for number in fed if old[number] != new.get(number))
    looked.field(
        cluster,
        "preflight.canary.examples",
        lambda said: f"record {first:,} of numbers" in said[0].replace(" numbers.txt", ""),
    )
    looked.field(cluster, "preflight.message", lambda message: "upgrade.canary: 0" in message)
    looked.field(cluster, "run.next", "")
    await cluster.edit_code(APPLICATION)
    await _coordinated_anew(cluster, "150ms")
    source.feed(1)
    await _all_out(cluster, source)
    await cluster.until(
        lambda: (
            (stable := cluster.status.last_stable) is not None
            and stable.generation == cluster.status.observed_generation
        ),
        "it is stable again",
    )


async def rolled_back(cluster: PlainCluster, source: Input, looked: Looked) -> None:
    """Code that does not load is refused beside the stream; code that fails as it runs is left for what ran
    before."""
    await cluster.until(lambda: cluster.status.last_stable is not None, "it is stable")
    await cluster.edit_code(UNLOADABLE)
    await cluster.until(
        lambda: cluster.status.preflight is not None and cluster.status.preflight.state == "Failed", "refused"
    )
    looked.field(cluster, "preflight.state", "Failed")
    looked.field(cluster, "preflight.message", lambda message: "nothing_of_this_name" in message)
    looked.field(cluster, "preflight.code", lambda code: code not in ("", cluster.status.run.code))
    looked.field(cluster, "preflight.generation", cluster.status.observed_generation)
    looked.field(cluster, "preflight.pod", lambda pod: pod.startswith("sums-preflight-"))
    looked.field(cluster, "preflight.since", is_time)
    looked.field(cluster, "run.number", 2)
    code, digest = cluster.status.run.code, cluster.status.run.digest
    looked.field(cluster, "run.digest", is_digest)
    await cluster.edit_code(BROKEN)
    await cluster.until(lambda: bool(cluster.status.run.next), "other code starts beside")
    looked.field(cluster, "run.next", lambda beside: beside not in ("", code))
    looked.field(cluster, "preflight.digest", lambda other: is_digest(other) and other != digest)
    await cluster.until(lambda: bool(cluster.status.run.before), "other code has taken over")
    looked.field(cluster, "run.before", code)
    looked.field(cluster, "run.before_digest", digest)
    looked.field(cluster, "run.turned_at", is_time)
    looked.field(cluster, "turned.code", cluster.status.run.code)
    looked.field(cluster, "turned.generation", cluster.status.observed_generation)
    looked.field(cluster, "turned.application", cluster.status.run.application)
    looked.field(cluster, "turned.spec", lambda spec: spec["workers"]["replicas"] == 2)
    looked.field(cluster, "drivers.code", code)  # the first of them is the one that ran before
    source.feed(10)
    await cluster.until(lambda: bool(cluster.status.rolled_back), "it fails", may_fail=True)
    config = await cluster.api.get("ConfigMap", cluster.namespace, "app")
    assert config is not None
    looked.field(cluster, "rolled_back", cluster.status.observed_generation)
    looked.field(cluster, "rolled_back_application", digest_of_application(config))
    looked.field(cluster, "failures.last", lambda last: "ZeroDivisionError" in last)
    looked.field(cluster, "failures.reason", "TakenBack")
    looked.field(cluster, "failures.time", is_time)
    looked.field(cluster, "failures.next_try", "")  # what was taken back is not tried again
    looked.field(cluster, "run.digest", digest)
    await cluster.until(cluster.runs, "what ran before runs again")
    source.feed(10)
    await _all_out(cluster, source)


def is_digest(value: str) -> bool:
    return len(value) == 64


async def _all_out(cluster: PlainCluster, source: Input) -> None:
    """Every line that there is has its result, and an epoch above it has been committed."""

    def settled() -> bool:
        told = cluster.told
        return (
            cluster.runs()
            and told is not None
            and len(cluster.delivered()) == source.lines
            and not told.unsaved_since
            and len(told.standbys) == 1
            and told.epoch > 0
            and sum(worker.in_flight for worker in told.workers) == 0
            and len(told.workers) == 2
            and sum(worker.items_out for worker in told.workers) > 0
            and bool(told.snapshot_size)
        )

    await cluster.until(settled, f"all {source.lines} lines are through")

    def written() -> bool:
        states = {each.state for each in cluster.status.drivers}
        return cluster.status.workers.standby == 1 and states == {"Running"}

    await cluster.until(written, "that is written")
