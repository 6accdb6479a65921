"""An operator's coordinators in a process of their own: `python -m attacks.leader ZOOKEEPER PORT STATUS`.

Each line of its input is a job to host. STATUS is written anew some twenty times a second: each job's status,
and where its workers listen. Ends with its input.
"""

import base64
import io
import os
import select
import sys
from pathlib import Path

import msgspec

from flamestream.job.status import JobStatus
from flamestream.store.places import store_from
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.coordination.coordinators import Coordinators
from flamestream_operator.coordination.hosting import JobToCoordinate


class Seen(msgspec.Struct, frozen=True):
    """Of one job."""

    status: JobStatus
    links: list[str]
    """host:port of each worker's link."""


def line_of(job: JobToCoordinate) -> bytes:
    return base64.b64encode(msgspec.msgpack.encode(job)) + b"\n"


def read(file: Path) -> dict[str, Seen]:
    """What the leader last saw; nothing before that."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Seen]) if file.exists() else {}


def _look(coordinators: Coordinators, job: str) -> Seen | None:
    status = coordinators.status(job)
    return (
        Seen(status, [member.address for member in coordinators.members(job)]) if status is not None else None
    )


def main(zookeeper: ZooKeeperAccess, port: int, file: Path) -> None:
    coordinators = Coordinators(
        zookeeper=ZooKeeper(access=zookeeper), host="127.0.0.1", port=port, changed=lambda _: None,
        store_of=lambda url, _: store_from(url),
    )  # fmt: skip
    jobs: list[str] = []
    told = io.FileIO(
        sys.stdin.fileno(), closefd=False
    )  # unbuffered: what was read and not returned could not be waited for
    try:
        while True:
            if select.select([sys.stdin], [], [], 0.05)[0]:
                if not (line := told.readline()):
                    return
                job = msgspec.msgpack.decode(base64.b64decode(line), type=JobToCoordinate)
                coordinators.start(job)
                jobs.append(job.settings.job)
            part = file.with_suffix(".part")
            part.write_bytes(
                msgspec.json.encode({job: seen for job in jobs if (seen := _look(coordinators, job))})
            )
            os.replace(part, file)
    finally:
        coordinators.close()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=ZooKeeperAccess), int(sys.argv[2]), Path(sys.argv[3]))
