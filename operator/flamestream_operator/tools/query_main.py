"""Run in a pod beside a job: prints the states of some of its keys, or a page of them, as of the last epoch.

    python3 -m flamestream_operator.tools.query_main AT_LEAST ROW...
    python3 -m flamestream_operator.tools.query_main AT_LEAST --page NAME LIMIT CURSOR [PREFIX]

The answer is a line of JSON, as the job's port writes it (live/port.py); or {"error": ...}, with the exit code that
`flamestream query` has.

Does not: know Kubernetes, or ask a worker.
"""

import json
import sys
from collections.abc import Callable
from typing import Final

from flamestream.audit.committed import LastCommit, committed_there, of_newest
from flamestream.job.exit_codes import ExitCode, code_of
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.live.committed import committed_answer, committed_page, recent
from flamestream.live.port import Answer, Page, Wanted, written, written_page
from flamestream.model.errors import FlameStreamError
from flamestream.model.time import Time
from flamestream.node.queries.rows import Kept, split
from flamestream.spark.streaming.driver_config import read_any_driver_config, read_job, read_zookeeper

PAGE: Final = "--page"


def answered(rows: list[str], at_least: Time) -> Answer:
    """The states of rows, written as NAME[KEY]. Raises FlameStreamError."""
    checked = checked_job(read_job())
    kept = Kept(checked.graph)
    found = [kept.row(*split(row)) for row in rows]  # before anything is read: an error names what there is
    return of_newest(
        _committed(checked, at_least),
        lambda last: committed_answer(checked.graph, last, checked.job.store, found),
    )


def page(wanted: Wanted, at_least: Time) -> Page:
    """A page of a name. Raises FlameStreamError."""
    checked = checked_job(read_job())
    Kept(checked.graph).matching(wanted.name, wanted.prefix)  # as above
    return of_newest(
        _committed(checked, at_least),
        lambda last: committed_page(checked.graph, last, checked.job.store, wanted),
    )


def _committed(checked: CheckedJob, at_least: Time) -> Callable[[], LastCommit]:
    zookeeper, job = read_zookeeper(), read_any_driver_config().job
    return lambda: recent(committed_there(zookeeper, job, checked.job.store), at_least)


def main(arguments: list[str]) -> int:
    """The exit code."""
    written_least, *rows = arguments
    at_least = Time(int(written_least))
    try:
        if rows[:1] == [PAGE]:
            name, limit, cursor, *prefix = rows[1:]
            found = written_page(
                page(Wanted(name, prefix[0] if prefix else None, int(limit), cursor), at_least)
            )
        else:
            found = written(answered(rows, at_least))
        sys.stdout.write(found.decode() + "\n")
    except FlameStreamError as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        return code_of(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
