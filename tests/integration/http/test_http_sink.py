"""The HTTP sink against the documented example server, a process of its own that is killed in between, and
against others."""

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed
from flamestream.model.ids import SinkName, Slot, WorkerId
from flamestream.model.quoted import plain
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, SINK, Outside, Worker, bundle, fence
from flamestream.testing.consumer_outages import CONSUMER_OUTAGE_CHECKS, StoppableOutside
from flamestream.testing.port_driver import PortDriver
from support.http.example import Example
from support.processes import suspend


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    made = Example(tmp_path)
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[Outside], None], example: Example) -> None:
    check(example)


@pytest.mark.parametrize("check", CONSUMER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
def test_contract_with_kills(check: Callable[[StoppableOutside], None], example: Example) -> None:
    check(example)


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[tuple[Any, Any]]]]:
    """A server that gives these answers, the last one again and again: its URL, and what it was sent
    (headers, body)."""
    asked: list[tuple[Any, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, data = answers[min(len(asked), len(answers) - 1)]
            asked.append((dict(self.headers), body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
        server.shutdown()
        thread.join()


class Place:
    """A sink of a URL."""

    def __init__(self, url: str, contract: str, **settings: Any) -> None:
        self.spec = {"http": {"url": url, "contract": contract, **settings}}

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        raise NotImplementedError


def test_a_server_that_does_not_keep_the_contract_is_found_out_at_the_start() -> None:
    with answering((200, b"OK")) as (url, _), PortDriver() as driver:
        Worker(Place(url, "fenced"), "w", driver).consumer.open(OpenSink(fence(1), SINK, [Slot(0)]))
        failed = driver.take(SinkFailed)
    assert failed.category == "user"
    assert "does not keep the contract `fenced`" in failed.message


def test_items_have_the_same_ids_whoever_sends_them() -> None:
    with answering((200, b"")) as (url, asked), PortDriver() as driver:
        for writer, attempt in (("w1", 1), ("w2", 2)):
            worker = Worker(Place(url, "idempotent"), writer, driver)
            worker.open(fence(attempt), 0)
            worker.deliver(fence(attempt), bundle(0, 1), bundle(0, 2))
    assert asked[0][1] == asked[1][1]
    assert [item["payload"] for item in asked[0][1]["items"]] == ["0/1", "0/2"]
    assert len({item["id"] for item in asked[0][1]["items"]}) == 2


def test_a_request_of_one_item_has_its_id_as_key(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with answering((200, b"")) as (url, asked), PortDriver() as driver:
        worker = Worker(Place(url, "idempotent", batch=1, token_file=str(tmp_path / "token")), "w", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1), bundle(0, 2))
    assert [headers["Idempotency-Key".lower()] for headers, _ in asked] == [
        body["items"][0]["id"] for _, body in asked
    ]
    assert {headers["authorization"] for headers, _ in asked} == {"Bearer secret"}


def test_what_was_answered_is_not_sent_again_after_a_failure() -> None:
    with (
        answering((200, b""), (503, b"busy"), (429, b""), (200, b"")) as (url, asked),
        PortDriver() as driver,
    ):
        worker = Worker(Place(url, "idempotent", batch=1), "w", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1), bundle(0, 2))
    assert [body["items"][0]["payload"] for _, body in asked] == ["0/1", "0/2", "0/2", "0/2"]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_ends_the_job_and_says_what_the_server_said(status: int) -> None:
    with answering((status, b"no such index")) as (url, _), PortDriver() as driver:
        worker = Worker(Place(url, "idempotent"), "w", driver)
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 1))
        failed = driver.take(SinkFailed)
    assert (failed.category, f"with {status}: no such index" in plain(failed.message)) == ("user", True)


def test_a_server_that_never_answers_is_told() -> None:

    with socket.create_server(("127.0.0.1", 0)) as silent, PortDriver() as driver:
        worker = Worker(
            Place(f"http://127.0.0.1:{silent.getsockname()[1]}/", "idempotent", timeout_ms=50), "w", driver
        )
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 1))
        driver.until(
            lambda: "timed out" in getattr(worker.consumer, "problem", ""), "a `problem` that says so"
        )
        assert not [event for event in driver.events if isinstance(event, BundlesAcknowledged)]


def test_a_server_that_answers_too_late_gets_each_item_once(example: Example, driver: PortDriver) -> None:
    """It stands still until we have given up on its answer, then takes what it was sent, and what it is sent
    again."""
    example.spec["http"]["timeout_ms"] = 200
    worker = Worker(example, "w", driver)
    worker.open(fence(1), 0)
    assert example.process is not None
    for sequence in (1, 2, 3):
        suspend(example.process.pid)
        try:
            worker.send(fence(1), bundle(0, sequence))
            driver.until(
                lambda: "timed out" in getattr(worker.consumer, "problem", ""), "a `problem` that says so"
            )
        finally:
            example.process.send_signal(signal.SIGCONT)
        driver.take(BundlesAcknowledged)
    assert example.taken() == [(0, sequence, bundle(0, sequence).items) for sequence in (1, 2, 3)]


def test_only_a_server_that_fences_is_exactly_once() -> None:
    assert sinks.describe({"http": {"url": "http://x/", "contract": "fenced"}}).fences
    refused = sinks.describe({"http": {"url": "http://x/", "contract": "idempotent"}}, "spec.sinks.out")
    assert not refused.fences
    assert "cannot keep out a worker that was replaced" in refused.refusal
