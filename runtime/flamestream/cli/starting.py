"""What a start looks at before it changes anything outside its run folder: the job record of the runs before.

Keeps: a start that is refused here has claimed neither store nor sinks. Does not: look into store or sinks (who opens them does).
"""

from flamestream.cli.begun import settle
from flamestream.cli.run_folder import RunFolder
from flamestream.cli.validation import CheckedJob
from flamestream.core.job_record import JobRecord, check_code
from flamestream.ports import JobRecords


def may_start(checked: CheckedJob, folder: RunFolder, records: JobRecords, *, changed: bool) -> JobRecord | None:
    """The record of the runs before, if there were any. Raises UserError if the job's code was edited and nobody said so (`changed`)."""
    found = records.read()
    record = None if found is None else found[0]
    settle(folder, record)
    if record is not None and record.outcome != "completed":
        check_code(record, checked.code, changed=changed)
    return record
