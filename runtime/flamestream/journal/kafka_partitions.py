"""A compacted topic of one job's own, a partition for each writer: records are written one by one, and read
from an offset to the end.

Records are written by an idempotent producer without transactions, so offsets have no gaps but those of
compaction. What it could not deliver within `DELIVERY_SECONDS` is told as not known, and a new producer takes
over: an old one may be in a state it cannot leave.

A read ends where the partition ends, and begins anew if anything was written meanwhile: so nothing that is
removed *because* of a newer record can be missed together with that record.

Keeps: a topic that would lose records is refused before it is written to. Does not: know what is in the
records (journal/kafka.py).
"""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from flamestream.journal.kafka import Row, Told
from flamestream.model.errors import Corrupt, UserError
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway, NoSuchTopic, failure_of, judged
from flamestream.net.kafka.identity import ANSWER_SECONDS, ask, described
from flamestream.net.kafka.own_topics import COMPACTED, create, settings_of
from flamestream.net.kafka.reading import bounds_of, read_to

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient

    Delivered = Callable[[KafkaError | None, Message], None]

DELIVERY_SECONDS: Final = 10.0
CHECKED_SECONDS: Final = 5.0
"""Seconds for which a topic's settings count as known, so that the partitions of one recovery ask once."""
LOOK_SECONDS: Final = 0.05
"""Seconds between two looks for a topic that was made."""
READS: Final = 20
"""Times that a read begins anew before it gives up for now."""
ENVELOPE: Final = 4096
"""Bytes of a record beside its value, at most: keys, and what the batch around it costs."""
REPLICAS: Final = 3
SETTINGS: Final = {**COMPACTED, "unclean.leader.election.enable": "false"}
"""Settings of a topic that is created here, beside the replicas."""


class KafkaPartitions:
    """`journal.kafka.Partitions`."""

    def __init__(self, clients: Clients, topic: str, partitions: int, where: str) -> None:
        self.name = topic
        self.largest = 0
        self._checked = 0.0
        self._clients, self._partitions, self._where = clients, partitions, f"{where}: topic {topic!r}"
        self._sender: _Sender | None = None
        self._reader: Consumer | None = None
        # Seals are written by a helper thread, batches and trims by the loop.
        self._lock = threading.Lock()

    def ensure(self, partition: int) -> None:
        """Create the topic if it is not there. Raises UserError if it cannot be what it must be."""
        if partition >= self._partitions:  # of a source that came to a job that ran
            self._partitions, self.largest = partition + 1, 0
        if self.largest and time.monotonic() < self._checked + CHECKED_SECONDS:
            return
        admin = self._clients.admin()
        found = self._replicas(admin) or self._created(admin)
        try:
            settings = settings_of(
                admin, self.name, f"{self._where}: reading its settings, which a journal must know"
            )
        except NoSuchTopic as error:
            raise BrokersAway(f"{self._where} is not known to all brokers yet") from error
        with failure_of(self._where):
            brokers = len(admin.list_topics(timeout=ANSWER_SECONDS).brokers)
        if problem := weakness(found, settings, self._partitions, brokers):
            wanted = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
            raise UserError(
                f"{self._where} cannot be a journal: {problem}. Correct it, "
                f"or name another that is created with {wanted}"
            )
        self.largest, self._checked = int(settings["max.message.bytes"]) - ENVELOPE, time.monotonic()

    def _replicas(self, admin: "AdminClient") -> list[int]:
        """The number of replicas of each partition; none if there is no such topic."""
        try:
            return described(self._clients, admin, ask(admin, self.name), self._where).replicas
        except NoSuchTopic:
            return []

    def _created(self, admin: "AdminClient") -> list[int]:
        """Create the topic; its replicas, once it is known. The brokers of a cluster learn of it one after
        the other."""
        self._create(admin)
        deadline = time.monotonic() + ANSWER_SECONDS
        while not (found := self._replicas(admin)):
            if time.monotonic() > deadline:
                raise BrokersAway(f"{self._where} was made, and is not known to all brokers yet")
            time.sleep(LOOK_SECONDS)
        return found

    def _create(self, admin: "AdminClient") -> None:
        where = f"{self._where}: creating it with {self._partitions} partitions and {SETTINGS}"
        with failure_of(where):
            replicas = min(REPLICAS, len(admin.list_topics(timeout=ANSWER_SECONDS).brokers))
        # acks=all waits for the replicas in sync, which may be the leader alone: of three, two have to be. Of
        # two, the loss of one would stop the journal then.
        settings = {**SETTINGS, "min.insync.replicas": "2" if replicas == REPLICAS else "1"}
        create(admin, self.name, self._partitions, replicas, settings, where)

    # --- writing --------------------------------------------------------------------------------------------

    def write(self, partition: int, key: bytes, value: bytes | None, told: Told) -> None:
        """Append a record; `told` is called by the thread that hears of deliveries."""
        from confluent_kafka import KafkaException  # an extra

        try:
            self._healthy_sender().send(self.name, partition, key, value, partial(self._delivered, told))
        except KafkaException as error:
            told(judged(error.args[0], self._where))
        except BufferError as error:
            told(BrokersAway(f"{self._where}: {error}"))

    def _healthy_sender(self) -> "_Sender":
        with self._lock:
            if self._sender is None or self._sender.failed:
                if self._sender is not None:
                    self._sender.retire()
                more = {
                    # by default librdkafka waits some milliseconds for more, and so would each result
                    "linger.ms": 0,
                    "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                    "message.max.bytes": self.largest + ENVELOPE,
                }
                self._sender = _Sender(self._clients.producer(**more))
            return self._sender

    def _delivered(self, told: Told, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            failure = judged(error, self._where)
            told(
                BrokersAway(f"{failure} {self._clients.problem}".strip())
                if isinstance(failure, BrokersAway)
                else failure
            )
            return
        self._clients.works()
        # None: the broker had it already when it was sent again, and does not say where.
        offset = message.offset()
        told(-1 if offset is None else max(offset, -1))

    # --- reading --------------------------------------------------------------------------------------------

    def read(self, partition: int, start: int | None, beyond: int) -> tuple[list[Row], int]:
        """Records from `start` to the end, and that end. One call at a time. Raises BrokersAway to be called
        again."""
        if self._reader is None:
            self._reader = self._clients.reader("read_uncommitted", **{"check.crcs": True})
        low, high = self._bounds(partition)
        for _ in range(READS):
            # A cleaner leaves holes and never moves the beginning; a deletion of records does.
            if start is not None and low > start:
                raise Corrupt(
                    f"{self._where}: partition {partition} begins at offset {low} now: "
                    "somebody has deleted records before"
                )
            # What was acknowledged is there, though the high watermark that is told may not be so far yet.
            end = max(high, beyond + 1)
            messages = read_to(
                self._reader,
                self.name,
                {partition: low if start is None else start},
                {partition: end},
                self._where,
            )
            rows = [Row(message.offset() or 0, message.key() or b"", message.value()) for message in messages]
            low, high = self._bounds(partition)
            # Nothing was written meanwhile: else what is not in `rows` may be gone because of a record behind
            # `end` (!).
            if high == end:
                return rows, end
        raise BrokersAway(f"{self._where}: partition {partition} grows faster than it is read")

    def _bounds(self, partition: int) -> tuple[int, int]:
        assert self._reader is not None
        return bounds_of(self._reader, self.name, [partition], self._where)[partition]

    def close(self) -> None:
        """Let go of the brokers. What is not delivered yet is told nobody."""
        with self._lock:
            if self._sender is not None:
                self._sender.retire()
                self._sender = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _Sender:
    """A producer, and the thread that hears of its deliveries."""

    def __init__(self, producer: "Producer") -> None:
        self.failed = False
        """Whether something was not delivered."""
        self._producer = producer
        self._retired = False
        threading.Thread(target=self._listen, name="kafka deliveries", daemon=True).start()

    def send(self, topic: str, partition: int, key: bytes, value: bytes | None, told: "Delivered") -> None:
        def delivered(error: "KafkaError | None", message: "Message") -> None:
            self.failed = self.failed or error is not None
            told(error, message)

        self._producer.produce(topic, value, key, partition, on_delivery=delivered)

    def retire(self) -> None:
        """Nothing more is sent; what is under way is still heard of."""
        self._retired = True

    def _listen(self) -> None:
        while not (self._retired and not len(self._producer)):
            self._producer.poll(0.5)


def weakness(replicas: list[int], settings: Mapping[str, str], partitions: int, brokers: int) -> str:
    """The reason why a topic may not hold a journal; "": it may. `replicas` are those of each of its
    partitions."""
    if len(replicas) < partitions:
        return (
            f"it has {len(replicas)} partitions, and the job's sources have, or had, {partitions} readers, each of "
            "which needs one: add partitions"
        )
    if (policy := settings.get("cleanup.policy", "unknown")) != "compact":
        return f"cleanup.policy is {policy}, so entries expire that are still needed: it must be compact"
    if settings.get("unclean.leader.election.enable") == "true":
        return (
            "unclean.leader.election.enable is true, so what was acknowledged may be lost: it must be false"
        )
    if min(replicas) < 2 <= brokers:
        return (
            f"a partition has one replica, though the cluster has {brokers} brokers, "
            "which a lost one would take along"
        )
    return ""
