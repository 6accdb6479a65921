"""Kafka to inverted index to Kafka at a fixed rate, in both forms of the sink, beside what Kafka alone costs
in the same run.

    python benchmarks kafka                                  # the table of
                                                             docs/explanation/performance-of-parts.md
    python benchmarks kafka --forms low-latency --documents 400 --brokers host:9092

A document's latency is from its `produce` by one process to the receipt of its last change by another, on one
clock. The floors: a document produced and consumed with nothing between (p50, p99), and a transaction of one
small record, begun and committed. Without --brokers a broker of its own is started
(tests/support/kafka_broker says from what).
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness import JOBS
from harness.job import DEADLINE, Outcome, _end, _environment, measured, noise
from harness.job_file import manifest_of, run_command
from harness.kafka_outside import COMMON

DOCUMENT = b"x" * 1500
ISOLATION = {"transactional": "read_committed", "low-latency": "read_uncommitted"}


def topic(brokers: str, partitions: int) -> str:
    """A new one."""
    admin, name = AdminClient({"bootstrap.servers": brokers, **COMMON}), f"bench-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, partitions, -1)])[name].result(30)
    return name


def floors(brokers: str, rate: float, count: int) -> dict[str, float]:
    """What Kafka costs without us, in milliseconds."""
    name = topic(brokers, 1)
    plain = Producer(
        {"bootstrap.servers": brokers, "linger.ms": 0, "acks": "all", "enable.idempotence": True, **COMMON}
    )
    own = {"group.id": "floor", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": brokers, **own, **COMMON})
    consumer.assign([TopicPartition(name, 0, 0)])
    transactional = Producer(
        {"bootstrap.servers": brokers, "linger.ms": 0, "transactional.id": name, **COMMON}
    )
    transactional.init_transactions(30)

    def through() -> None:
        plain.produce(name, DOCUMENT)
        plain.poll(0)
        assert consumer.poll(30) is not None

    def transaction() -> None:
        transactional.begin_transaction()
        transactional.produce(empty, b"x")
        transactional.commit_transaction(30)

    empty = topic(brokers, 1)
    return {
        **_timed("through", through, rate, count),
        **_timed("empty_transaction", transaction, rate, count),
    }


def _timed(name: str, call: Callable[[], None], rate: float, count: int) -> dict[str, float]:
    took = []
    due = time.monotonic()
    for _ in range(count + 20):
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        call()
        took.append((time.monotonic() - began) * 1e3)
        due += 1 / rate
    took = sorted(took[20:])
    return {
        f"{name}_p50": round(took[len(took) // 2], 2),
        f"{name}_p99": round(took[int(len(took) * 0.99)], 2),
    }


def run(options: argparse.Namespace, form: str) -> Outcome:
    """One job, to the receipt of its last change."""
    docs, index = topic(options.brokers, options.partitions), topic(options.brokers, options.partitions)
    with tempfile.TemporaryDirectory(prefix="flamestream-bench-") as made, contextlib.ExitStack() as stack:
        folder = Path(made)
        sent, received = folder / "sent.json", folder / "received.json"
        consumer = stack.enter_context(
            _outside("consumer", options.brokers, index, received, "--isolation", ISOLATION[form])
        )
        amount = ["--documents", str(options.documents), "--rate", str(options.rate)]
        producer = stack.enter_context(_outside("producer", options.brokers, docs, sent, *amount))
        command = run_command(folder, manifest(options, form, folder, docs, index))
        log = stack.enter_context((folder / "engine.log").open("wb"))
        engine = subprocess.Popen(
            [*command, "--drain", *(["--no-spark"] if options.no_spark else [])],
            stdout=log,
            stderr=log,
            env=_environment(),
        )
        stack.callback(_end, engine)
        _await_running(folder / "run", engine)
        assert producer.stdin is not None and producer.stdout is not None
        producer.stdin.write(b"go\n")
        producer.stdin.flush()
        assert producer.stdout.readline() == b"sent\n"
        time.sleep(options.grace)
        engine.terminate()
        if engine.wait(DEADLINE) != 0:
            raise SystemExit(
                f"the job ended with {engine.returncode}:\n{(folder / 'engine.log').read_text()[-4000:]}"
            )
        consumer.terminate()
        consumer.wait(60)
        return measured(json.loads(sent.read_text()), json.loads(received.read_text()), options.warm_up)


def manifest(options: argparse.Namespace, form: str, folder: Path, docs: str, index: str) -> dict[str, Any]:
    """The job."""
    sink = {
        "brokers": options.brokers,
        "topic": index,
        "form": form,
        "key": "word",
        "value": "json",
        "control": f"control-{index}",
    }
    if form == "low-latency":
        sink["commitSeconds"] = options.commit_seconds
    spec = {
        "application": {"file": str(JOBS / "workload.py"), "graph": "graph"},
        "sources": {"docs": {"kafka": {"brokers": options.brokers, "topic": docs}}},
        "sinks": {"index": {"kafka": sink}},
        "workers": {"replicas": options.workers},
        "checkpoint": {"interval": options.interval, "store": str(folder / "store")},
        "journal": {"folder": str(folder / "journal")},
    }
    return manifest_of("bench", spec)


def _await_running(folder: Path, engine: "subprocess.Popen[bytes]") -> None:
    status = folder / "status.json"
    while not (status.exists() and json.loads(status.read_text())["phase"] == "running"):
        if engine.poll() is not None:
            raise SystemExit(
                f"the job ended with {engine.returncode}: "
                f"{(folder.parent / 'engine.log').read_text()[-2000:]}"
            )
        time.sleep(0.05)


@contextlib.contextmanager
def _outside(
    role: str, brokers: str, name: str, report: Path, *more: str
) -> "Iterator[subprocess.Popen[bytes]]":
    command = [
        sys.executable,
        "-m",
        "harness.kafka_outside",
        role,
        "--brokers",
        brokers,
        "--topic",
        name,
        "--report",
        str(report),
        *more,
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment())
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"ready"), f"the {role} did not start"
    try:
        yield process
    finally:
        _end(process)


@contextlib.contextmanager
def _broker(given: str) -> Iterator[str]:
    if given:
        yield given
        return
    from support.kafka_broker import Broker

    with tempfile.TemporaryDirectory(prefix="flamestream-kafka-") as folder:
        broker = Broker(Path(folder))
        try:
            broker.start()
            yield broker.address
        finally:
            broker.kill()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", default="")
    parser.add_argument("--forms", default="low-latency,transactional")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--warm-up", type=int, default=250)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--commit-seconds", type=float, default=0.5)
    parser.add_argument("--grace", type=float, default=2.0, help="seconds for the last results")
    parser.add_argument("--floor-count", type=int, default=300)
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args()
    with _broker(options.brokers) as options.brokers:
        print(
            json.dumps({"floors_ms": floors(options.brokers, options.rate, options.floor_count)} | noise()),
            flush=True,
        )
        for form in options.forms.split(","):
            print(json.dumps({"form": form} | run(options, form).row() | noise()), flush=True)


if __name__ == "__main__":
    main()
