"""The journal in a real ZooKeeper, beyond what every journal promises (test_journals.py): an outage, and what
is too large."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.core.protocol.events import JournalFailed, SourceFailed
from flamestream.journal.places import JournalConfig, build
from flamestream.journal.zookeeper import LARGEST
from flamestream.loop.reactor import EpollReactor
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from support.journals.worker import Worker
from support.loops import reactor
from support.processes import kill


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path) as made:
        yield made


def worker_of(loop: EpollReactor, server: EmbeddedZooKeeper, attempt: int) -> Worker:
    config = JournalConfig(zookeeper=server.access)
    return Worker(loop, attempt, lambda post: build(config, "index", 4, loop, post))


def test_an_outage_is_told_once_and_loses_nothing(loop: EpollReactor, server: EmbeddedZooKeeper) -> None:
    worker = worker_of(loop, server, 1)
    worker.seal()
    worker.ask(10)
    worker.reported(10)
    kill(server.pid)
    assert isinstance(worker.append(20), JournalFailed)
    server.ensure_running()
    worker.ask(30)
    assert worker.reported(30) in ([], [worker.appended(20)])
    assert worker_of(loop, server, 2).seal() == [10, 20, 30]


def test_an_entry_that_no_server_takes_stops_the_job_with_the_way_out(
    loop: EpollReactor, server: EmbeddedZooKeeper
) -> None:
    worker = worker_of(loop, server, 1)
    worker.seal()
    worker.ask(10, payloads=bytes(LARGEST))
    event = worker.next()
    assert isinstance(event, SourceFailed) and event.category == "user" and "shared volume" in event.message


def test_a_server_with_a_small_heap_takes_a_journal_at_full_rate(
    loop: EpollReactor, server: EmbeddedZooKeeper
) -> None:
    """It has 64 MB, and keeps the last transactions there whatever is trimmed: of large batches that would be
    more."""
    worker, pid = worker_of(loop, server, 1), server.pid
    worker.seal()
    for last in range(1000, 16_000, 1000):
        worker.ask(*range(last - 999, last + 1), payloads=bytes(4096))
        assert not any(isinstance(event, JournalFailed) for event in worker.reported(last)), (
            "the server is there"
        )
        worker.ask_to_trim(last)
    assert server.pid == pid
    assert worker_of(loop, server, 2).seal(last) == [last]
