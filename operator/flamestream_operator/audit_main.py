"""Run in an audit's pod: everything that a job has delivered, against the reference interpreter.

`python3 -m flamestream_operator.audit_main`. The verdict is JSON, on stdout and as the container's termination message.

Keeps: what cannot be audited is an error with its reason, never a clean verdict. Does not: know Kubernetes.
"""

import json
import sys
from pathlib import Path
from typing import Final

from flamestream.cli.audit import audited
from flamestream.cli.driver_config import CONFIG, read_driver_config, read_job
from flamestream.cli.validation import checked_job
from flamestream.model.errors import FlameStreamError

MESSAGE: Final = Path("/dev/termination-log")
LONGEST: Final = 4000


def verdict(complete: bool) -> dict[str, object]:
    """As FlameStreamDrill's status has it, or {"error": ...}."""
    try:
        application = next(CONFIG.glob("driver-*.json")).stem.removeprefix("driver-")
        config = read_driver_config(application)
        report = audited(checked_job(read_job()), complete, config.job, config.zookeeper)
    except FlameStreamError as error:
        return {"error": str(error)[: LONGEST // 2], "category": error.category}
    found = report.verdict
    return {
        "clean": report.kept,
        "records": report.records,
        "delivered": found.delivered,
        "lost": found.lost,
        "doubled": found.doubled,
        "reordered": found.reordered,
        "foreign": found.foreign,
        "firstDifference": str(found.first_difference or "")[:1000],
    }


def main(arguments: list[str]) -> int:
    """Exit code 3 if a difference was found."""
    said = verdict("--complete" in arguments)
    text = json.dumps(said)
    sys.stdout.write(text + "\n")
    if MESSAGE.exists():
        MESSAGE.write_text(text[:LONGEST])
    return 0 if said.get("clean") else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
