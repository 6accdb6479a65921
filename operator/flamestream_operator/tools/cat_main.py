"""Run in a pod beside a job: prints what one of its sinks was given. `python3 -m
flamestream_operator.tools.cat_main SINK LIMIT [--json]`.

Does not: know Kubernetes.
"""

import sys
from itertools import islice

from flamestream.cli.cat import line
from flamestream.connectors import sinks
from flamestream.job.validation import checked_job
from flamestream.model.errors import FlameStreamError, ManifestError
from flamestream.spark.streaming.driver_config import read_any_driver_config, read_job


def main(arguments: list[str]) -> int:
    """The exit code."""
    sink, limit = arguments[0], int(arguments[1])
    try:
        job = checked_job(read_job()).job  # loads the application, so that its payload types are known
        identity = read_any_driver_config().job
        if sink not in job.spec.sinks:
            raise ManifestError(f"there is no sink {sink!r}; it has {', '.join(job.spec.sinks)}")
        for item in islice(sinks.read(job.sink(sink), f"spec.sinks.{sink}", identity), limit or None):
            sys.stdout.write(line(item, places="--json" in arguments) + "\n")
    except FlameStreamError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
