"""A store that is away, full, read-only or damaged: epochs stop and not the stream, and damage is never taken
for an empty state."""

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from flamestream.job.exit_codes import ExitCode
from flamestream.job.status import JobStatus
from support.eventually import eventually
from support.runs.cli_job import CliJob, canonical, explained
from support.runs.numbers_job import Make, check, numbers, reference, snapshots


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
