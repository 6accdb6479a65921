"""What a run folder has: who runs, the status, a worker's process, the note of a bootstrap; and the lineage,
which the store has too."""

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from flamestream.audit.begun import MARK, Begun, begun
from flamestream.job.status import JobStatus, LastRecovery, LatencyFigures, OperationFigures, WorkerFigures
from flamestream.local import lineage
from flamestream.local.lineage import Lineage
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.errors import UserError
from flamestream.model.ids import SourceName
from flamestream.node.run_folder import RunFolder, RunInfo
from flamestream.node.status_file import StatusFile
from flamestream.store.folder import LocalStore
from support.golden.format import Format

DOCS: Final = SourceName("docs")
PROCESS: Final = ProcessIdentity("host", 17, "2026-03-02T09:00:00+00:00", "boot pid:[1]", 4096)
TICKLESS: Final = RunInfo(
    job="words", manifest="/jobs/words.yaml", launcher=PROCESS, address="127.0.0.1:5000", coordinator=18, zookeeper=19,
    driver=20,
)  # fmt: skip
"""Before jobs went on with other code while they run."""
INFO: Final = replace(TICKLESS, config="worker-3.json", refused="no room")
LAST: Final = LastRecovery(
    cause="worker b is gone",
    duration_ms=90.5,
    kind="lost",
    attempt=3,
    replayed_from=4096,
    steps_ms={"seal": 1.5},
)
TICKLESS_STATUS: Final = JobStatus(
    job="words", pid=18, began=1, updated=2, phase="running", graph="g1", attempt=3, layout=2, epoch=5, cut=9 << 12,
    cut_time=9, unsaved_since=8, standbys=["c"], items_in=12, items_out=7, event_times={DOCS: None}, idle={DOCS: 1},
    late={DOCS: 2}, skipped={DOCS: 3}, recoveries=1, snapshot_size=700, snapshot_ms=1.5, snapshots=4, snapshots_ms=6.5,
    first_output=3, last_output=4, gaps=[(4, 1)], problems=["a disk is full"], dropped_connections=1,
    outcome="completed", category="", message="done",
    latency=LatencyFigures(p50_ms=1.5, p99_ms=9.0, calls=7), release=LatencyFigures(p50_ms=0.5),
    last_recovery=LAST,
    workers=[
        WorkerFigures(
            worker="a", connected=True, items_in=12, items_out=7, minimal=9, settled=8, problem="", runs=3, bundles=2,
            in_flight=1, waiting={DOCS: 1}, memory=1 << 20, replayed=2, invalidated=1, late={DOCS: 2},
            skipped={DOCS: 3}, latencies=[0, 1], latencies_us=700, releases=[1], releases_us=90,
        )
    ],
)  # fmt: skip
STATUS: Final = replace(
    TICKLESS_STATUS,
    code="c0de",
    successors=["d"],
    refused="c0de2",
    refusal="its state does not fit",
    wanted=2,
    workers=[replace(TICKLESS_STATUS.workers[0], busy=0.5)],
)
WATCHED: Final = replace(STATUS, before="c0de0", watched=True)
DECIDED: Final = replace(
    WATCHED,
    workers=[
        replace(
            WATCHED.workers[0], transactions=9, decisions=10, aborted=1, contended=[("accounts['ann']", 2)]
        )
    ],
)
TRACED: Final = replace(DECIDED, workers=[replace(DECIDED.workers[0], spans=40, spans_dropped=2)])
COUNTED: Final = replace(
    TRACED,
    operations=[
        OperationFigures(
            operation="1 reduce total", items_in=12, items_out=7, in_rate=1.5, out_rate=0.5, busy=0.25, item_us=3.5,
            keys=2, state_bytes=80,
        )
    ],
    workers=[replace(TRACED.workers[0], operations=[("1 reduce total", 12, 7)])],
)  # fmt: skip
DRAWN: Final = replace(COUNTED, last_recovery=replace(LAST, ended=9_000_000))
WAITING: Final = replace(DRAWN, workers=[replace(COUNTED.workers[0], deciding_waits=True)])
BEGUN: Final = Begun({"docs": "history/"}, 9 << 12)
REFUSED: Final = "this job began with a history that was not written down"
LINEAGE: Final = Lineage("0a" * 16, "/runs/words", "words")
Run = tuple[RunInfo | None, JobStatus | None, ProcessIdentity | None]


def _write_run(folder: Path, run: tuple[RunInfo, JobStatus, ProcessIdentity]) -> None:
    made = RunFolder(folder).made()
    made.write("run.json", run[0])
    reactor: Any = None  # which a last write has no use for
    StatusFile(reactor, made.status_file, lambda: run[1]).write()
    # as spark/streaming/worker_main.py does
    (made.path / "workers" / "a.json").write_bytes(msgspec.json.encode(run[2]))


def _read_run(folder: Path) -> Run:
    found = RunFolder(folder)
    return found.info(), found.status(), found.worker("a")


def _read_begun(folder: Path) -> Begun | str | None:
    try:
        return begun(RunFolder(folder))
    except UserError as error:
        return REFUSED if REFUSED in str(error) else str(error)


def _write_lineage(folder: Path, of: Lineage) -> None:
    RunFolder(folder).write(lineage.NAME, of)


def _read_lineage(folder: Path) -> Lineage | None:
    found = lineage.of_store(LocalStore(folder), "the store")
    assert found is not None and found.id == lineage.of_folder(RunFolder(folder))
    return found


RUNS: Final = (
    Format(
        "run-folder",
        _write_run,
        _read_run,
        (
            (TICKLESS, TICKLESS_STATUS, PROCESS),
            (INFO, STATUS, PROCESS),
            (INFO, WATCHED, PROCESS),
            (INFO, DECIDED, PROCESS),
            (INFO, TRACED, PROCESS),
            (INFO, COUNTED, PROCESS),
            (INFO, DRAWN, PROCESS),
            (INFO, WAITING, PROCESS),
        ),
    ),
    Format(
        "bootstrap", lambda folder, noted: RunFolder(folder).write(MARK, noted), _read_begun, (REFUSED, BEGUN)
    ),
    Format("lineage", _write_lineage, _read_lineage, (Lineage("0a" * 16, "/runs/words"), LINEAGE)),
)
