"""Spans leave by a thread; what does not fit is dropped and counted, and nobody waits."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from flamestream.node.tracing.export import SpanExport
from flamestream.node.tracing.span import Span
from support.eventually import eventually

SPAN = Span("source docs", 0xABC, 0xDEF, 0, 1_000, 2_000, "consumer", {"flamestream.records": 3})


class Receiver:
    """A server that takes OTLP, as the official protocol's package reads it."""

    def __init__(self, status: int) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.held = threading.Event()
        self.held.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.held.wait(30)
                body = self.rfile.read(int(self.headers["content-length"]))
                if status == 200:
                    outer.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def receiving(status: int = 200) -> Iterator[Receiver]:
    receiver = Receiver(status)
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.held.set()
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()


def test_a_span_arrives_as_it_was_given() -> None:
    with receiving() as receiver:
        export = SpanExport(receiver.endpoint, {"service.name": "job"})
        export.give(SPAN)
        export.close()
        eventually(lambda: export.counts() == (1, 0), "the span is exported")
        (resource,) = receiver.requests[0].resource_spans
        (span,) = resource.scope_spans[0].spans
    assert ("service.name", "job") in [
        (each.key, each.value.string_value) for each in resource.resource.attributes
    ]
    assert (span.name, int.from_bytes(span.trace_id, "big"), int.from_bytes(span.span_id, "big")) == (
        "source docs", 0xABC, 0xDEF,
    )  # fmt: skip
    assert (span.start_time_unix_nano, span.end_time_unix_nano, span.parent_span_id) == (
        1_000_000,
        2_000_000,
        b"",
    )
    assert [(each.key, each.value.int_value) for each in span.attributes] == [("flamestream.records", 3)]


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    with receiving() as receiver:
        receiver.held.clear()
        export = SpanExport(receiver.endpoint, {}, most=10)
        for _ in range(10_000):
            export.give(SPAN)
        exported, dropped = export.counts()
        assert exported == 0 and dropped >= 10_000 - 2 * 10
        receiver.held.set()
        export.close()
        eventually(lambda: sum(export.counts()) == 10_000, "each span is counted")


def test_what_the_collector_refuses_is_counted_and_said() -> None:
    with receiving(status=400) as receiver:
        export = SpanExport(receiver.endpoint, {})
        export.give(SPAN)
        export.close()
        eventually(lambda: export.counts() == (0, 1), "the span is dropped")
        assert "does not take spans" in export.problem
