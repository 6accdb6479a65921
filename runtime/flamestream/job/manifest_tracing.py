"""The part of a manifest that says which runs are traced, and where their spans go.

Does not: trace anything (node/tracing).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from flamestream.connectors.kit.spec import need
from flamestream.job.located import Path
from flamestream.job.manifest_parts import Part

if TYPE_CHECKING:
    from flamestream.job.manifest import Spec

_HEADER: Final = "traceparent"


class Tracing(Part, frozen=True):
    """Traces by OpenTelemetry, of some runs and of all recoveries."""

    endpoint: Annotated[
        str, Meta(min_length=1, max_length=1024, pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")
    ]
    """The collector: http://host:4318 or https://..., which takes OTLP at /v1/traces below it."""
    sample: Annotated[str, Meta(pattern=r"^1/[1-9][0-9]{0,8}$")] = "1/1000"
    """The part of runs that is traced, 1/1 for all. A record that comes with a sampled context of its sender
    is traced anyway."""

    def __post_init__(self) -> None:
        """Raises ValueError if the exporter is not installed."""
        for package in ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"):
            need(package, "otel")

    @property
    def every(self) -> int:
        """How many runs there are to one that is traced, about."""
        return int(self.sample.partition("/")[2])


def idle_tracing(spec: "Spec") -> Iterator[tuple[Path, str]]:
    """Settings of traces that would do nothing, each with the sentence that refuses it."""
    if spec.tracing is not None and spec.batches:
        yield ("spec", "tracing"), "a micro-batch job has no workers that pass runs on: remove it"
    for name, sink in spec.sinks.items():
        for kind, settings in sink.items() if isinstance(sink, dict) else ():
            if spec.tracing is None and isinstance(settings, dict) and settings.get(_HEADER):
                place = ("spec", "sinks", name, kind, _HEADER)
                yield place, "nothing is traced: say spec.tracing, or remove the line"
