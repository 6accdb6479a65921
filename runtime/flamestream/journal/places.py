"""Which journal a job has: made for a worker, and read again for an audit.

Does not: keep anything (journal/folder.py, journal/zookeeper.py, journal/kafka.py).
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flamestream.core.protocol.events import Entry
from flamestream.journal.folder import FolderJournal
from flamestream.journal.folder import everything as everything_in_folder
from flamestream.loop.background import Threads
from flamestream.model.errors import ClusterStateUnavailable
from flamestream.model.time import START, FrontId, Time
from flamestream.net.kafka.clients import Clients, KafkaAccess, require_package
from flamestream.ports import Journal, Post, Reactor
from flamestream.store.zookeeper_access import ZooKeeperAccess

if TYPE_CHECKING:  # most jobs have another journal
    from flamestream.journal.kafka_partitions import KafkaPartitions


class KafkaJournal(KafkaAccess, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A topic, and how to reach it. Secrets are named, not told."""

    topic: str


class JournalConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The place where the order decisions of journalled fronts are kept."""

    folder: str = ""
    zookeeper: ZooKeeperAccess | None = None
    """Instead of a folder."""
    kafka: KafkaJournal | None = None
    """Instead of a folder."""
    fsync: bool = True
    keep: bool = False


def build(config: JournalConfig, job: str, fronts: int, reactor: Reactor, post: Post) -> Journal:
    """The journal of all fronts of a worker."""
    if config.kafka is not None:
        from flamestream.journal.batches import BatchJournal
        from flamestream.journal.kafka import TopicPlace

        # One thread: a partition is read by one call at a time, and brokers that hang hold up nothing else.
        own = Threads(1, reactor.soon)
        place = TopicPlace(_partitions(config.kafka, job, fronts), job, reactor, own)
        return BatchJournal(place, reactor, post, threads=own, keep=config.keep)
    if config.zookeeper is not None:
        from flamestream.journal.zookeeper import zookeeper_journal  # lazily: not every worker needs kazoo
        from flamestream.store.zookeeper import ClusterState

        # a login may be replaced under a running job
        connect = partial(ClusterState, config.zookeeper, refused=ClusterStateUnavailable)
        return zookeeper_journal(connect, job, reactor, post, keep=config.keep)
    return FolderJournal(Path(config.folder), reactor, post, fsync=config.fsync, keep=config.keep)


def everything(config: JournalConfig, job: str, front: FrontId, cut: Time = START) -> list[Entry]:
    """All entries of `front` from `cut` on that count, oldest first. Blocks. Raises Corrupt if some were
    trimmed."""
    if config.kafka is not None:
        from flamestream.journal import kafka as journal_topic

        # It reads only, so nobody looks how many partitions there must be.
        partitions = _partitions(config.kafka, job, 0)
        try:
            return journal_topic.everything(partitions, job, front, cut)
        finally:
            partitions.close()
    if config.zookeeper is not None:
        from flamestream.journal import zookeeper as journal_zookeeper
        from flamestream.store.zookeeper import ClusterState

        with ClusterState(config.zookeeper) as state:
            return journal_zookeeper.everything(state, job, front, cut)
    return everything_in_folder(Path(config.folder), front, cut)


def _partitions(kafka: KafkaJournal, job: str, fronts: int) -> "KafkaPartitions":
    from flamestream.journal.kafka_partitions import KafkaPartitions

    require_package("spec.journal.kafka")
    return KafkaPartitions(Clients(kafka, f"{job}-journal"), kafka.topic, fronts, "journal")
