"""The checks of a start before it changes anything outside its run folder: the job record of the runs before,
and whose the places are.

Where the job had completed: what its sources have got since, which nobody will read.

Keeps: a start that is refused here has claimed neither store nor sinks. Does not: ask servers whose a table
or a topic is (their sinks do), or what it holds: only the sources of this machine are read.
"""

from collections.abc import Iterator
from contextlib import suppress

from flamestream.audit.begun import settle
from flamestream.connectors import sinks, sources
from flamestream.core.protocol.job_record import JobRecord, check_code, is_taken_over
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.job.manifest import Job
from flamestream.job.recorded import recorded_sources
from flamestream.job.settings import known_to
from flamestream.job.validation import CheckedJob
from flamestream.local import lineage
from flamestream.model.errors import FlameStreamError, StoreUnavailable, UserError
from flamestream.node.run_folder import RunFolder
from flamestream.node.stored_samples import look
from flamestream.ports import JobRecords
from flamestream.store.places import store_from
from flamestream.store.snapshot_index import read_index


def may_start(
    checked: CheckedJob, folder: RunFolder, records: JobRecords, *, changed: bool
) -> JobRecord | None:
    """The record of the runs before, if there were any. Raises UserError if the job's code was edited and
    nobody said so (`changed`), or cannot read a state that the code before has left."""
    if told := folder.handed_over():
        raise UserError(
            f"job {checked.job.name!r} was {told}, which goes on with its sources and sinks: run that one"
        )
    found = records.read()
    record = None if found is None else found[0]
    settle(folder, record)
    if record is not None and record.outcome == "completed":
        return record
    if record is not None:
        check_code(record, checked.code, changed=changed or is_taken_over(record))
        if record.index and record.code != checked.code:
            store = store_from(checked.job.store)
            with suppress(StoreUnavailable):  # the coordinator asks for it again, and waits
                look(checked.graph, store, lambda: read_index(store, record.index, record.index_hash))
    _look_at_places(checked.job, folder)
    return record


def workers_at_first(checked: CheckedJob, record: JobRecord | None) -> int:
    """How many workers take part at first: as many as in the run before, where their number may change."""
    workers = checked.job.spec.workers
    before = workers.least if record is None else len(record.layout.workers)
    return min(max(before, workers.least), workers.most)


def _look_at_places(job: Job, folder: RunFolder) -> None:
    with suppress(StoreUnavailable):  # not made yet, or away: whoever claims it looks again
        lineage.look(store_from(job.store), folder, job.name, job.store)
    for name in job.spec.sinks:
        there = sinks.owned(job.sink(name))
        if there is not None and (there.job, there.sink) != (job.identity, name):
            raise job.error(
                ("spec", "sinks", name),
                f"{there.place} holds the output of job {there.job!r}, sink {there.sink!r}: give it a place "
                "of its own, or remove that output with its job (`flamestream reset`)",
            )


def unread(checked: CheckedJob, record: JobRecord) -> str:
    """The message for the user of a job whose record says that it has completed; "" if its input is as it
    was."""
    grown = [f"{count:,} new records of source {name!r}" for name, count in _grown(checked, record)]
    if not grown:
        return ""
    return (
        f"it had completed; {', '.join(grown)} not read. Set `follow: true` on a source that goes on, in a "
        "new run: `flamestream reset` makes this a job that never ran"
    )


def _grown(checked: CheckedJob, record: JobRecord) -> Iterator[tuple[str, int]]:
    try:
        positions = (
            read_index(store_from(checked.job.store), record.index, record.index_hash).fronts
            if record.index
            else ()
        )
    except FlameStreamError:
        return  # the store is away, or was removed: nobody knows how far was read
    known: dict[int, FrontPosition] = {position.front: position for position in positions}
    for source in recorded_sources(known_to(record, checked)):
        position = known.get(source.front.front)
        kind = sources.kind_of(source.spec)
        if not known or kind is None or not kind.grows or not source.front.timed:
            continue
        # One that has come since has no place.
        if count := source.beyond({} if position is None else position.offsets):
            yield str(source.front.source), count
