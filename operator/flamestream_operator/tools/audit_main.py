"""Run in an audit's pod: everything that a job has delivered, against the reference interpreter.

`python3 -m flamestream_operator.tools.audit_main [--changed] [--definitions]`. The verdict is JSON, on stdout and as
the container's termination message.

Keeps: what cannot be audited is an error with its reason, never a clean verdict. Does not: know Kubernetes.
"""

import json
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from flamestream.audit import judged_run
from flamestream.audit.committed import committed_there
from flamestream.audit.job_audit import witnessed
from flamestream.audit.report import result_of
from flamestream.job import object_names
from flamestream.job.validation import checked_job
from flamestream.model.errors import FlameStreamError
from flamestream.node.kept_code import link_copies
from flamestream.spark.streaming.driver_config import read_any_driver_config, read_job, read_zookeeper

MESSAGE: Final = Path("/dev/termination-log")
EARLIER: Final = Path(object_names.EARLIER)
LONGEST: Final = 4000
"""Bytes; Kubernetes keeps 4096."""
SHORT: Final = 100


def verdict(*, changed: bool = False, definitions: bool = False) -> dict[str, object]:
    """As FlameStreamDrill's status has it, or {"error": ...}. `changed`: the code of now stands for all
    versions that there were. `definitions`: say which ones of the formal model hold, which are of one graph: that of
    the code of now."""
    try:
        config = read_any_driver_config()
        zookeeper = read_zookeeper()
        job = checked_job(read_job())
        restored_from = job.job.spec.restore_from
        look = partial(
            committed_there, zookeeper, config.job, job.job.store,
            restored_from.snapshot if restored_from is not None else "",
        )  # fmt: skip
        with TemporaryDirectory() as root:
            kept = Path(root)
            link_copies(kept, EARLIER.glob("*"), job.py_files)
            by_each = None if definitions else kept
            evidence = witnessed(
                job, look(), config.job, zookeeper, again=look, kept=by_each, changed=changed
            )
            rows = judged_run.judged_run(job, evidence) if definitions else []
    except FlameStreamError as error:
        return {"error": str(error)[: LONGEST // 2], "category": error.category}
    return {**msgspec.to_builtins(result_of(evidence.report, rows)), "empty": evidence.report.empty}


def message(said: dict[str, object]) -> str:
    """As JSON that fits: words are cut, never the document, which nobody could read then."""
    for key in ("firstDifference", "input", "bounds", "error"):
        if len(json.dumps(said, ensure_ascii=False).encode()) > LONGEST and key in said:
            said = {**said, key: str(said[key])[:SHORT]}
    rows = said.get("definitions")
    if isinstance(rows, list) and len(json.dumps(said, ensure_ascii=False).encode()) > LONGEST:
        said = {**said, "definitions": [{**row, "reason": row["reason"][: SHORT // 2]} for row in rows]}
    return json.dumps(said, ensure_ascii=False)


def main() -> int:
    """Exit code 3 if a difference was found."""
    said = verdict(changed="--changed" in sys.argv[1:], definitions="--definitions" in sys.argv[1:])
    sys.stdout.write(json.dumps(said) + "\n")
    if MESSAGE.exists():
        MESSAGE.write_text(message(said))
    return 0 if said.get("clean") else 3


if __name__ == "__main__":
    sys.exit(main())
