"""Bad input to a job that really runs: what is said (what happened, where, what to do), and that no byte of
the output is wrong.

Workers are plain processes here. What needs no running job is tested where it is decided: manifests and
graphs in tests/unit/cli and tests/unit/model, segments and manifests of snapshots in tests/unit/adapters,
hostile peers in test_tcp_hostile.py.
"""

import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors.files.documents import Documents
from flamestream.connectors.files.listing import LocalFiles, Place
from flamestream.core.protocol.events import Entry
from flamestream.core.worker.front import RunRecords
from flamestream.job.application import load
from flamestream.job.exit_codes import ExitCode
from flamestream.job.status import JobStatus
from flamestream.model.failure import located
from flamestream.model.ids import Offset, Partition
from flamestream.model.payload import ErrorValue
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import ERRORS, interpret
from support.documents import Folder
from support.eventually import eventually
from support.processes import kill, listening
from support.runs.cli_job import ENVIRONMENT, REPOSITORY, CliJob, canonical, explained

INDEX = REPOSITORY / "examples" / "inverted_index.py"
RUN = 64
"""Numbers that a generator's front stamps together."""
GENTLE = {"limits": {"runs": 4}}
REFUSED = [sys.executable, "-m", "flamestream.cli.main", "run"]
COUNTER = itertools.count()
Make = Callable[..., CliJob]

NUMBERS = """
import os
import flamestream as fs

def number(n):
    BODY

graph = fs.Graph("numbers")
graph.source("numbers").map(number).reduce(
    key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n, emit=lambda total, n: (n, total)
).sink("out", key=lambda pair: pair[0] % 7)
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Jobs that end with the test."""
    with ExitStack() as stack:

        def made(application: Path, source: dict[str, Any], *more_sinks: str, **changes: Any) -> CliJob:
            reads, writes = ("docs", "index") if application == INDEX else ("numbers", "out")
            files = {sink: {"files": {"path": sink, "fsync": False}} for sink in (writes, *more_sinks)}
            spec = {
                "sources": {reads: source},
                "sinks": files,
                "workers": {"replicas": 2, "slots": 16},
                **changes,
            }
            job = CliJob(tmp_path, application, spec, spark=False)
            stack.callback(job.close)
            return job

        yield made


def numbers(folder: Path, body: str = "return n") -> Path:
    """An application whose map function has this body. A process imports a name once, so each has its own."""
    return written(folder, NUMBERS, body)


def written(folder: Path, application: str, body: str) -> Path:
    file = folder / f"app_{os.getpid()}_{next(COUNTER)}.py"
    file.write_text(application.replace("BODY", body))
    return file


def reference(application: Path, records: Sequence[Any]) -> dict[str, list[bytes]]:
    """What each sink must hold, and what the errors are."""
    runs = [run_of(number, record) for number, record in enumerate(records)]
    return {
        sink: canonical([payload for _, payload in items])
        for sink, items in interpret(load(application, "graph"), runs).items()
    }


def run_of(number: int, record: Any) -> tuple[Time, RunRecords]:
    time = time_of(Timestamp(1 + number), FrontId(0))
    return time, RunRecords([record], Entry(time, Partition(""), Offset(number), 1))


def check(job: CliJob, outcome: str = "completed", code: ExitCode = ExitCode.OK) -> str:
    """How it ends; its message."""
    got, answer = job.end()
    assert (got, answer["outcome"]) == (code, outcome), f"{answer}\n{job.told()}"
    return str(answer["message"])


# --- documents ----------------------------------------------------------------------------------------------


def test_documents_that_are_not_utf8_go_to_the_dead_letters_and_the_rest_is_indexed(
    make: Make, tmp_path: Path
) -> None:
    records: list[Any] = list(Folder(tmp_path / "docs").add(range(60)))
    for number in (7, 31):
        (tmp_path / "docs" / f"{number:05d}.txt").write_bytes(b"caf\xe9 au lait")
        message = f"{number:05d}.txt: byte 3 (0xe9) is not utf-8: invalid continuation byte"
        records[number] = ErrorValue("source docs", "UnicodeDecodeError", message)
    job = make(INDEX, {"files": {"path": "docs"}}, "bad", onError={"deadLetter": "bad"})
    job.start()
    check(job)
    wanted = reference(INDEX, records)
    assert job.delivered("bad") == [located(records[number], "docs", ("", number)) for number in (7, 31)]
    assert canonical(job.delivered("index")) == wanted["index"]
    assert job.audit()["clean"]


def test_a_document_that_is_not_utf8_fails_a_job_with_file_and_byte_and_once_it_is_mended_the_job_goes_on(
    make: Make, tmp_path: Path
) -> None:
    records = Folder(tmp_path / "docs").add(range(60))
    # loads what decoding needs, too
    before, whole = reference(INDEX, records[:31])["index"], reference(INDEX, records)["index"]
    bad = tmp_path / "docs" / "00031.txt"
    good = bad.read_bytes()
    bad.write_bytes(b"caf\xe9")
    job = make(INDEX, {"files": {"path": "docs"}})
    job.start()
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert "source docs raised UnicodeDecodeError: 00031.txt: byte 3 (0xe9) is not utf-8" in message
    assert canonical(job.delivered("index")) == before
    bad.write_bytes(good)
    job.start()
    check(job)
    assert canonical(job.delivered("index")) == whole


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="only root can lose the right to read; for others test_sources_files.py has the same",
)
def test_a_document_that_may_not_be_read_is_an_error_item_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    folder = LocalFiles([Place(str(tmp_path), "")], "**/*")
    (file,) = folder.listing(settled_only=True)
    os.seteuid(65534)
    try:
        record, _ = Documents("docs", "utf-8").record(folder, file)
    finally:
        os.seteuid(0)
    assert record.payload == ErrorValue(
        "source docs", "PermissionError", "a: cannot be read: Permission denied"
    )


# --- functions ----------------------------------------------------------------------------------------------

RAISES = """if n in (2000, 2001, 3500):
        raise ValueError(f"no {n}")
    return n"""


def test_a_function_that_raises_stops_the_job_at_an_epoch_and_a_corrected_one_goes_on_with_the_right_bytes(
    make: Make, tmp_path: Path
) -> None:
    application = numbers(tmp_path, RAISES)
    job = make(application, {"generator": {"count": 5000}})
    job.start()
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert re.search(r"app_\w+\.number raised ValueError: no 2000 \(record ", message), message
    newest = int(snapshots(job)[-1]["cut"])
    assert newest == 1 + 2000 // RUN, "the last epoch is at the run of the record"
    assert len(job.delivered("out")) == 2000 // RUN * RUN, (
        "all below the run of the record is delivered, and nothing of it"
    )
    corrected = numbers(tmp_path, "return n")
    application.write_text(corrected.read_text())
    job.start("--changed")
    check(job)
    assert canonical(job.delivered("out")) == reference(corrected, range(5000))["out"]
    assert job.audit("--changed")["clean"]


def test_what_a_function_raises_is_dead_lettered_the_same_whoever_dies(make: Make, tmp_path: Path) -> None:
    application = numbers(tmp_path, 'if n % 10 == 3:\n        raise ValueError(f"no {n}")\n    return n')
    job = make(
        application,
        {"generator": {"count": 20_000, "rate": 2000}},
        "bad",
        onError={"deadLetter": "bad"},
        **GENTLE,
    )
    wanted = reference(application, range(20_000))
    job.start()
    kill_a_worker_after_more_output(job, reads=True)
    job.running(2)
    kill_a_worker_after_more_output(job, reads=False)
    check(job)
    assert canonical(job.delivered("out")) == wanted["out"]
    assert canonical(job.delivered("bad")) == wanted[ERRORS]
    audit = job.audit()
    assert audit["clean"], audit


def kill_a_worker_after_more_output(job: CliJob, *, reads: bool) -> None:
    """The one that reads the source, or the other."""
    job.running()
    there = job.output_bytes()

    def one() -> int:
        status = job.status()
        read = {worker.worker: worker.items_in > 0 for worker in status.workers} if status is not None else {}
        names = [name for name in read if read[name] is reads] if any(read.values()) else []
        found = job.run_folder.worker(names[0]) if names and job.output_bytes() > there + 10_000 else None
        return found.pid if found is not None and found.alive else 0

    kill(eventually(one, "more output, and whom to kill"))


def test_a_payload_that_cannot_be_encoded_names_the_function_the_type_and_the_way_out(
    make: Make, tmp_path: Path
) -> None:
    job = make(
        numbers(tmp_path, "return open('/dev/null') if n == 700 else n"), {"generator": {"count": 1000}}
    )
    job.start()
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert re.search(r"app_\w+\.number raised PayloadError: .*TextIOWrapper", message), message
    assert re.search(r"payload_type|use ", message), message


def test_a_function_that_is_not_deterministic_is_found_at_the_replay_after_a_kill(
    make: Make, tmp_path: Path
) -> None:
    application = numbers(tmp_path, "return n + 7 * os.getpid()")
    # so that a recovery has to compute everything again
    checkpoint = {"interval": "1h", "store": "snapshots"}
    job = make(application, {"generator": {"rate": 2000}}, checkpoint=checkpoint)
    job.start()
    kill_a_worker_after_more_output(job, reads=True)
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert "sink 'out', slot " in message
    assert re.search(
        r"was delivered as \(\d+, \d+\) and is now \(\d+, \d+\)|is not computed again|was not delivered before",
        message,
    ), message
    assert "not deterministic, or changed: they must not depend on clock, randomness" in message


IMPURE = """
from dataclasses import dataclass
import flamestream as fs

@fs.payload_type
@dataclass(frozen=True)
class Box:
    n: int

calls = []

def boxed(n):
    return Box(n)

def opened(box):
    BODY

graph = fs.Graph("impure")
graph.source("numbers").map(boxed).map(opened).sink("out")
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "calls.append(box); return box.n + len(calls)",
            "gave two results for one input: functions must not depend on clock, randomness",
        ),
        (
            "object.__setattr__(box, 'n', -1); return -1",
            "changes its input: functions must leave payloads as they are; build a new value",
        ),
    ],
)
def test_debug_mode_names_a_function_that_is_not_pure(
    make: Make, tmp_path: Path, body: str, message: str
) -> None:
    job = make(written(tmp_path, IMPURE, body), {"generator": {"count": 100}})
    job.start("--debug")
    assert re.search(rf"\S*opened {message}", check(job, "failed", ExitCode.JOB_FAILED)), job.told()


# --- the store ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("only root may mount a file system here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def run_through_a_broken_store(
    job: CliJob, broken: Callable[[], None], mended: Callable[[], None], problem: str
) -> None:
    """Epochs stop and say why, the stream goes on; and when the store is back, so are they."""
    job.start()
    eventually(lambda: job.running().epoch >= 2, "epochs are committed")
    with explained(job):
        broken()
        status = eventually(lambda: shown(job, problem), f"status says {problem!r}")
        assert status is not None
        stopped, there = status.epoch, job.output_bytes()
        eventually(lambda: job.output_bytes() > there + 20_000, "the stream goes on")
        now = shown(job, problem)
        assert now is not None
        assert now.epoch == stopped, "epochs stand still"
        code, said = job.ask("status", str(job.run_folder.path))
        assert code == ExitCode.OK
        assert any(problem in text for text in said["status"]["problems"]), said
        mended()
        eventually(
            lambda: (after := job.status()) is not None and after.epoch > stopped and not after.problems,
            "epochs go on",
        )
    job.signal(signal.SIGTERM)
    check(job, "stopped")
    audit = job.audit()
    assert audit["clean"], audit


def shown(job: CliJob, problem: str) -> JobStatus | None:
    """The status, if it shows the problem."""
    status = job.status()
    return status if status is not None and any(problem in text for text in status.problems) else None


def test_a_store_that_goes_missing_stops_epochs_and_not_the_stream(make: Make, tmp_path: Path) -> None:
    application, store = numbers(tmp_path), tmp_path / "snapshots"
    job = make(application, {"generator": {"rate": 3000}})
    away = tmp_path / "away"
    run_through_a_broken_store(
        job, lambda: move(store, away), lambda: move(away, store), "create it, or mount the volume"
    )


def test_a_full_disk_under_the_store_stops_epochs_and_not_the_stream(
    make: Make, tmp_path: Path, small_disk: Path
) -> None:
    application, filler = numbers(tmp_path), small_disk / "filler"
    job = make(
        application,
        {"generator": {"rate": 3000}},
        checkpoint={"interval": "100ms", "store": str(small_disk / "store")},
    )

    def broken() -> None:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    run_through_a_broken_store(
        job, broken, filler.unlink, "No space left on device (ENOSPC); free some space"
    )


@pytest.mark.slow  # a full one, and a store that goes missing, at each push
def test_a_disk_that_becomes_read_only_stops_epochs_and_not_the_stream(
    make: Make, tmp_path: Path, small_disk: Path
) -> None:
    application = numbers(tmp_path)
    job = make(
        application,
        {"generator": {"rate": 3000}},
        checkpoint={"interval": "100ms", "store": str(small_disk / "store")},
    )

    def remount(how: str) -> None:
        def tried() -> bool:  # refused while something is being written
            return (
                subprocess.run(
                    ["mount", "-o", f"remount,{how}", str(small_disk)], capture_output=True, check=False
                ).returncode
                == 0
            )

        eventually(tried, f"the disk is {how}")

    run_through_a_broken_store(
        job, lambda: remount("ro"), lambda: remount("rw"), "Read-only file system (EROFS); mount it writable"
    )


def move(old: Path, new: Path) -> None:
    old.rename(new)


def test_a_damaged_missing_or_foreign_snapshot_is_named_and_never_taken_for_an_empty_state(
    make: Make, tmp_path: Path
) -> None:
    application = numbers(tmp_path)
    job = make(application, {"generator": {"count": 6000, "rate": 3000}})
    job.start()
    eventually(lambda: job.running().epoch >= 2, "epochs are committed")
    job.signal(signal.SIGTERM)
    check(job, "stopped")
    there = len(job.delivered("out"))
    assert 0 < there < 6000
    store, whole = tmp_path / "snapshots", tmp_path / "whole"
    manifests, segments = newest_parts(job)
    shutil.copytree(store, whole)
    damages: list[tuple[Iterable[str], Callable[[Path], None]]] = [
        (manifests, foreign),
        (segments, flip),
        (segments, Path.unlink),
    ]
    for names, damage in damages:
        for name in names:
            (store / name).chmod(0o600)
            damage(store / name)
        job.start()
        message = check(job, "failed", ExitCode.CORRUPT)
        assert any(name in message for name in names), f"{damage.__name__}: {message}"
        assert len(job.delivered("out")) == there, "something was delivered from a state that is none"
        shutil.rmtree(store)
        shutil.copytree(whole, store)
    job.start()
    check(job)
    assert canonical(job.delivered("out")) == reference(application, range(6000))["out"]


def newest_parts(job: CliJob) -> tuple[list[str], list[str]]:
    """Names of the manifest that counts, or may count if its commit was under way at the stop, and of the
    segments that these list."""
    status = job.status()
    assert status is not None
    found = [each for each in snapshots(job) if each["epoch"] >= status.epoch]
    assert found, "the newest committed snapshot is there"
    segments: set[str] = set()
    for each in found:
        _, said = job.ask("snapshots", "show", str(job.manifest), str(each["epoch"]))
        segments.update(segment["name"] for segment in said["segments"])
    return [str(each["name"]) for each in found], sorted(segments)


def snapshots(job: CliJob) -> list[dict[str, Any]]:
    code, found = job.ask("snapshots", "list", str(job.manifest))
    assert code == ExitCode.OK, found
    assert isinstance(found, list)
    return found


def flip(file: Path) -> None:
    """One bit."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def foreign(file: Path) -> None:
    """Another file of its kind, as it were from another store."""
    others = [
        other for other in file.parent.iterdir() if other != file and other.read_bytes() != file.read_bytes()
    ]
    file.write_bytes(others[0].read_bytes() if others else b"PAR1 of somebody else PAR1")


# --- others -------------------------------------------------------------------------------------------------


def test_a_second_instance_with_another_run_folder_changes_no_byte(make: Make, tmp_path: Path) -> None:
    """It has another cluster state, so only the store's lineage can tell the two apart."""
    application = numbers(tmp_path)
    job = make(application, {"generator": {"count": 12_000, "rate": 3000}})
    job.start()
    job.running()
    command = [*REFUSED, str(job.manifest), "--run-folder", str(tmp_path / "another"), "--no-spark", "--json"]
    second = subprocess.run(
        command, cwd=tmp_path, text=True, capture_output=True, timeout=120, check=False, env=ENVIRONMENT
    )
    assert second.returncode == ExitCode.ALREADY_RUNNING, second.stdout + second.stderr
    check(job)
    assert canonical(job.delivered("out")) == reference(application, range(12_000))["out"]


def has_counted(log: Path) -> bool:
    return counted(log) >= 16


def test_garbage_on_the_ports_of_a_running_job_is_dropped_counted_and_harmless(
    make: Make, tmp_path: Path
) -> None:
    application = numbers(tmp_path)
    job = make(application, {"generator": {"count": 12_000, "rate": 3000}})
    job.start()
    status, info = job.running(), job.run_folder.info()
    assert info is not None
    victims = [job.run_folder.worker(worker.worker) for worker in status.workers]
    worker_ports = [port for victim in victims if victim is not None for port in listening(victim.pid)]
    assert len(worker_ports) == 2
    chance = random.Random(5)
    for port in [*worker_ports, int(info.address.rpartition(":")[2])] * 20:
        throw(port, chance.randbytes(chance.choice((1, 4, 5, 100, 5000))))
    with explained(job):
        eventually(
            lambda: (now := job.status()) is not None and now.dropped_connections == 20,
            "the coordinator counts what it dropped",
        )
        for index in range(2):
            log = job.run_folder.logs / f"worker-{index}.log"
            eventually(partial(has_counted, log), "the worker counts what it dropped")
        check(job)
        after = job.status()
        assert after is not None
        assert (after.attempt, after.recoveries) == (status.attempt, status.recoveries), (
            "garbage cost a recovery"
        )
    assert canonical(job.delivered("out")) == reference(application, range(12_000))["out"]


def throw(port: int, data: bytes) -> None:
    """Send it, and see the connection end."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as hostile,
        contextlib.suppress(ConnectionError),
    ):
        hostile.sendall(data)
        hostile.shutdown(socket.SHUT_WR)
        while hostile.recv(4096):
            pass


def counted(log: Path) -> int:
    """How many connections a worker says it has dropped: it says so at the 1st, 2nd, 4th, 8th, ..."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if "connection dropped" in line]
    return max((int(line["dropped"]) for line in lines), default=0)
