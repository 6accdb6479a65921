"""A worker's life as the launcher or a driver pod starts it: in a Spark task, or as a plain process
(`--no-spark`, for tests).

It is told everything by value, so it needs nothing from the launcher's machine. On that machine it also
leaves its pid in the run folder, for `status` and `drill`, and logs to a file there.

Does not: run the worker (node/worker_process.py).
"""

import argparse
import os
import secrets
import sys
import tempfile
from pathlib import Path

import msgspec

from flamestream.machine.process_identity import ProcessIdentity
from flamestream.machine.processors import share
from flamestream.model.decoding import from_json
from flamestream.model.ids import WorkerId
from flamestream.node.worker_process import WorkerProcessConfig, run
from flamestream.spark.streaming.task import Life


def worker_main(config: bytes, folder: str, life: Life) -> int:
    """Run a worker until it ends; its exit code. `folder` is the run folder, "" elsewhere than on the
    launcher's machine."""
    decoded = from_json(config, WorkerProcessConfig)
    if folder:
        _leave_trace(Path(folder), life)
        words = str(Path(folder) / "logs" / f"worker-{life.index}.stuck")
        decoded = msgspec.structs.replace(
            decoded, processors=tuple(share(life.index, of=decoded.beside)), words=words
        )
    return run(msgspec.structs.replace(decoded, worker=WorkerId(life.name)))


def pod_worker_main(config: bytes, application: str, life: Life) -> int:
    """Run a worker in an executor's pod, where Spark has left the pod's address in the environment; its exit
    code."""
    decoded = from_json(config, WorkerProcessConfig)
    address = os.environ["SPARK_EXECUTOR_POD_IP"]
    # the pod's own
    words = str(Path(tempfile.gettempdir()) / f"flamestream-{application}-w{life.index}.stuck")
    return run(
        msgspec.structs.replace(
            decoded, worker=WorkerId(f"{application}-{life.name}"), host=address, words=words
        )
    )


def _leave_trace(folder: Path, life: Life) -> None:
    log = os.open(folder / "logs" / f"worker-{life.index}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    os.close(log)
    target = folder / "workers" / f"{life.name}.json"
    fresh = target.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(ProcessIdentity.of_this_process()))
    # whole: `status` and `drill` look at any time
    os.replace(fresh, target)


def main(arguments: list[str]) -> int:
    """`python -m flamestream.spark.streaming.worker_main CONFIG.json FOLDER INDEX ORDINAL`"""
    parser = argparse.ArgumentParser(prog="worker_main", description="One life of one worker.")
    for name in ("config", "folder"):
        parser.add_argument(name)
    for name in ("index", "ordinal"):
        parser.add_argument(name, type=int)
    given = parser.parse_args(arguments)
    return worker_main(
        Path(given.config).read_bytes(), given.folder, Life(given.index, given.ordinal, secrets.token_hex(4))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
