"""Where the manifest says that the journal is: a folder, the cluster's ZooKeeper, or a topic with its access.

Keeps: a topic without brokers is reached as the job's Kafka source is. Does not: open anything
(journal/places.py).
"""

from typing import Any, Final

from flamestream.connectors import sources
from flamestream.connectors.kit.spec import convert
from flamestream.job.manifest import Job, JournalTopic
from flamestream.job.manifest_rules import ZOOKEEPER
from flamestream.journal.places import JournalConfig, KafkaJournal
from flamestream.model.errors import ManifestError
from flamestream.net.kafka.clients import KafkaAccess, with_absolute_files
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess

_ACCESS: Final = ("brokers", "settings", "secrets")
_PLACE: Final = ("spec", "journal", "kafka")


def journal_of(job: Job, zookeeper: ZooKeeperAccess = NOWHERE) -> JournalConfig | None:
    """The journal as workers and audits are told of it; None: the job has none. `zookeeper`: that of the job
    record. Raises ManifestError."""
    journal = job.spec.journal
    if journal is None:
        return None
    if journal.kafka is not None:
        return JournalConfig(kafka=_topic(job, journal.kafka), keep=journal.keep)
    assert journal.folder is not None, "checked when it was read"
    if journal.folder == ZOOKEEPER:
        return JournalConfig(zookeeper=zookeeper, keep=journal.keep)
    return JournalConfig(folder=str(job.path(journal.folder)), fsync=journal.fsync, keep=journal.keep)


def _topic(job: Job, written: JournalTopic) -> KafkaJournal:
    own: dict[str, Any] = {name: getattr(written, name) for name in _ACCESS}
    access = with_absolute_files(own, job.folder) if written.brokers else _of_a_source(job, written)
    try:
        return convert(KafkaJournal, {**access, "topic": written.topic}, "")
    except ManifestError as error:
        raise job.error(_PLACE, str(error).removeprefix(": ")) from error


def _of_a_source(job: Job, written: JournalTopic) -> dict[str, Any]:
    if written.settings or written.secrets:
        raise job.error(
            _PLACE,
            "settings and secrets belong to brokers: write brokers as well, or leave all three to the source",
        )
    found: list[dict[str, Any]] = []
    for source in [job.source(name) for name in job.spec.sources]:
        if not issubclass(sources.kind_of(source) or object, KafkaAccess):
            continue
        (settings,) = source.values()
        access = (
            {name: settings[name] for name in _ACCESS if name in settings}
            if isinstance(settings, dict)
            else {}
        )
        if access not in found:
            found.append(access)
    if len(found) != 1:
        has = (
            "no source is in Kafka" if not found else "the job's Kafka sources are reached in different ways"
        )
        raise job.error(
            _PLACE, f"{has}: write brokers: host:port (and settings and secrets, if a login is needed)"
        )
    return found[0]
