"""What Flink did, by definitions 5 to 10: one job from Kafka to Kafka in both of its modes, whose task manager is
killed with SIGKILL while it runs; and the verdict on the topics.

    python benchmarks histories                              # four runs: some ten minutes
    python benchmarks histories --runs two-topics/exactly-once --kills 2 --keep FOLDER

The job (peers/flink/Ledger.java) keeps accounts; the same as a graph is in jobs/ledger_graphs.py. From one topic
an account's records have one order. From two they come together as they come, and what is refused depends on it.
Each part of the records is written at an even rate, the kill falls in its middle, and the next part begins when
each record so far has a result. `flamestream history` makes the history of the topics; what was never committed
is judged as well. Checkpoints are a second apart. Flink and its connector come from Maven Central, as does Kafka.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import Producer
from harness import JOBS
from harness.drive import machine, noise
from harness.job_file import manifest_of
from harness.report import CACHE
from harness.rows import keep
from harness.tables.histories import histories_table
from systems.base import AT_LEAST_ONCE, EXACTLY_ONCE, Failed
from systems.flink import Flink
from systems.flink_cluster import FlinkCluster

from flamestream.audit.judged_history import judged_history
from flamestream.audit.topic_history import Timed, written
from flamestream.job.manifest import read
from flamestream.job.validation import checked_job
from support.kafka_broker import Broker

OUT: Final = CACHE / "histories.jsonl"
SOURCES: Final = {"one-topic": ("records",), "two-topics": ("paid-in", "paid-out")}
MODES: Final = (EXACTLY_ONCE, AT_LEAST_ONCE)
USERS: Final = 100
RATE: Final = 500.0
"""Records a second."""
WITHIN: Final = 600.0
"""Seconds that the records of a part may take."""
INTERVAL: Final = "1 s"


class Run:
    """One job in one mode, between topics of its own."""

    def __init__(self, broker: Broker, folder: Path, job: str, mode: str) -> None:
        self.job, self.mode, self._broker, self._folder = job, mode, broker, folder
        self._topics = {source: broker.topic(2) for source in SOURCES[job]}
        self._results = broker.topic(2, message_timestamp_type="LogAppendTime")
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, "log_level": 0})
        self._written, self._rng, self.crashes = 0, Random(1), list[Timed]()

    def through(self, records: int, kills: int) -> None:
        """All records, and a kill in each part but the last. Raises Failed."""
        arguments = [self._broker.address, ",".join(self._topics.values()), self._results, self.mode]
        settings = {
            "execution.checkpointing.interval": INTERVAL,
            "execution.checkpointing.mode": self.mode.upper().replace("-", "_"),
        }
        flink = FlinkCluster(self._folder / "flink", "Ledger", arguments, settings)
        try:
            self._part(flink, 100, kill=False)  # until all is up
            for part in range(kills + 1):
                self._part(flink, records // (kills + 1), kill=part < kills)
        finally:
            flink.stop()

    def judged(self, committed: bool) -> dict[str, Any]:
        """The verdict on what stands in the topics now."""
        file = self._folder / f"{'committed' if committed else 'all'}.yaml"
        file.write_text(json.dumps(manifest_of(self.job, self._spec(committed))))
        job, seen = read(file), file.with_suffix(".jsonl")
        written(job, seen, self.crashes)
        report = asdict(judged_history(checked_job(job), seen))
        about = {
            "measure": f"{self.job}/{self.mode}",
            "job": self.job,
            "mode": self.mode,
            "committed": committed,
        }
        return {**about, "kills": len(self.crashes), **repeats(seen), **report}

    def _spec(self, committed: bool) -> dict[str, Any]:
        brokers = {"brokers": self._broker.address}
        form = {"form": "transactional" if committed else "low-latency"}
        graph = self.job.replace("-", "_")
        return {
            "application": {"file": str(JOBS / "ledger_graphs.py"), "graph": graph},
            "guarantee": self.mode,
            "sources": {name: {"kafka": brokers | {"topic": topic}} for name, topic in self._topics.items()},
            "sinks": {"results": {"kafka": brokers | {"topic": self._results, "key": "user"} | form}},
            "workers": {"replicas": 1},
            "checkpoint": {"interval": "1s", "store": str(self._folder / "store")},
            "journal": {"folder": str(self._folder / "journal")},
        }

    def _part(self, flink: FlinkCluster, records: int, kill: bool) -> None:
        """Written at an even rate, through a kill, until each record has a result."""
        for number in range(records):
            if kill and number == records // 2:
                self.crashes.append((int(time.time() * 1000), {"crash": "the task manager"}))
                flink.kill()
            self._write()
            time.sleep(1 / RATE)
        self._producer.flush()
        deadline = time.monotonic() + WITHIN
        while self._with_results() < self._written:
            if time.monotonic() > deadline or not flink.up:
                raise Failed(f"{self.job}, {self.mode}: results are missing:\n{flink.log}")
            time.sleep(1)

    def _write(self) -> None:
        """A record: of each user some pay in and some out."""
        self._written += 1
        user, cents = drawn(self._rng)
        topic = list(self._topics.values())[cents < 0 and len(self._topics) > 1]
        self._producer.produce(topic, f"{self._written} {user} {cents}", key=user)
        self._producer.poll(0)

    def _with_results(self) -> int:
        return len({json.loads(message.value() or b"")["id"] for message in self._broker.read(self._results)})


def drawn(rng: Random) -> tuple[str, int]:
    """The user of a record, and the cents that are paid in or out."""
    return f"u{rng.randrange(USERS)}", rng.choice((-7, -3, 2, 5, 9))


def repeats(seen: Path) -> dict[str, int]:
    """By a plain loop: results that came again as they were, and records with two results that differ."""
    values: defaultdict[int, list[int]] = defaultdict(list)
    for line in map(json.loads, seen.read_text().splitlines()):
        if "out" in line:
            values[line["value"]["id"]].append(line["value"]["cents"])
    different = {record: len(set(theirs)) for record, theirs in values.items()}
    doubled = sum(len(theirs) - different[record] for record, theirs in values.items())
    return {"doubled": doubled, "contradicted": sum(count > 1 for count in different.values())}


def runs(broker: Broker, folder: Path, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each run and way of reading."""
    for job in SOURCES:
        for mode in MODES:
            if f"{job}/{mode}" in asked.runs:
                place = folder / f"{job}-{mode}"
                place.mkdir()
                run = Run(broker, place, job, mode)
                run.through(asked.records, asked.kills)
                yield run.judged(committed=mode == EXACTLY_ONCE)
                if mode == EXACTLY_ONCE:
                    yield run.judged(committed=False)


@contextmanager
def folder_at(path: Path | None) -> Iterator[Path]:
    """That folder, or one for as long as it is needed."""
    if path is None:
        with tempfile.TemporaryDirectory(prefix="histories-") as made:
            yield Path(made)
    else:
        path.mkdir(parents=True)
        yield path.resolve()


def main() -> None:
    every = [f"{job}/{mode}" for job in SOURCES for mode in MODES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=lambda text: text.split(","), default=every)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="a new folder: histories, logs and topics stay there")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, which are added")
    asked = parser.parse_args()
    flink, found = Flink(), []
    flink.prepare()
    about = {"versions": flink.versions(), "machine": machine(), "noise": noise()}
    with folder_at(asked.keep) as folder:
        broker = Broker(folder / "kafka")
        try:
            broker.start()
            for row in runs(broker, folder, asked):
                when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                found.append(row | about | {"when": when})
                keep(asked.out, found[-1])
        finally:
            broker.kill()
    print(histories_table(found))


if __name__ == "__main__":
    main()
