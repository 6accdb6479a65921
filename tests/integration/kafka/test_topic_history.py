"""What another system wrote to topics becomes a history, and the verdict takes it."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from flamestream.audit.judged_history import judged_history
from flamestream.audit.topic_history import written
from flamestream.job.manifest import Job, read
from flamestream.job.validation import checked_job
from flamestream.model.errors import UserError
from support.kafka_broker import Broker
from support.kafka_broker.topics import QUIET

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("lengths")
graph.source("words").reduce(
    key=lambda word: word, initial=int, combine=lambda n, word: n + 1, emit=lambda n, word: fs.Map({"n": n})
).sink("counts", key=lambda row: "all")
"""


def job(broker: Broker, folder: Path, topics: tuple[str, str], **sink: Any) -> Job:
    words, counts = ({"brokers": broker.address, "topic": topic} for topic in topics)
    module = topics[0].replace("-", "_")  # one name each: a process loads each module once
    spec = {
        "application": {"file": f"{module}.py", "graph": "graph"},
        "sources": {"words": {"kafka": words}},
        "sinks": {"counts": {"kafka": counts | sink}},
        "workers": {"replicas": 1},
        "checkpoint": {"interval": "1s", "store": "snapshots"},
        "journal": {"folder": "journal"},
    }
    (folder / f"{module}.py").write_text(APPLICATION)
    head = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": {"name": "lengths"},
    }
    (folder / "job.yaml").write_text(json.dumps(head | {"spec": spec}))
    return read(folder / "job.yaml")


def in_a_transaction(broker: Broker, topic: str, value: bytes, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": f"{topic}-other", **QUIET})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, key=b"all", partition=0)
    producer.flush(30)
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)


@pytest.mark.parametrize(("form", "verdict"), [("transactional", "holds"), ("low-latency", "broken")])
def test_a_result_that_was_never_committed_counts_where_all_are_read(
    broker: Broker, tmp_path: Path, form: str, verdict: str
) -> None:
    topics = broker.topic(), broker.topic()
    broker.write(topics[0], b"a")
    in_a_transaction(broker, topics[1], b'{"n": 1}', commit=False)
    in_a_transaction(broker, topics[1], b'{"n": 1}', commit=True)
    made = job(broker, tmp_path, topics, form=form)
    written(made, tmp_path / "seen.jsonl")
    assert judged_history(checked_job(made), tmp_path / "seen.jsonl").verdict == verdict


def test_failures_stand_between_results_by_time_and_partitions_keep_their_order(
    broker: Broker, tmp_path: Path
) -> None:
    topics = broker.topic(), broker.topic(2)
    for at, partition, n in ((10, 0, 1), (30, 0, 2), (20, 0, 3), (15, 1, 4)):
        broker.write(topics[1], b'{"n": %d}' % n, key=b"all", partition=partition, timestamp=at)
    written(job(broker, tmp_path, topics), tmp_path / "seen.jsonl", [(25, {"crash": "it"})])
    lines = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert [line.get("value", line) for line in lines] == [
        {"n": 1}, {"n": 4}, {"crash": "it"}, {"n": 2}, {"n": 3}, {"end": True},
    ]  # fmt: skip


def test_a_value_that_is_neither_text_nor_json_is_refused(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"spec.sinks.counts.value: .* values that are text or json"):
        written(
            job(broker, tmp_path, (broker.topic(), broker.topic()), value="payload"), tmp_path / "seen.jsonl"
        )
