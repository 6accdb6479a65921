"""Run in a pod beside a job: where its delivered items came from. `python3 -m flamestream_operator.tools.trace_main
[--sink=NAME] [--limit=N] -- TEXT`: {"traced": the answer of `flamestream trace --json`} on one line, or {"error": ...}.

Keeps: an answer of MOST_BYTES, of the newest items. Does not: know Kubernetes.
"""

import argparse
import sys
from typing import Final

import msgspec

from flamestream.audit.committed import committed_there
from flamestream.audit.descent import MOST, descents
from flamestream.cli.views.trace import documents
from flamestream.job.validation import checked_job
from flamestream.model.errors import FlameStreamError
from flamestream.spark.streaming.driver_config import read_any_driver_config, read_job, read_zookeeper

MOST_BYTES: Final = 1 << 20


def traced(text: str, sink: str, limit: int) -> bytes:
    """The answer, as JSON."""
    try:
        config, zookeeper, job = read_any_driver_config(), read_zookeeper(), checked_job(read_job())
        restored_from = job.job.spec.restore_from
        savepoint = restored_from.snapshot if restored_from is not None else ""
        last = committed_there(zookeeper, config.job, job.job.store, savepoint)
        found = documents(descents(job, last, zookeeper, text, sink, limit, job=config.job))
    except FlameStreamError as error:
        return msgspec.json.encode({"error": {"category": error.category, "message": str(error)[:4000]}})
    while len(answer := msgspec.json.encode({"traced": found})) > MOST_BYTES:
        del found[0]
    return answer


def main(arguments: list[str]) -> int:
    """The exit code."""
    reader = argparse.ArgumentParser()
    reader.add_argument("--sink", default="")
    reader.add_argument("--limit", type=_limit, default=10)
    reader.add_argument("text")
    asked = reader.parse_args(arguments)
    sys.stdout.write(traced(asked.text, asked.sink, asked.limit).decode() + "\n")
    return 0


def _limit(text: str) -> int:
    return max(1, min(MOST, int(text)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
