"""Kafka to inverted index to Kafka with `flamestream run`: whatever is killed, and be it the broker, every
byte is the reference's."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from flamestream.connectors.kafka.formats import encoder_of
from flamestream.connectors.kafka.items import place_in
from flamestream.job.application import load
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import interpret
from support.documents import texts
from support.eventually import eventually
from support.kafka_broker import Broker
from support.kafka_broker.topics import QUIET
from support.runs.cli_job import REPOSITORY, CliJob, explained
from support.runs.kills import Killer, Role, drawn

INDEX = REPOSITORY / "benchmarks" / "jobs" / "workload.py"
PARTITIONS = 3
PACE = 0.02
"""Seconds between documents: not a wait for anything, but a stream that lasts longer than the kills."""
W, C, L, Z = Role.WORKER, Role.COORDINATOR, Role.LAUNCHER, Role.ZOMBIE


class KafkaJob(CliJob):
    """A job whose output is one topic."""

    def __init__(
        self, broker: Broker, folder: Path, form: str, *, in_topic: bool = False, **options: Any
    ) -> None:
        """`in_topic`: the journal is in one too, reached as the source is."""
        self.broker = broker
        self.docs, self.index = broker.topic(PARTITIONS), broker.topic(PARTITIONS)
        at = {"brokers": broker.address}
        sink = {
            **at,
            "topic": self.index,
            "form": form,
            "key": "word",
            "value": "json",
            "control": f"control-{self.index}",
        }
        journal = (
            {"kafka": {"topic": f"journal-{self.docs}"}}
            if in_topic
            else {"folder": str(folder / "journal"), "fsync": False}
        )
        spec = {
            "sources": {"docs": {"kafka": {**at, "topic": self.docs, "readers": 2, "discoverSeconds": 0.5}}},
            "sinks": {"index": {"kafka": sink}},
            "journal": {**journal, "keep": True},
        }
        super().__init__(folder, INDEX, spec, **options)
        self._own = Consumer({"bootstrap.servers": broker.address, "group.id": "watch", **QUIET})
        self._seen = 0

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """Also a second start after a kill."""
        return super().start("--drain", *options)

    def output_bytes(self) -> int:
        """Offsets of the output: as good a measure of progress as bytes."""
        if self.broker.up:
            places = [TopicPartition(self.index, number) for number in range(PARTITIONS)]
            with contextlib.suppress(KafkaException):  # it has just come back
                self._seen = sum(self._own.get_watermark_offsets(place, 10)[1] for place in places)
        return self._seen

    def close(self) -> None:
        super().close()
        self._own.close()


@pytest.fixture
def jobs() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def delivered(job: KafkaJob, committed: bool) -> list[tuple[bytes, bytes | None, bytes | None]]:
    """Meta, key and value of every record, in the total order."""
    found = []
    for message in job.broker.read(job.index, committed, decided=committed):
        headers: Any = message.headers()
        place = place_in(headers)
        assert place is not None
        found.append((place.meta, message.key(), message.value()))
    return sorted(found)


def reference(lines: Mapping[int, str], order: list[int]) -> list[tuple[bytes, bytes]]:
    """Key and value of every change, if the documents entered in `order`."""
    runs = [
        (time_of(Timestamp(1 + place), FrontId(0)), [lines[number]]) for place, number in enumerate(order)
    ]
    encode = encoder_of("json")
    return [
        (payload.word.encode(), encode(payload))
        for _, payload in interpret(load(INDEX, "graph"), runs)["index"]
    ]


class Feeder(threading.Thread):
    """Feeds the documents' topic, through deaths of the broker, as far as is asked for: what is all there can
    be through before the last kill, whatever the pace."""

    def __init__(self, job: KafkaJob, lines: Mapping[int, str]) -> None:
        super().__init__(name="feeder", daemon=True)
        self._job, self._lines = job, lines
        self._wanted = 0
        self._changed = threading.Condition()

    def grow_to(self, part: float) -> None:
        """Have this part of the lines there soon."""
        with self._changed:
            self._wanted = max(self._wanted, int(part * len(self._lines)) + 1)
            self._changed.notify()

    def run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._job.broker.address,
                "linger.ms": 0,
                "enable.idempotence": True,
                **QUIET,
            }
        )
        for place, (number, line) in enumerate(self._lines.items()):
            with self._changed:
                self._changed.wait_for(partial(self._wants, place))
            producer.produce(self._job.docs, line.encode(), partition=number % PARTITIONS)
            producer.flush(60)
            time.sleep(PACE)

    def _wants(self, place: int) -> bool:
        return place < self._wanted


def survive(
    job: KafkaJob,
    count: int,
    seed: int,
    roles: list[Role],
    broker_dies_at: tuple[float, ...],
    committed: bool,
) -> None:
    lines = {number: f"{number}\t{text}" for number, text in enumerate(texts(count))}
    total = len(reference(lines, list(lines)))
    deaths = list(broker_dies_at)

    feeder = Feeder(job, lines)

    def meanwhile(part: float) -> None:
        feeder.grow_to(part + 0.05)
        if deaths and job.output_bytes() > deaths[0] * total:
            deaths.pop(0)
            job.broker.kill()
            job.broker.start()

    def outlived() -> bool:
        meanwhile(1.0)
        return not deaths

    killer = Killer(job, drawn(seed, roles), total, seed, meanwhile=meanwhile)
    with explained(job, killer):
        job.start()
        job.running()
        feeder.start()
        killer.run()
        eventually(outlived, "the broker's last death", within=120)
        feeder.join()
        eventually(lambda: len(delivered(job, committed)) >= total, "all documents are through", within=120)
        job.running()
        job.signal()
        assert job.end()[1]["outcome"] == "drained"
        changes = delivered(job, committed)
        order = list(
            dict.fromkeys(
                msgspec.json.decode(value)["document"] for _, _, value in changes if value is not None
            )
        )
        assert sorted(order) == list(lines), "every document is through"
        assert [(key, value) for _, key, value in changes] == reference(lines, order)
        audit = job.audit()
        assert (audit["clean"], audit["records"], audit["verdict"]["delivered"]) == (True, count, total), (
            audit
        )


def run(
    jobs: ExitStack, broker: Broker, folder: Path, form: str, *, spark: bool, in_topic: bool = False
) -> KafkaJob:
    job = KafkaJob(broker, folder, form, in_topic=in_topic, spark=spark)
    jobs.callback(job.close)
    return job


@pytest.mark.slow
def test_low_latency(broker: Broker, jobs: ExitStack, tmp_path: Path) -> None:
    survive(run(jobs, broker, tmp_path, "low-latency", spark=False), 400, 1, [W, Z], (0.2,), committed=False)


@pytest.mark.slow  # a minute: with its journal in a topic it runs at each push
def test_transactional_on_spark(broker: Broker, jobs: ExitStack, tmp_path: Path) -> None:
    survive(run(jobs, broker, tmp_path, "transactional", spark=True), 400, 2, [W, C], (0.2,), committed=True)


def test_with_its_journal_in_a_topic(broker: Broker, jobs: ExitStack, tmp_path: Path) -> None:
    job = run(jobs, broker, tmp_path, "low-latency", spark=False, in_topic=True)
    survive(job, 400, 3, [W, C, Z, L], (0.2, 0.5), committed=False)
    keys = [message.key() or b"" for message in broker.read(f"journal-{job.docs}")]
    assert any(b"/batch/" in key for key in keys), "it is there that the journal was"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(600, 603))
def test_with_its_journal_in_a_topic_for_long(
    broker: Broker, jobs: ExitStack, tmp_path: Path, seed: int
) -> None:
    job = run(jobs, broker, tmp_path, "low-latency", spark=False, in_topic=True)
    survive(job, 1500, seed, [W, W, Z, C, L, Z], (0.2, 0.5, 0.7), committed=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 503))
def test_low_latency_for_long(broker: Broker, jobs: ExitStack, tmp_path: Path, seed: int) -> None:
    survive(
        run(jobs, broker, tmp_path, "low-latency", spark=True),
        1500,
        seed,
        [W, W, W, C, L, Z],
        (0.2, 0.5, 0.7),
        committed=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(600, 603))
def test_transactional_for_long(broker: Broker, jobs: ExitStack, tmp_path: Path, seed: int) -> None:
    survive(
        run(jobs, broker, tmp_path, "transactional", spark=True),
        1500,
        seed,
        [W, W, W, C, L, Z],
        (0.2, 0.5, 0.7),
        committed=True,
    )
