"""Sinks: what a manifest may name, whether it can fence, its consumer, how to read what it holds, and where
its users look.

| kind      | keeps last bundles and fences  | for                                 | an audit also compares |
|-----------|--------------------------------|-------------------------------------|-----|
| files     | yes: a shared folder           | one machine, or a cluster's files   |  |
| rolling   | yes: a folder or S3            | Parquet or JSON lines for others    |  |
| socket    | yes: the far end does          | consumers in any language           |  |
| connector | if its class says so           | one's own (reference/connectors.md) |  |
| callback  | no                             | tests and benchmarks                |  |
| kafka     | yes: in a control topic        | consumers of a topic                | records, partition by partition |
| discard   | no                             | what a graph costs without output   |  |
| http      | if the far end says so         | servers of any kind                 |  |
| events    | yes: a shared folder           | browsers                            | events that a client is given |
| postgres  | yes: a table beside the rows   | rows that anybody can query         | rows of the table |
| redis     | yes: a hash beside the entries | a hash, or a stream to follow       | entries of the hash or stream |

What an audit expects at a place comes from payloads of the reference alone; what stands there is read by
others' libraries (psycopg, json, fastavro), so a mistake in a sink's encoder is a difference. No place
imports an encoder, which import-linter holds.

>>> describe({"discard": {}}).fences
False
>>> describe({"files": {}}, "spec.sinks.index")
Traceback (most recent call last):
flamestream.model.errors.ManifestError: spec.sinks.index.files: Object missing required field `path`

Does not: read the manifest's file (job/manifest.py), refuse a sink (it says why one must be refused), or know
what a kind does (its folder does).
"""

from collections.abc import Iterator
from typing import Any, Final

from flamestream.connectors.installed import sink_kinds
from flamestream.connectors.kit.connector import Kinds, SinkContext, SinkTraits, written
from flamestream.connectors.kit.ownership import Owned
from flamestream.connectors.kit.standing import Place
from flamestream.fenced.reading import Item, Written, read_all
from flamestream.model.ids import SinkName, WorkerId
from flamestream.ports import Consumer, Post, Reactor

__all__ = [
    "Item", "SinkTraits", "build", "check_classes", "describe", "dialled", "has_history", "kind_of",
    "log_folder", "moments", "owned", "place_of", "placed", "read", "read_all", "settings_of",
]  # fmt: skip


_KINDS: Final = Kinds("sink", sink_kinds)
settings_of, check_classes, kind_of, placed, dialled = (
    _KINDS.settings_of, _KINDS.check_classes, _KINDS.kind_of, _KINDS.placed, _KINDS.dialled,
)  # fmt: skip


def describe(spec: object, where: str = "sink") -> SinkTraits:
    """Check `spec` and say what it is. Raises ManifestError that begins with the wrong field's place below
    `where`."""
    return settings_of(spec, where).traits(where)


def build(spec: object, sink: SinkName, writer: WorkerId, job: str, post: Post, reactor: Reactor) -> Consumer:
    """The consumer of sink `sink` for worker `writer`."""
    return settings_of(spec, f"spec.sinks.{sink}").consumer(SinkContext(sink, job, writer, post, reactor))


def read(spec: object, where: str = "sink", job: str = "") -> Iterator[Item]:
    """All items that a sink holds, in the total order: (meta, slot, sequence, payload). Raises UserError if
    they are not of `job`."""
    return settings_of(spec, where).read(where, job, where.removeprefix("spec.sinks."))


def moments(spec: object, where: str = "sink", job: str = "") -> Iterator[Written]:
    """When its bundles were written, of those whose place in the sink says it: microseconds since 1970."""
    return settings_of(spec, where).moments(where, job, where.removeprefix("spec.sinks."))


def has_history(spec: object) -> bool:
    """Whether `read` gives what was delivered in the order in which it was, and not only what stands
    somewhere now."""
    return settings_of(spec).in_order()


def place_of(spec: object, sink: str, job: str) -> Place | None:
    """The place where the users of sink `sink` of `job` look; None if nobody looks anywhere but where `read`
    does."""
    return settings_of(spec, f"spec.sinks.{sink}").place(job, sink)


def owned(spec: dict[str, Any]) -> Owned | None:
    """Whose a sink's place is; None if it is nobody's yet, or a server's. Raises Corrupt if that cannot be
    read."""
    known = kind_of(spec)
    return settings_of(spec).owned() if known is not None and known.holder == "place" else None


def log_folder(spec: dict[str, Any]) -> str | None:
    """The folder of fenced logs that a sink's output is, as it is written; None if its output is anything
    else."""
    known = kind_of(spec)
    return written(spec, known.log) or None if known is not None else None
