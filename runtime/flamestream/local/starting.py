"""What a start looks at before it changes anything outside its run folder: the job record of the runs before, and whose the places are.

Keeps: a start that is refused here has claimed neither store nor sinks. Does not: ask servers whose a table or a topic is (their sinks do).
"""

from contextlib import suppress

from flamestream.audit.begun import settle
from flamestream.connectors import sinks
from flamestream.core.protocol.job_record import JobRecord, check_code
from flamestream.job.manifest import Job
from flamestream.job.validation import CheckedJob
from flamestream.local import lineage
from flamestream.model.errors import StoreUnavailable
from flamestream.node.run_folder import RunFolder
from flamestream.ports import JobRecords
from flamestream.store.places import store_from


def may_start(checked: CheckedJob, folder: RunFolder, records: JobRecords, *, changed: bool) -> JobRecord | None:
    """The record of the runs before, if there were any. Raises UserError if the job's code was edited and nobody said so (`changed`)."""
    found = records.read()
    record = None if found is None else found[0]
    settle(folder, record)
    if record is not None and record.outcome == "completed":
        return record
    if record is not None:
        check_code(record, checked.code, changed=changed)
    _look_at_places(checked.job, folder)
    return record


def _look_at_places(job: Job, folder: RunFolder) -> None:
    with suppress(StoreUnavailable):  # not made yet, or away: whoever claims it looks again
        lineage.look(store_from(job.store), folder, job.name, job.store)
    for name in job.spec.sinks:
        there = sinks.owned(job.sink(name))
        if there is not None and (there.job, there.sink) != (job.name, name):
            raise job.error(
                ("spec", "sinks", name),
                f"{there.place} holds the output of job {there.job!r}, sink {there.sink!r}: give it a place of its own, or "
                "remove that output with its job (`flamestream reset`)",
            )
