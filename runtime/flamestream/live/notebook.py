"""A job in a notebook: its state and its audit as tables of HTML, its newest results and its latencies as DataFrames.

>>> page("a", [("b", "<c>")])
'<table><caption>a</caption><tr><th>b</th><td>&lt;c&gt;</td></tr></table>'

Keeps: whatever a job says is text, never markup. Does not: ask a worker (client.py).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from flamestream.connectors import sinks
from flamestream.job.manifest import Job as Manifest
from flamestream.job.status import JobStatus, OperationFigures
from flamestream.live.latency_picture import SECOND, around, latencies, recovery_of
from flamestream.live.recovery_picture import picture
from flamestream.model.errors import ManifestError, UserError
from flamestream.model.meta import time_of_meta
from flamestream.model.payloads.plain import plain
from flamestream.model.time import front_of, timestamp_of
from flamestream.node.samples import Sample

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def page(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{''.join(cells)}</table>"


@dataclass(frozen=True, slots=True)
class Shown:
    """The state of a job, as its coordinator has written it last, and its last hour."""

    status: JobStatus
    samples: Sequence[Sample] = ()
    """The newest last."""

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        told, last = self.status, self.status.last_recovery
        rows: list[tuple[str, object]] = [
            ("phase", told.outcome or told.phase),
            ("workers", f"{len(told.workers)}, {len(told.standbys)} standby"),
            ("attempt, epoch", f"{told.attempt}, {told.epoch}"),
            ("items in, results out", f"{told.items_in:,}, {told.items_out:,}"),
        ]
        if told.release is not None:
            rows.append(("latency p50 / p99, ms", f"{told.release.p50_ms:g} / {told.release.p99_ms:g}"))
        if last is not None and last.duration_ms:
            steps = ", ".join(f"{step} {took:.1f}" for step, took in last.steps_ms.items())
            rows.append(("last recovery, ms", f"{last.duration_ms:.1f} ({steps}): {last.cause}"))
        rows += [(each.operation, _figures(each)) for each in told.operations]
        return page(told.job, [*rows, *(("problem", each) for each in told.problems)]) + "".join(
            (picture(told), latencies(self.samples, told))
        )

    def latency(self, seconds: float) -> "pd.DataFrame":
        """As `Job.latency`."""
        pandas, (cause, end) = _pandas(), recovery_of(self.status) or (0, 0)
        near = around(self.samples, self.status, seconds)
        rows = [
            {**msgspec.structs.asdict(each), "recovering": cause < each.at and each.at - SECOND < end}
            for each in near
        ]
        return pandas.DataFrame(rows, columns=[*Sample.__struct_fields__, "recovering"])


def _figures(operation: OperationFigures) -> str:
    """Figures of an operation, in a line."""
    said = [f"{operation.in_rate:,.0f} /s in", f"{operation.out_rate:,.0f} /s out"]
    if operation.item_us is not None:
        said.append(f"{operation.item_us:.1f} us an item")
    if operation.keys:
        said.append(f"{operation.keys:,} keys, {operation.state_bytes:,} bytes")
    return ", ".join(said)


def newest(manifest: Manifest, sink: str, last: int) -> "pd.DataFrame":
    """The last items of a sink in the total order, a row each: time, front and slot, and its payload as JSON has it,
    the fields of a class in columns of their own. Raises ManifestError for a sink that there is not."""
    pandas = _pandas()
    if sink not in manifest.spec.sinks:
        there = ", ".join(manifest.spec.sinks)
        raise ManifestError(f"{manifest.document.file}: there is no sink {sink!r}; it has {there}")
    rows = []
    for meta, slot, _, payload in deque(
        sinks.read(manifest.sink(sink), f"spec.sinks.{sink}", manifest.name), last
    ):
        said = msgspec.to_builtins(payload, enc_hook=plain)
        time = time_of_meta(meta)
        fields = said if isinstance(said, dict) else {"payload": said}
        rows.append({"time": timestamp_of(time), "front": front_of(time), "slot": slot, **fields})
    return pandas.DataFrame(rows)


def _pandas() -> Any:
    try:
        import pandas as pd  # an extra
    except ImportError as error:
        raise UserError("a DataFrame needs pandas: pip install 'flamestream[frames]'") from error
    return pd
