"""Run in a pod with the new application while the old one runs: does it load, does the committed snapshot fit
its graph, can it read what that holds, and what does it make of the records behind it?

`python3 -m flamestream_operator.tools.preflight_main`. The verdict is JSON, on stdout and as the container's
termination message: {"ok": true, "graph": ...} or {"ok": false, "reason": ..., "message": ...}, and "canary"
beside, if the file before.json says which code runs. Results that differ are on stderr: they are users' data,
which a status does not have.

Before a restore into a job without state it is the savepoint that must fit.

Keeps: changes nothing of a job's. Does not: know Kubernetes.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from flamestream.audit.canary import Canary, in_words
from flamestream.audit.canary_run import canary, code_before, most_of
from flamestream.audit.shadow import kept
from flamestream.audit.shadow.session import why_not_own
from flamestream.core.protocol.inventory import misfit
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.journal_of import journal_of
from flamestream.job.manifest import parse_job
from flamestream.job.settings import PYTHON, dropped, inventory
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, FlameStreamError, UserError
from flamestream.model.quoted import plain, public
from flamestream.node.stored_samples import look
from flamestream.ports import JobRecords, ObjectStore
from flamestream.spark.streaming.driver_config import CONFIG, read_driver_config, read_job, read_zookeeper
from flamestream.store.places import store_from
from flamestream.store.snapshot_index import read_index
from flamestream.store.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.objects import pods
from flamestream_operator.tools.shadow_session import Session, name_of

MESSAGE: Final = Path("/dev/termination-log")
LONGEST: Final = 3000
ROOM: Final = 4000
"""Bytes; Kubernetes keeps 4096 of a termination message."""
SHORT: Final = 900
EXAMPLE: Final = 120
EXAMPLES: Final = 3
BEFORE: Final = "before.json"
APPLICATION_BEFORE: Final = Path(pods.BEFORE)
"""The folder that relative paths of the manifest of the code that runs start from."""


def main() -> int:
    """The exit code: 1 if it does not fit."""
    said = verdict()
    text = json.dumps(said, ensure_ascii=False)
    sys.stdout.write(text + "\n")
    if MESSAGE.exists():
        MESSAGE.write_text(message(said))
    return 0 if said["ok"] else 1


def message(said: dict[str, Any]) -> str:
    """A verdict as JSON that fits: what is only told is cut, never the document, which nobody could read then."""
    for shorter in ({}, {"canary": None}, {"message": said.get("message", "")[:SHORT], "graph": ""}):
        text = json.dumps(said | shorter, ensure_ascii=False)
        if len(text.encode()) <= ROOM:
            break
        said = said | shorter
    return text


def verdict(folder: Path = CONFIG) -> dict[str, Any]:
    """The verdict, as JSON is made from it."""
    compared: dict[str, Any] = {}
    try:
        checked = checked_job(read_job(folder))
        application = next(folder.glob("driver-*.json")).stem.removeprefix("driver-")
        config = read_driver_config(application, folder)
        zookeeper, store = read_zookeeper(), store_from(checked.job.store)
        committed = _committed(checked, config.job, zookeeper)
        savepoint = None if committed else _savepoint(folder)
        fits(checked, committed or (savepoint and savepoint[0]))
        if checked.job.spec.take_over is not None and not _has_shadow(checked):
            kept.forget(store, name_of(checked, config.job))
        if savepoint is not None:
            index, of_savepoint = savepoint
            look(checked.graph, of_savepoint, lambda: index)
        elif committed is not None:
            look(checked.graph, store, lambda: _committed(checked, config.job, zookeeper))
            if _has_shadow(checked):
                session = Session(
                    checked, config.job, zookeeper, lambda: _committed(checked, config.job, zookeeper)
                )
                found = session.run()
                compared = {"canary": told_of(found, found.notes)}
                if found.failed:
                    return _refused(found, compared)
            elif (folder / BEFORE).exists() and most_of(checked.job.spec):
                found = _tried(folder, checked, config.job, zookeeper)
                compared = {"canary": told_of(found)}
                if found.refusal:
                    return _refused(found, compared)
    except FlameStreamError as error:
        passing = error.category == "retryable"
        return {
            "ok": False,
            "reason": type(error).__name__,
            "message": str(error)[:LONGEST],
            "passing": passing,
            **compared,
        }
    return {"ok": True, "graph": checked.graph.identity[:SHORT], "code": checked.code, **compared}


def _has_shadow(checked: CheckedJob) -> bool:
    """Whether it is a shadow with a state of its own."""
    wanted = checked.job.spec.take_over
    return wanted is not None and wanted.shadow and not why_not_own(checked.job.spec)


def _tried(folder: Path, checked: CheckedJob, job: str, zookeeper: ZooKeeperAccess) -> Canary:
    before = from_json((folder / BEFORE).read_bytes())
    # where the code that runs keeps its journal: a new spec may name another
    its = parse_job(json.dumps(before["job"]), str(APPLICATION_BEFORE / "job.json"))
    found = canary(
        checked, lambda: code_before(its, before["digest"], checked),
        lambda: _committed(checked, job, zookeeper), journal_of(its, zookeeper), job,
    )  # fmt: skip
    for line in (*in_words(found), *found.differences):
        sys.stderr.write(f"{plain(str(line))}\n")
    return found


def _refused(found: Canary, compared: dict[str, Any]) -> dict[str, Any]:
    return {"ok": False, "reason": "CanaryFailed", "message": public(found.refusal)[:SHORT], **compared}


def told_of(found: Canary, words: Sequence[str] = ()) -> dict[str, Any]:
    """A canary as FlameStreamJob's status has it; `words`: if they are others than a canary's."""
    return {
        "records": found.records, "equal": found.equal, "newErrors": found.new_errors,
        "differ": found.differ + found.only_before + found.only_after,
        "microsBefore": round(found.micros_before, 1), "microsAfter": round(found.micros_after, 1),
        "summary": public("; ".join(words or in_words(found)))[:SHORT],
        "examples": [f"{each.sink}, of {each.record}"[:EXAMPLE] for each in found.differences[:EXAMPLES]],
    }  # fmt: skip


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
