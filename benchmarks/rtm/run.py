"""One run of one job by one system between two new topics of a broker.

A pilot is there before the system starts, and its result says that it runs. Then records come at their rate:
for a warm-up, and for the seconds that are measured. Then the producer stops, and what is not there when the
sink's topic has stood still for some seconds, or after two minutes, is lost.
"""

import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness.drive import hang_up
from harness.job import _environment
from harness.kafka_outside import COMMON
from systems.base import Failed, Places, Running, start, stop

from rtm.judge import Result, judged, latencies
from rtm.records import JOBS, Schedule, is_pilot
from rtm.sides import Side

STARTED_WITHIN = 300.0
"""Seconds from a system's start to the pilot's result."""
REPORTED_WITHIN = 120.0
ENDED_WITHIN = 120.0
"""Seconds from the last record to the last result."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much, and for how long, in seconds."""

    rate: float = 1000.0
    warm_up: float = 60.0
    seconds: float = 60.0
    still: float = 10.0
    """Without a result, behind the last record: then no more will come."""


def topic(brokers: str) -> str:
    """A new one of one partition, whose records have the time of their append."""
    admin, name = AdminClient({"bootstrap.servers": brokers, **COMMON}), f"rtm-{uuid4().hex[:8]}"
    stamped = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(name, 1, 1, config=stamped)])[name].result(30)
    return name


def run(side: Side, job: str, brokers: str, load: Load) -> dict[str, Any]:
    """Latencies and faults. Raises Failed."""
    with (
        tempfile.TemporaryDirectory(prefix="flamestream-bench-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        folder = Path(name)
        places = Places(topic(brokers), topic(brokers), folder, brokers)
        sent, received = folder / "sent.json", folder / "received.json"
        producer = stack.enter_context(
            _outside("producer", brokers, places.source, sent, "--rate", str(load.rate))
        )
        consumer = stack.enter_context(
            _outside("consumer", brokers, places.sink, received, "--isolation", side.isolation)
        )
        running = start(side.command(job, places), folder)
        stack.callback(stop, running)
        took, begin, end = _measured(running, producer, consumer, load)
        _reported(producer)
        _await_end(places, load.still)
        stop(running)
        _reported(consumer)
        found = _found(job, load, json.loads(sent.read_text()), json.loads(received.read_text()), begin, end)
        return found | {"started_s": round(took, 1)}


def _measured(
    running: Running, producer: "subprocess.Popen[bytes]", consumer: "subprocess.Popen[bytes]", load: Load
) -> tuple[float, float, float]:
    """Seconds to the pilot's result, and from when to when is measured."""
    assert producer.stdin is not None
    began = time.time()
    lines = _said(consumer)
    while not next(lines):
        _look(running)
        if time.time() > began + STARTED_WITHIN:
            raise Failed(f"no result came in {STARTED_WITHIN:.0f} s:\n{running.tail()}")
    first = time.time()
    producer.stdin.write(b"go\n")
    producer.stdin.flush()
    begin = first + load.warm_up
    end = begin + load.seconds
    while time.time() < end:
        time.sleep(0.2)
        _look(running)
    return first - began, begin, end


def _said(process: "subprocess.Popen[bytes]") -> Iterator[bool]:
    """Whether it has said a line, asked again and again."""
    assert process.stdout is not None
    while True:
        yield bool(select.select([process.stdout], [], [], 0.2)[0])


def _await_end(places: Places, still: float) -> None:
    """Until the sink's topic has stood still, or has had its time."""
    consumer = Consumer({"bootstrap.servers": places.brokers, "group.id": "rtm-end", **COMMON})
    sink, size, since, deadline = TopicPartition(places.sink, 0), 0, time.time(), time.time() + ENDED_WITHIN
    while time.time() < min(since + still, deadline):
        time.sleep(0.5)
        _, end = consumer.get_watermark_offsets(sink, timeout=10)
        if end != size:
            size, since = end, time.time()
    consumer.close()


def _look(running: Running) -> None:
    if (code := running.process.poll()) is not None:
        raise Failed(f"the system ended with {code}:\n{running.tail()}")


def _reported(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    if process.wait(REPORTED_WITHIN):
        raise Failed(f"a process outside ended with {process.returncode}")


def _found(
    job: str, load: Load, sent: dict[str, Any], rows: list[Any], begin: float, end: float
) -> dict[str, Any]:
    schedule = Schedule(sent["start"], load.rate)
    results = [found for row in rows if not is_pilot((found := Result(*row)).value)]
    whole = judged(JOBS[job], schedule, sent["count"], results)
    return (
        latencies(whole, schedule, begin, end)
        | asdict(whole.faults)
        | {"records": sent["count"], "results": len(results), "late_p99_ms": sent["late_p99_ms"]}
    )


@contextmanager
def _outside(
    role: str, brokers: str, name: str, report: Path, *more: str
) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "rtm.outside", role, "--brokers", brokers, "--topic", name]
    process = subprocess.Popen(
        [*command, "--report", str(report), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", f"the {role} did not start"
        yield process
    finally:
        hang_up(process)
