"""The screens of `list` and `status`: from objects to lines. Pure.

Does not: ask anybody.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from flamestream.cli.kubectl.cluster import ROLE, Object, condition
from flamestream.job import object_names

MARKS = {"Ready": "ready", "Running": "running", "Checkpointing": "checkpointing"}


def row(job: Object) -> dict[str, str]:
    """A job in `list`."""
    status = job.get("status") or {}
    return {
        "namespace": job["metadata"]["namespace"],
        "job": job["metadata"]["name"],
        "phase": status.get("phase", "Pending"),
        "ready": condition(job, "Ready").get("status", "Unknown"),
        "guarantee": job["spec"].get("guarantee", ""),
        "workers": (status.get("workers") or {}).get("summary", ""),
        "attempt": str(status.get("attempt", "")),
        "epochs": condition(job, "Checkpointing").get("reason", ""),
        "message": status.get("message", ""),
    }


def table(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """All of them, in columns as wide as what is in them, as kubectl's are: a name that is cut is of no use
    to the next command."""
    names = list(rows[0]) if rows else ["job"]
    lines = [[name.upper() for name in names], *([*each.values()] for each in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def lines(job: Object, pods: Sequence[Object], now: datetime | None = None) -> Iterator[str]:
    """A job in `status`."""
    status = job.get("status") or {}
    holds = [word for kind, word in MARKS.items() if condition(job, kind).get("status") == "True"]
    yield (
        f"{job['metadata']['namespace']}/{job['metadata']['name']}: {status.get('phase', 'Pending')} "
        f"({', '.join(holds) or 'not ready'})"
    )
    if status.get("message"):
        yield f"  {status['message']}"
    spec = job["spec"]
    yield (
        f"graph      {spec['application']['file']}:{spec['application']['graph']}, "
        f"{spec.get('guarantee', '')}"
    )
    yield f"sources    {_named(spec['sources'])}"
    yield f"sinks      {_named(spec['sinks'])}"
    if queries := spec.get("queries"):
        yield f"queries    {object_names.queries(job['metadata']['name'])}:{queries['listen'].rpartition(':')[2]}"
    yield from _figures(status, now or datetime.now(UTC))
    for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"]):
        yield _pod(pod)
    for problem in status.get("problems") or ():
        yield f"problem    {problem}"


def _figures(status: Object, now: datetime) -> Iterator[str]:
    workers, epoch, recovery = status.get("workers") or {}, status.get("epoch"), status.get("recovery")
    age = f", {_age(epoch['time'], now)} ago" if epoch else ""
    yield f"stream     attempt {status.get('attempt', 0)}, epoch {epoch['number'] if epoch else 'none'}{age}"
    yield f"workers    {workers.get('summary', '0/0')}, {workers.get('standby', 0)} standby"
    if latency := status.get("latency"):
        figures = [latency.get(name, 0) for name in ("p50Ms", "p99Ms", "deliveredP50Ms", "deliveredP99Ms")]
        form = (
            "latency    {:g} ms (p50), {:g} ms (p99) to the release; "
            "{:g}, {:g} ms to the consumer's acknowledgment"
        )
        yield form.format(*figures)
    for source, moment in (status.get("eventTimes") or {}).items():
        late = (status.get("late") or {}).get(source, 0)
        yield f"event time {source}: {moment}{f', {late:,} late' if late else ''}"
    for source, skipped in (status.get("skipped") or {}).items():
        yield f"source {source}: {skipped:,} records skipped by recoveries"
    snapshot = status.get("snapshot") or {}
    if snapshot.get("size"):
        yield f"snapshot   {snapshot['size']:,} bytes in {snapshot['store']}"
    if recovery:
        when = f"{_age(recovery['time'], now)} ago, {recovery.get('count', 0)} in this run"
        yield f"recovery   {recovery['cause']}: {recovery['durationMs']:.0f} ms, {when}"
    suspension = status.get("suspension")
    if suspension:
        yield (
            f"suspended  at epoch {suspension['epoch']}, cut {suspension['cut']}, {suspension['outputs']:,} "
            "results delivered"
        )


def _pod(pod: Object) -> str:
    meta, status = pod["metadata"], pod.get("status") or {}
    role = meta["labels"].get(ROLE, "?")
    going = " (terminating)" if meta.get("deletionTimestamp") else ""
    place = f"{pod['spec'].get('nodeName', '-')}  {status.get('podIP', '-')}"
    return f"{role:<10} {meta['name']}  {status.get('phase', 'Pending')}{going}  {place}"


def _named(parts: dict[str, Any]) -> str:
    return ", ".join(f"{name} ({next(iter(settings))})" for name, settings in parts.items())


def _age(text: str, now: datetime) -> str:
    seconds = max(0, int((now - datetime.fromisoformat(text)).total_seconds()))
    return (
        f"{seconds} s"
        if seconds < 120
        else f"{seconds // 60} min"
        if seconds < 7200
        else f"{seconds // 3600} h"
    )
