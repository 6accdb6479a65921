"""From HTTP to HTTP, traced: a client's trace goes on through the job to the server that results are posted to."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.ports import free_port
from support.runs.cli_job import REPOSITORY, CliJob, explained
from support.traces.collector import Collector, orphans
from support.traces.collector import collector as collector

INDEX = REPOSITORY / "benchmarks" / "jobs" / "workload.py"
CALLER, DOCUMENTS = "00f067aa0ba902b7", 6


@contextmanager
def hook() -> Iterator[tuple[str, list[tuple[str, list[dict[str, Any]]]]]]:
    """A server that takes all: its address; the context and the items of each request."""
    taken: list[tuple[str, list[dict[str, Any]]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            taken.append((self.headers.get("traceparent", ""), body["items"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def jobs() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def trace(number: int) -> str:
    return f"{0xABC000 + number:032x}"


def post(port: int, number: int) -> bool:
    """Whether a document was taken. Even ones come with a context that is sampled, odd ones with one that is not."""
    headers = {
        "Idempotency-Key": str(number), "traceparent": f"00-{trace(number)}-{CALLER}-{'00' if number % 2 else '01'}",
    }  # fmt: skip
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        try:
            connection.request("POST", "/", f"{number}\tto be or not to be {number}".encode(), headers)
        except ConnectionRefusedError:  # the source is not open yet
            return False
        return connection.getresponse().status == 200


def test_a_clients_trace_goes_on_to_the_server_that_gets_the_results(
    jobs: ExitStack, tmp_path: Path, collector: Collector
) -> None:
    port = free_port()
    with hook() as (url, taken):
        source = {"listen": f"127.0.0.1:{port}", "keys": "keys", "fsync": False}
        spec = {
            "sources": {"docs": {"http": source}},
            "sinks": {"index": {"http": {"url": url, "contract": "idempotent", "traceparent": True}}},
            "guarantee": "at-least-once",
            "journal": {"folder": str(tmp_path / "journal"), "fsync": False},
            "tracing": {"endpoint": collector.endpoint, "sample": "1/999999999"},
        }
        job = CliJob(tmp_path, INDEX, spec, spark=False)
        jobs.callback(job.close)
        with explained(job):
            job.start("--drain")
            job.running()
            for number in range(DOCUMENTS):
                eventually(partial(post, port, number), "the document is taken")
            eventually(
                lambda: {_document(item) for item in _items(taken)} == set(range(DOCUMENTS)),
                "all are through",
            )
            job.signal()
            assert job.end()[1]["outcome"] == "drained"
    sampled = {trace(number) for number in range(0, DOCUMENTS, 2)}
    spans = [span for span in collector.spans() if "recovery" not in span.name]
    spans = [
        span for span in spans if span.name.split()[0] in ("source", "journal", "process", "link", "sink")
    ]
    assert {span.trace for span in spans} == sampled
    assert {span.parent for span in spans if span.name == "source docs"} == {CALLER}
    assert orphans(spans, {CALLER}) == []
    sinks = {(span.trace, span.id) for span in spans if span.name == "sink index"}
    for item in _items(taken):
        if _document(item) % 2:
            assert "traceparent" not in item
        else:
            _, its_trace, span, _ = item["traceparent"].split("-")
            assert its_trace == trace(_document(item)) and (its_trace, span) in sinks
    assert any(header for header, _ in taken)
    for header, items in taken:
        assert header == next((item["traceparent"] for item in items if "traceparent" in item), "")


def _items(taken: list[tuple[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return [item for _, items in taken for item in items]


def _document(item: dict[str, Any]) -> int:
    return int(item["payload"]["document"])
