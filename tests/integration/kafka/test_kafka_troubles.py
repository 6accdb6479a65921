"""Kafka: what is done to topics behind our back, and brokers that do not answer. Nothing is passed over or
written twice in silence."""

import re
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from flamestream.core.protocol.actions import ReadRun
from flamestream.core.protocol.events import BundlesAcknowledged, Entry, SinkFailed, SourceFailed
from flamestream.model.ids import Offset
from flamestream.model.time import Time
from flamestream.testing.consumer_contract import Worker, bundle, fence
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, Front
from support.eventually import eventually
from support.kafka_broker import Broker
from support.places.kafka_places import Following, ReadTopic, WrittenTopic
from support.runs.cli_job import CliJob, explained

WORDS = [f"word {number}" for number in range(10)]
FORMS = pytest.mark.parametrize("form", ["transactional", "low-latency"])


def delete(broker: Broker, topic: str) -> None:
    """Back when it is gone."""
    broker.admin_call(lambda admin: admin.delete_topics([topic]))
    eventually(lambda: topic not in broker.admin().list_topics(timeout=10).topics, "the topic is deleted")


def problem(of: object) -> str:
    return getattr(of, "problem", "")


# --- the source ---------------------------------------------------------------------------------------------


def test_records_that_expire_in_front_of_a_reader_are_an_error_that_says_how_many(broker: Broker) -> None:
    """While it runs: it has no credit for what is fetched, and retention takes what is not fetched yet."""
    topic = ReadTopic(
        broker,
        *("x" * 100_000 for _ in range(40)),
        settings={"fetch.queue.backoff.ms": 1_000, "fetch.message.max.bytes": 100_000},
    )
    with PortDriver() as driver:
        following = Following(topic, driver, records=1)
        driver.until(lambda: len(following.payloads) == 1, "the first record")
        topic.write("last")
        broker.admin_call(lambda admin: admin.delete_records([TopicPartition(topic.name, 0, 40)]))
        following.pull()
        failed = following.failure()
    assert failed.category == "corrupt"
    lost = re.search(r"below 40: (\d+) offsets are lost to retention", failed.message)
    assert lost and 0 < int(lost[1]) < 40, failed.message


def test_a_topic_that_is_created_again_while_it_is_read_ends_the_job(broker: Broker) -> None:
    """With as many records as were read, so that every offset is there again."""
    topic = ReadTopic(broker, *WORDS)
    with PortDriver() as driver:
        following = Following(topic, driver)
        following.wait(*WORDS)
        delete(broker, topic.name)
        broker.topic(1, topic.name)
        topic.write(*(f"another {word}" for word in WORDS))
        failed = driver.take(SourceFailed)
    assert topic.name in failed.message
    assert failed.category in ("corrupt", "user")


def test_records_that_compaction_took_before_a_replay_are_an_error_that_says_how_many(broker: Broker) -> None:
    topic = ReadTopic(broker, *WORDS)
    with PortDriver() as driver:
        following = Following(topic, driver)
        following.producer.read(
            ReadRun(Front.fence(1), FRONT, Entry(Time(100), topic.partition, Offset(2), 5, end=Offset(5)))
        )
        failed = following.failure()
    assert failed.category == "corrupt"
    assert "the run of 5 records from offset 2 to before 5 has only 3 now" in failed.message


def test_a_source_tells_that_its_broker_is_away_and_goes_on_when_it_is_back(broker: Broker) -> None:
    topic = ReadTopic(broker, *WORDS)
    broker.kill()
    try:
        with PortDriver() as driver:
            following = Following(topic, driver)
            driver.until(lambda: bool(problem(following.producer)), "a `problem`")
            broker.start()
            following.wait(*WORDS)
            driver.until(lambda: not problem(following.producer), "no `problem` any more")
    finally:
        if not broker.up:
            broker.start()


def test_a_source_tells_that_its_broker_stands_still(broker: Broker) -> None:
    topic = ReadTopic(broker, *WORDS)
    with PortDriver() as driver:
        following = Following(topic, driver)
        following.wait(*WORDS)
        broker.pause()
        try:
            driver.until(lambda: bool(problem(following.producer)), "a `problem`")
        finally:
            broker.resume()
        topic.write("more")
        following.wait(*WORDS, "more")
        driver.until(lambda: not problem(following.producer), "no `problem` any more")


# --- the sink -----------------------------------------------------------------------------------------------


@FORMS
def test_an_output_topic_that_was_created_again_is_an_error(broker: Broker, form: str) -> None:
    """What was acknowledged is gone with the old one: whoever opens the sink says so."""
    topic = WrittenTopic(broker, form)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        worker.consumer.close()
        delete(broker, topic.name)
        broker.topic(3, topic.name)
        Worker(topic, "w2", driver).send_open(fence(2), 0)
        failed = driver.take(SinkFailed)
    assert failed.category == "corrupt"
    assert f"topic {topic.name!r} was deleted and created again" in failed.message


@FORMS
def test_an_output_topic_that_is_created_again_under_a_writer_ends_the_job(
    broker: Broker, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flamestream.connectors.kafka.sink_topics.LOOK_SECONDS", 0.05)
    topic = WrittenTopic(broker, form)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        delete(broker, topic.name)
        broker.topic(3, topic.name)
        for sequence in range(2, 1000):
            number = worker.send(fence(1), bundle(0, sequence))
            driver.until(lambda number=number: _answered(driver, number), "an answer")  # type: ignore[misc]  # bound at once
            if any(isinstance(event, SinkFailed) for event in driver.events):
                break
        failed = driver.take(SinkFailed)
    assert failed.category in ("corrupt", "user")
    assert topic.name in failed.message


def _answered(driver: PortDriver, number: int) -> bool:
    return any(
        isinstance(event, SinkFailed) or getattr(event, "number", 0) == number for event in driver.events
    )


@FORMS
def test_a_topic_that_is_deleted_under_a_writer_ends_the_job_with_what_to_do(
    broker: Broker, form: str
) -> None:
    topic = WrittenTopic(broker, form)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        delete(broker, topic.name)
        worker.send(fence(1), bundle(0, 2))
        failed = driver.take(SinkFailed)
    assert failed.category == "user"
    assert topic.name in failed.message
    assert "create it" in failed.message


@FORMS
def test_a_control_topic_that_is_deleted_under_a_writer_ends_the_job(broker: Broker, form: str) -> None:
    topic = WrittenTopic(broker, form, **({"commitSeconds": 0.05} if form == "low-latency" else {}))
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        delete(broker, topic.spec["kafka"]["control"])
        worker.send(fence(1), bundle(0, 2))
        failed = driver.take(SinkFailed)
    assert failed.category in ("user", "corrupt")
    assert topic.spec["kafka"]["control"] in failed.message


@FORMS
def test_a_sink_tells_that_its_broker_stands_still_and_delivers_once_when_it_goes_on(
    broker: Broker, form: str
) -> None:
    topic = WrittenTopic(broker, form)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        broker.pause()
        try:
            worker.send(fence(1), bundle(0, 2))
            driver.until(lambda: bool(problem(worker.consumer)), "a `problem`")
            assert not [event for event in driver.events if isinstance(event, BundlesAcknowledged)]
        finally:
            broker.resume()
        driver.take(BundlesAcknowledged)
        driver.until(lambda: not problem(worker.consumer), "no `problem` any more")
    assert [sequence for _, sequence, _ in topic.taken()] == [1, 2]


def names(host: str, port: object) -> bool:
    return host in problem(port)


@pytest.mark.parametrize("address", ["nowhere.invalid:9092", "127.0.0.1:1"])
def test_brokers_that_cannot_be_reached_are_told_by_source_and_sink(broker: Broker, address: str) -> None:
    read, written = ReadTopic(broker), WrittenTopic(broker, "transactional")
    for topic in (read, written):
        topic.spec["kafka"]["brokers"] = address
    with PortDriver() as driver:
        following, worker = Following(read, driver), Worker(written, "w1", driver)
        worker.send_open(fence(1), 0)
        for port in (following.producer, worker.consumer):
            driver.until(partial(names, address.partition(":")[0], port), f"a `problem` of {port}")
        assert driver.events == []


# --- windows ------------------------------------------------------------------------------------------------

HOURS = """
import flamestream as fs

graph = fs.Graph("hours")
seconds = graph.source("seconds", int, at=lambda second: second, unit="s")
seconds.window(fs.tumbling("1h"), key=lambda second: 0).count().map(lambda window: window.value).sink("hours")
seconds.sink("seconds")
"""


def test_a_window_may_be_longer_than_its_topic_keeps_records(broker: Broker, tmp_path: Path) -> None:
    """It is in the snapshot: a start reads what has come since."""
    topic = ReadTopic(broker, *(str(second) for second in range(10)))
    (tmp_path / "hours.py").write_text(HOURS)
    spec = {
        "sources": {"seconds": {"kafka": topic.spec["kafka"] | {"value": "json"}}},
        "sinks": {name: {"files": {"path": name, "fsync": False}} for name in ("hours", "seconds")},
        "journal": {"folder": "journal"},
        "checkpoint": {"interval": "200ms", "store": "store"},
    }
    job = CliJob(tmp_path, tmp_path / "hours.py", spec, spark=False)
    with closing(job), explained(job):
        drained(job, 10)
        broker.admin_call(lambda admin: admin.delete_records([TopicPartition(topic.name, 0, 10)]))
        topic.write("11", "3601")
        drained(job, 12)
        assert job.delivered("hours") == [11]


def drained(job: CliJob, records: int) -> None:
    """Run until so many are through, and everything is in a snapshot."""
    job.start("--drain")
    job.running()
    eventually(lambda: len(job.delivered("seconds")) == records, "all records are through")
    job.signal()
    assert job.end()[1]["outcome"] == "drained"
