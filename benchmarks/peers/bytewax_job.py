"""Bytewax: the job on a cluster of processes on this machine.

python benchmarks/peers/bytewax_job.py SOURCE SINK PROCESSES EPOCH_MS [RECOVERY_FOLDER]
"""

import multiprocessing
import signal
import socket
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main
from text import change, collect_less, connect, words

Posting = tuple[int, tuple[int, ...]]


class Reading(StatefulSourcePartition[str, int]):
    """What has come; asked again a millisecond after an empty answer."""

    def __init__(self, address: str, first: int) -> None:
        self._next, self._rest = first, b""
        self._socket = connect(address)
        self._socket.sendall(b"%d\n" % first)
        self._socket.setblocking(False)

    def next_batch(self) -> list[str]:
        try:
            self._rest += self._socket.recv(1 << 16)
        except BlockingIOError:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        self._next += len(lines)
        return [line.decode() for line in lines]

    def snapshot(self) -> int:
        return self._next

    def close(self) -> None:
        self._socket.close()


class Lines(FixedPartitionedSource[str, int]):
    def __init__(self, address: str) -> None:
        self._address = address

    def list_parts(self) -> list[str]:
        return ["docs"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Reading:
        return Reading(self._address, resume_state or 0)


class Sending(StatelessSinkPartition[Any]):
    def __init__(self, address: str) -> None:
        self._socket = connect(address)

    def write_batch(self, items: list[tuple[str, bytes]]) -> None:
        self._socket.sendall(b"".join(line for _, line in items))


class Changes(DynamicSink[Any]):
    def __init__(self, address: str) -> None:
        self._address = address

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Sending:
        return Sending(self._address)


def postings_of(line: str) -> list[tuple[str, tuple[str, int, tuple[int, ...]]]]:
    return [(posting[0], posting) for posting in words(line)]


def index(
    postings: list[Posting] | None, posting: tuple[str, int, tuple[int, ...]]
) -> tuple[list[Posting], bytes]:
    word, document, positions = posting
    postings = postings if postings is not None else []
    postings.append((document, positions))
    return postings, change(word, document, len(postings), positions)


def flow(source: str, sink: str) -> Dataflow:
    dataflow = Dataflow("index")
    keyed = op.flat_map("words", op.input("docs", dataflow, Lines(source)), postings_of)
    op.output("changes", op.stateful_map("index", keyed, index), Changes(sink))
    return dataflow


def work(source: str, sink: str, addresses: list[str], number: int, epoch_ms: int, recovery: str) -> None:
    collect_less()
    config = RecoveryConfig(recovery) if recovery else None
    # Addresses are for a cluster: one process alone has none.
    cluster_main(
        flow(source, sink),
        addresses,
        number,
        epoch_interval=timedelta(milliseconds=epoch_ms),
        recovery_config=config,
    )


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def main() -> None:
    source, sink, processes, epoch_ms, *recovery = sys.argv[1:]
    folder = recovery[0] if recovery else ""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        init_db_dir(Path(folder), int(processes))
    addresses = [free_address() for _ in range(int(processes))] if int(processes) > 1 else []
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=work, args=(source, sink, addresses, number, int(epoch_ms), folder))
        for number in range(int(processes))
    ]
    for worker in workers:
        worker.start()
    signal.signal(signal.SIGTERM, lambda *_: [worker.kill() for worker in workers])
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
