"""Kafka to Kafka, traced: a record's trace goes on where its sender's was, over two workers and into the headers of
the results, and a kill leaves no span without a parent."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.documents import texts
from support.eventually import eventually
from support.kafka_broker import Broker
from support.runs.cli_job import REPOSITORY, CliJob, explained
from support.traces.collector import Collector, orphans
from support.traces.collector import collector as collector

INDEX = REPOSITORY / "benchmarks" / "jobs" / "workload.py"
DOCUMENTS = 60
CALLER = "00f067aa0ba902b7"


@pytest.fixture
def jobs() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class TracedJob(CliJob):
    """Of every document's run nothing is sampled but what its sender samples."""

    def __init__(self, folder: Path, broker: Broker, endpoint: str, *, sample: str) -> None:
        self.docs, self.index, self.broker = broker.topic(3), broker.topic(3), broker
        at = {"brokers": broker.address}
        sink = {
            **at,
            "topic": self.index,
            "key": "word",
            "control": f"control-{self.index}",
            "traceparent": True,
        }
        spec = {
            "sources": {"docs": {"kafka": {**at, "topic": self.docs, "readers": 2}}},
            "sinks": {"index": {"kafka": sink}},
            "journal": {"folder": str(folder / "journal"), "fsync": False},
            "tracing": {"endpoint": endpoint, "sample": sample},
        }
        super().__init__(folder, INDEX, spec, spark=False)

    def write(self, number: int, text: str) -> None:
        """A document; every third is in a trace of its sender's."""
        headers = {"traceparent": f"00-{self.trace(number)}-{CALLER}-01".encode()} if number % 3 == 0 else {}
        self.broker.write(self.docs, f"{number}\t{text}".encode(), partition=number % 3, headers=headers)

    @staticmethod
    def trace(number: int) -> str:
        return f"{0xABC000 + number:032x}"

    def results(self) -> list[tuple[int, str]]:
        """Each result's document, and the trace and span that its header names, or ""."""
        found = []
        for message in self.broker.read(self.index, decided=True):
            headers: Any = message.headers()
            context = dict(headers).get("traceparent", b"").decode()
            found.append((_document(message.value()), context))
        return found


def _document(value: bytes | None) -> int:
    import json

    assert value is not None
    return int(json.loads(value)["document"])


@pytest.mark.slow
def test_a_senders_trace_goes_on_through_both_workers_to_who_reads_the_results(
    jobs: ExitStack, tmp_path: Path, broker: Broker, collector: Collector
) -> None:
    job = TracedJob(tmp_path, broker, collector.endpoint, sample="1/999999999")
    jobs.callback(job.close)
    wanted = {job.trace(number) for number in range(0, DOCUMENTS, 3)}
    with explained(job):
        job.start("--drain")
        job.running()
        for number, text in enumerate(texts(DOCUMENTS)):
            job.write(number, text)
        eventually(
            lambda: {document for document, _ in job.results()} == set(range(DOCUMENTS)), "all are through"
        )
        job.signal(signal.SIGTERM)
        assert job.end()[1]["outcome"] == "drained"
    spans = [span for span in collector.spans() if span.trace in wanted]
    assert {span.trace for span in spans if span.name == "source docs" and span.parent == CALLER} == wanted
    assert {span.trace for span in spans if span.name == "sink index"} == wanted
    assert any(span.name.startswith("link") for span in spans)
    assert orphans(spans, {CALLER}) == []
    sinks = {(span.trace, span.id) for span in spans if span.name == "sink index"}
    for document, context in job.results():
        if document % 3:
            assert context == ""
        else:
            _, trace, span, flags = context.split("-")
            assert (trace, flags) == (job.trace(document), "01") and (trace, span) in sinks


@pytest.mark.slow
def test_a_killed_worker_leaves_no_orphan(
    jobs: ExitStack, tmp_path: Path, broker: Broker, collector: Collector
) -> None:
    job = TracedJob(tmp_path, broker, collector.endpoint, sample="1/1")
    jobs.callback(job.close)
    documents = texts(DOCUMENTS)
    with explained(job):
        job.start("--drain")
        first = job.running()
        for number in range(DOCUMENTS // 2):
            job.write(number, documents[number])
        eventually(lambda: len(job.results()) > 100, "some are through")
        victim = job.run_folder.worker(first.workers[1].worker)
        assert victim is not None
        os.kill(victim.pid, signal.SIGKILL)
        for number in range(DOCUMENTS // 2, DOCUMENTS):
            job.write(number, documents[number])
        job.running(first.attempt + 1)
        eventually(
            lambda: {document for document, _ in job.results()} == set(range(DOCUMENTS)), "all are through"
        )
        job.signal(signal.SIGTERM)
        assert job.end()[1]["outcome"] == "drained"
    spans = collector.spans()
    assert orphans(spans, {CALLER}) == []
    causes = {span.attributes["flamestream.kind"] for span in spans if span.name == "recovery"}
    assert "lost" in causes and {"decide", "record", "open", "seal"} <= {span.name for span in spans}
    assert any(span.name.startswith("replay") for span in spans)
