"""Run in a pod beside a job: prints the states of some of its keys, as of the last epoch. `python3 -m
flamestream_operator.tools.query_main AT_LEAST ROW...`.

The answer is a line of JSON, as the job's port writes it (live/port.py); or {"error": ...}, with the exit code that
`flamestream query` has.

Does not: know Kubernetes, or ask a worker.
"""

import json
import sys

from flamestream.audit.committed import committed_there
from flamestream.job.exit_codes import ExitCode, code_of
from flamestream.job.validation import checked_job
from flamestream.live.committed import committed_answer, recent
from flamestream.live.port import Answer, written
from flamestream.model.errors import FlameStreamError
from flamestream.model.time import Time
from flamestream.node.queries.rows import Kept, split
from flamestream.spark.streaming.driver_config import read_any_driver_config, read_job, read_zookeeper


def answered(rows: list[str], at_least: Time) -> Answer:
    """The states of rows, written as NAME[KEY]. Raises FlameStreamError."""
    checked = checked_job(read_job())
    kept = Kept(checked.graph)
    found = [kept.row(*split(row)) for row in rows]  # before anything is read: an error names what there is
    last = committed_there(read_zookeeper(), read_any_driver_config().job, checked.job.store)
    return committed_answer(checked.graph, recent(last, at_least), checked.job.store, found)


def main(arguments: list[str]) -> int:
    """The exit code."""
    at_least, *rows = arguments
    try:
        sys.stdout.write(written(answered(rows, Time(int(at_least)))).decode() + "\n")
    except FlameStreamError as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        return code_of(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
