"""Run in a pod with the new application while the old one runs: does it load, does the committed snapshot fit
its graph, and can it read what that holds?

`python3 -m flamestream_operator.tools.preflight_main`. The verdict is JSON, on stdout and as the container's
termination message: {"ok": true, "graph": ...} or {"ok": false, "reason": ..., "message": ...}.

Before a restore into a job without state it is the savepoint that must fit.

Keeps: changes nothing anywhere. Does not: know Kubernetes.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from flamestream.core.protocol.inventory import misfit
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.settings import PYTHON, dropped, inventory
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, FlameStreamError, UserError
from flamestream.node.stored_samples import look
from flamestream.ports import JobRecords, ObjectStore
from flamestream.spark.streaming.driver_config import CONFIG, read_driver_config, read_job, read_zookeeper
from flamestream.store.places import store_from
from flamestream.store.snapshot_index import read_index
from flamestream.store.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.store.zookeeper_access import ZooKeeperAccess

MESSAGE: Final = Path("/dev/termination-log")
LONGEST: Final = 3000


def main() -> int:
    """The exit code: 1 if it does not fit."""
    said = verdict()
    text = json.dumps(said)
    sys.stdout.write(text + "\n")
    if MESSAGE.exists():
        MESSAGE.write_text(text)
    return 0 if said["ok"] else 1


def verdict(folder: Path = CONFIG) -> dict[str, Any]:
    """The verdict, as JSON is made from it."""
    try:
        checked = checked_job(read_job(folder))
        application = next(folder.glob("driver-*.json")).stem.removeprefix("driver-")
        config = read_driver_config(application, folder)
        zookeeper, store = read_zookeeper(), store_from(checked.job.store)
        committed = _committed(checked, config.job, zookeeper)
        savepoint = None if committed else _savepoint(folder)
        fits(checked, committed or (savepoint and savepoint[0]))
        if savepoint is not None:
            index, of_savepoint = savepoint
            look(checked.graph, of_savepoint, lambda: index)
        elif committed is not None:
            look(checked.graph, store, lambda: _committed(checked, config.job, zookeeper))
    except FlameStreamError as error:
        passing = error.category == "retryable"
        return {
            "ok": False,
            "reason": type(error).__name__,
            "message": str(error)[:LONGEST],
            "passing": passing,
        }
    return {"ok": True, "graph": checked.graph.identity[:LONGEST], "code": checked.code}


def fits(checked: CheckedJob, index: SnapshotIndex | None) -> None:
    """Raises UserError if the graph cannot go on from the snapshot."""
    if index is None:
        return
    ours = {"python": PYTHON, "slots": checked.job.spec.workers.slots}
    theirs = {"python": index.python, "slots": index.slots}
    for what, wanted in ours.items():
        if theirs[what] != wanted:
            raise UserError(
                f"the snapshot of epoch {index.epoch} has {what} {theirs[what]!r}, the new application "
                f"{wanted!r}: its state cannot be loaded. upgrade.strategy: Fresh drops it, or make a new job"
            )
    drop = dropped(checked.job.spec)
    if reason := misfit(index, checked.graph.identity, inventory(checked), drop):
        raise UserError(
            f"the new application cannot go on from the snapshot of epoch {index.epoch}: {reason}"
        )


def _committed(checked: CheckedJob, job: str, zookeeper: ZooKeeperAccess) -> SnapshotIndex | None:
    """The snapshot index that the job record names; None: nothing was ever committed."""
    store = store_from(checked.job.store)
    with ClusterState(zookeeper) as state:
        return newest(ZooKeeperJobRecords(state, job), store)


def _savepoint(folder: Path) -> tuple[SnapshotIndex, ObjectStore] | None:
    """The snapshot index of the savepoint that a job without state is about to be given, and its store; None:
    there is none."""
    file = folder / "savepoint.json"
    if not file.exists():
        return None
    told = from_json(file.read_bytes())
    store = store_from(told["store"])
    return read_index(store, told["index"], told["hash"]), store


def newest(records: JobRecords, store: ObjectStore) -> SnapshotIndex | None:
    """The stream goes on beside us: a commit removes the index before it, so one that is gone is looked up
    again."""
    missed = ""
    while True:
        found = records.read()
        if found is None or not found[0].index:
            return None
        record = found[0]
        try:
            return read_index(store, record.index, record.index_hash)
        except Corrupt:
            if record.index == missed:  # (!) nobody has committed meanwhile: it is really gone
                raise
            missed = record.index


if __name__ == "__main__":
    sys.exit(main())
