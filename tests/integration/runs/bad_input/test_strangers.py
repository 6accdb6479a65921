"""Strangers at a running job, a second instance and garbage on its ports: they change no byte and cost no
recovery."""

import contextlib
import json
import random
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.processes import listening
from support.runs.cli_job import ENVIRONMENT, canonical, explained
from support.runs.numbers_job import Make, check, numbers, reference

REFUSED = [sys.executable, "-m", "flamestream.cli.main", "run"]


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
    before = status.dropped_connections  # of workers that dialled twice while a busy machine let them wait
    victims = [job.run_folder.worker(worker.worker) for worker in status.workers]
    worker_ports = [port for victim in victims if victim is not None for port in listening(victim.pid)]
    assert len(worker_ports) == 2
    chance = random.Random(5)
    for port in [*worker_ports, int(info.address.rpartition(":")[2])] * 20:
        throw(port, chance.randbytes(chance.choice((1, 4, 5, 100, 5000))))
    with explained(job):
        eventually(
            lambda: (now := job.status()) is not None and now.dropped_connections == before + 20,
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
