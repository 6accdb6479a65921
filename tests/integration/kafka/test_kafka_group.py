"""Tools that show a consumer group's lag show a job's: its committed epochs, as Kafka's own command line has them."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from flamestream.job.application import load
from support.documents import texts
from support.eventually import eventually
from support.kafka_broker import Broker
from support.runs.cli_job import REPOSITORY, CliJob, explained

INDEX = REPOSITORY / "benchmarks" / "jobs" / "workload.py"
PARTITIONS, EACH = 3, 10
GROUP = "orders-lag"


class GroupJob(CliJob):
    """It reads a topic of three partitions with two readers, and tells a group."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.broker, self.docs = broker, broker.topic(PARTITIONS)
        source = {"brokers": broker.address, "topic": self.docs, "readers": 2, "group": GROUP}
        spec = {
            "sources": {"docs": {"kafka": source}},
            "sinks": {"index": {"files": {"path": "index", "fsync": False}}},
            "journal": {"folder": str(folder / "journal"), "fsync": False, "keep": True},
        }
        super().__init__(folder, INDEX, spec, spark=False)

    def write(self, first: int) -> None:
        """Ten documents into each partition."""
        for number, text in enumerate(texts(PARTITIONS * EACH)):
            place = first + number
            self.broker.write(self.docs, f"{place}\t{text}".encode(), partition=number % PARTITIONS)

    def group(self) -> dict[int, tuple[str, str, str]]:
        """Committed offset, end and lag of each partition, as kafka-consumer-groups prints them."""
        told = self.broker.tool(
            "consumer.group.ConsumerGroupCommand", "--describe", "--group", GROUP, "--timeout", "30000"
        )
        rows = [line.split() for line in told.splitlines() if self.docs in line.split()]
        return {int(row[2]): (row[3], row[4], row[5]) for row in rows}


@pytest.fixture
def jobs() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_kafkas_own_tool_shows_what_is_committed_and_no_lag_when_all_is(
    jobs: ExitStack, tmp_path: Path, broker: Broker
) -> None:
    job = GroupJob(tmp_path, broker)
    jobs.callback(job.close)
    with explained(job):
        job.start("--drain")
        job.running()
        job.write(0)
        caught_up = {number: (str(EACH), str(EACH), "0") for number in range(PARTITIONS)}
        eventually(lambda: job.group() == caught_up, "the group is at the end", within=60)
        job.signal()
        assert job.end()[1]["outcome"] == "drained"
        job.write(PARTITIONS * EACH)
        behind = {number: (str(EACH), str(2 * EACH), str(EACH)) for number in range(PARTITIONS)}
        assert job.group() == behind


@pytest.mark.slow
def test_a_job_never_reads_what_the_group_says(jobs: ExitStack, tmp_path: Path, broker: Broker) -> None:
    job = GroupJob(tmp_path, broker)
    jobs.callback(job.close)
    load(INDEX, "graph")  # its classes, to read results back
    job.write(0)
    ends = [TopicPartition(job.docs, number, EACH) for number in range(PARTITIONS)]
    admin = broker.admin()  # kept until the answer: its end ends what it was asked
    for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP, ends)]).values():
        future.result(30)
    with explained(job):
        job.start("--drain")
        job.running()
        eventually(
            lambda: {change.document for change in job.delivered("index")} == set(range(PARTITIONS * EACH)),
            "all documents are through",
            within=60,
        )
        job.signal()
        assert job.end()[1]["outcome"] == "drained"
        assert job.audit()["clean"]
