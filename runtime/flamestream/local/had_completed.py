"""A job that is started again behind its end: what its sources have got since, which nobody will read.

Keeps: only the sources of this machine are read; a server's topic or table is not asked. Does not: start anything.
"""

from collections.abc import Iterator

from flamestream.audit.recorded import recorded_sources
from flamestream.connectors import sources
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import FrontPosition
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import FlameStreamError
from flamestream.store.places import store_from
from flamestream.store.snapshot_index import read_manifest


def unread(checked: CheckedJob, record: JobRecord) -> str:
    """What to tell the user of a job whose record says that it has completed; "" if its input is as it was."""
    grown = [f"{count:,} new records of source {name!r}" for name, count in _grown(checked, record)]
    if not grown:
        return ""
    return (
        f"it had completed; {', '.join(grown)} not read. Set `follow: true` on a source that goes on, in a new run: `flamestream reset` "
        "makes this a job that never ran"
    )


def _grown(checked: CheckedJob, record: JobRecord) -> Iterator[tuple[str, int]]:
    try:
        positions = read_manifest(store_from(checked.job.store), record.manifest, record.manifest_hash).fronts if record.manifest else ()
    except FlameStreamError:
        return  # the store is away, or was removed: nobody knows how far was read
    known: dict[int, FrontPosition] = {position.front: position for position in positions}
    for source in recorded_sources(checked):
        position = known.get(source.front.front)
        kind = sources.kind_of(source.spec)
        if position is None or kind is None or not kind.grows or not source.front.timed:
            continue
        if count := source.beyond(position.offsets):
            yield str(source.front.source), count
