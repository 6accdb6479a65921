"""A job of this machine, as it stands: who runs it, in a sentence, and what `status --json` prints.

Does not: ask anybody. Launcher and coordinator have left it in the run folder.
"""

import os
import time
from typing import Any, Final

import msgspec

from flamestream.job.status import JobStatus
from flamestream.model.kernel import NAME
from flamestream.node.run_folder import RunFolder, RunInfo

STALE: Final = 2.0
"""Seconds after which a running coordinator should have written."""


def state_of(info: RunInfo | None, status: JobStatus | None) -> str:
    """Who runs, in a sentence."""
    if info is None:
        return "this job was never run here"
    if not info.running:
        ended = (
            f"it {status.outcome or 'was cut off'}{f': {status.message}' if status.message else ''}"
            if status
            else "it never began"
        )
        return f"job {info.job!r} does not run: {ended}"
    if not info.address:
        return f"job {info.job!r} runs in batches of Spark: process {info.launcher.pid}"
    text = (
        f"job {info.job!r} runs: launcher {info.launcher.pid}, coordinator {info.coordinator}, Spark "
        f"{info.driver or 'none'}"
    )
    if not coordinator_alive(info, status):
        text += "\nthe coordinator is down: no epochs and no recoveries until it is back; the stream goes on"
    return text


def coordinator_alive(info: RunInfo, status: JobStatus | None) -> bool:
    """Whether its process is there and has written lately, or not had the time to yet."""
    if not os.path.exists(f"/proc/{info.coordinator}"):
        return False
    # a new one may be
    return (
        status is None or status.pid != info.coordinator or time.time() - status.updated / 1_000_000 < STALE
    )


def pids_of(folder: RunFolder, status: JobStatus) -> dict[str, int]:
    """Pids of the workers that live on this machine."""
    names = [*(worker.worker for worker in status.workers), *status.standbys]
    found = {name: folder.worker(name) for name in names}
    return {
        name: identity.pid
        for name, identity in found.items()
        if identity is not None and identity.here and identity.alive
    }


def described(folder: RunFolder, info: RunInfo | None, status: JobStatus | None) -> dict[str, Any]:
    """Plain data of all that, for programs."""
    pids = (info.launcher.pid, info.coordinator, info.zookeeper, info.driver) if info else ()
    processes = dict(zip(("launcher", "coordinator", "zookeeper", "driver"), pids, strict=False))
    return {
        "state": state_of(info, status),
        "kernel": NAME,
        "running": info is not None and info.running,
        "coordinator_alive": info is not None and info.running and coordinator_alive(info, status),
        "processes": processes,
        "pids": pids_of(folder, status) if status else {},
        "status": msgspec.to_builtins(status) if status else None,
    }
