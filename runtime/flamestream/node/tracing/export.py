"""Export: spans to a collector, as OTLP over HTTP, by OpenTelemetry's own exporter in a thread of its own.

The loop puts a span into a bounded queue and goes on. What does not fit, and what the collector did not take
within `TIMEOUT`, is dropped and counted: a collector that is away, or slow, costs the stream nothing.

Spans are made as `ReadableSpan`, for the SDK's tracer draws ids by chance and ours are computed; its batch
processor drops without a count.

Keeps: spans leave in the order given, so a parent of one process before its children; memory is bounded.
Does not: decide what is traced (traced_worker.py).
"""

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from flamestream.machine.processors import anywhere
from flamestream.node.tracing.span import Span

if TYPE_CHECKING:  # the package is an extra: jobs without traces run without it
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import SpanContext

MOST_SPANS: Final = 8192
"""Spans that may wait: some seconds of a hundred traces a second."""
BATCH: Final = 512
EVERY_SECONDS: Final = 0.5
"""A process that is killed loses the spans of so long."""
TIMEOUT: Final = 5
"""Seconds that the collector has for a batch, tries and all."""
CLOSE_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


class SpanExport:
    """The spans of one process on their way to `endpoint`. `who`: attributes of the process."""

    def __init__(self, endpoint: str, who: Mapping[str, str], *, most: int = MOST_SPANS) -> None:
        self._endpoint, self._who, self._most = endpoint, dict(who), most
        self._queue: deque[Span] = deque()
        self._wake, self._closing = threading.Event(), False
        self._thread: threading.Thread | None = None
        self.exported = 0
        self.dropped = 0
        """Spans that did not fit, and those of `_refused`."""
        self._refused = 0
        self.problem = ""
        """The reason why spans are dropped now; "" if they are not."""

    def counts(self) -> tuple[int, int]:
        """Spans that the collector has taken, and spans that were dropped."""
        return self.exported, self.dropped + self._refused

    def give(self, span: Span) -> None:
        """Queue a span, or drop it. In the loop."""
        if len(self._queue) >= self._most:
            self.dropped += 1
            return
        self._queue.append(span)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="spans", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Export what waits, for a moment; the process ends whether or not the collector has it."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    # --- in the thread --------------------------------------------------------------------------------------

    def _serve(self) -> None:
        anywhere()  # a thread inherits the loop's processors
        convert, exporter = _Converter(self._who), exporter_to(self._endpoint)
        while not self._closing or self._queue:
            self._wake.wait(EVERY_SECONDS)
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                self._export(exporter, [convert(span) for span in batch])
        exporter.shutdown()

    def _export(self, exporter: "SpanExporter", batch: "list[ReadableSpan]") -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult  # an extra

        if exporter.export(batch) is SpanExportResult.SUCCESS:
            self.exported += len(batch)
            self.problem = ""
            return
        self._refused += len(batch)
        if not self.problem:
            self.problem = f"{self._endpoint} does not take spans: they are dropped"
            log.warning("spans are dropped", extra={"endpoint": self._endpoint})


def exporter_to(endpoint: str) -> "SpanExporter":
    """OpenTelemetry's exporter. What else it can do, its own environment variables say (headers above all)."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # an extra

    # It logs each batch that it gives up; here that is a count, and a line when it begins.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=TIMEOUT)


class _Converter:
    """From spans of ours to OpenTelemetry's."""

    def __init__(self, who: Mapping[str, str]) -> None:
        from opentelemetry.sdk.resources import Resource  # an extra
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._resource: Resource = Resource.create(who)
        self._scope: InstrumentationScope = InstrumentationScope("flamestream")

    def __call__(self, span: Span) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan  # an extra
        from opentelemetry.trace import SpanKind, Status, StatusCode

        return ReadableSpan(
            span.name,
            _context(span.trace, span.id),
            _context(span.trace, span.parent) if span.parent else None,
            self._resource,
            dict(span.attributes),
            kind=SpanKind[span.kind.upper()],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start * 1000,
            end_time=span.end * 1000,
            instrumentation_scope=self._scope,
        )


def _context(trace: int, span: int) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags  # an extra

    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
