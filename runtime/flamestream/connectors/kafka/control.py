"""The control topic of a Kafka sink: who writes under which fence, and what each writer has delivered.
Compacted, two partitions, ours.

    partition 0   announcements: "this transactional id writes under this fence", never in a transaction, so
                  that everybody sees them
    partition 1   states: what a writer's slots have delivered, always in the transaction of the output that
                  they tell of

The order of the announcements is what fencing rests on (kafka/writing.py): one partition has one order.

Keeps: what was acknowledged is read by whoever reads later. Does not: decide anything.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from flamestream.model.decoding import msgpack_decoder
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Fence
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway, NoSuchTopic, failure_of, judged
from flamestream.net.kafka.identity import TopicIdentity
from flamestream.net.kafka.own_topics import AS_THE_CLUSTER_HAS, COMPACTED, create, settings_of
from flamestream.net.kafka.reading import bounds_of, read_to

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, KafkaError, Message, Producer

FORMAT: Final = 1
ANNOUNCEMENTS: Final = 0
STATES: Final = 1


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """`writer`, a transactional id, writes under `fence`. Its open transaction has nothing below `offsets`,
    if they are given."""

    version: int
    fence: Fence
    writer: str
    offsets: dict[int, int]


class SlotState(msgspec.Struct, frozen=True, array_like=True):
    """A slot's last bundle. `last` is its last item as `payload.encode_items` gives it; b"" if that is long,
    or not known."""

    slot: int
    sequence: int
    t_last: bytes
    digest: bytes
    last: bytes


class WriterState(msgspec.Struct, frozen=True, array_like=True):
    """A writer's deliveries up to the moment it was written. What it writes next lies at or above `offsets`
    of the output's partitions."""

    version: int
    fence: Fence
    writer: str
    offsets: dict[int, int]
    slots: list[SlotState]
    present: dict[int, list[bytes]]
    """Metas above a slot's `t_last` that are in the output already, from a delivery that was cut off."""
    topic: str = ""
    """The output's name and id; "" if a version wrote it that did not say."""


Told = TypeVar("Told", Announcement, WriterState)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_announcement: Final = msgpack_decoder(Announcement)
_decode_state: Final = msgpack_decoder(WriterState)


class ControlTopic:
    """A sink's view of its control topic, which several sinks may share. Calls block."""

    def __init__(self, clients: Clients, topic: str, job: str, sink: str, where: str) -> None:
        self.name = topic
        self._clients = clients
        self._prefix = f"{job}\0{sink}\0"
        self._where = where
        self.where = f"{where}: control topic {topic!r}"
        """The topic as messages name it."""
        self._producer: Producer | None = None
        self._committed: Consumer | None = None
        self._identity = TopicIdentity(clients, topic, self.where)
        self._id = ""

    def ensure(self) -> None:
        """Create it if it is not there. Raises UserError if it cannot be what it must be, Corrupt if it was
        there before."""
        try:
            found = self._identity.now()
        except NoSuchTopic as error:
            self._refuse_another("", error)
            self._create()
            raise BrokersAway(f"{self.where} was created, and not every broker knows it yet") from error
        self._refuse_another(found.id)
        if len(found.partitions) != 2:
            settings = ", ".join(f"{name}={value}" for name, value in COMPACTED.items())
            raise UserError(f"{self.where} must have 2 partitions and {settings}: delete it, or name another")
        self._id = found.id

    def _create(self) -> None:
        where = (
            f"{self._where}: creating control topic {self.name!r} (or create it with 2 partitions and "
            f"{COMPACTED})"
        )
        create(self._clients.admin(), self.name, 2, AS_THE_CLUSTER_HAS, COMPACTED, where)

    def look(self) -> None:
        """Ask whether it is still there; `check` has the answer later."""
        self._identity.look()

    def check(self) -> None:
        """Raises Corrupt if it went: who may write, and what was delivered, is known nowhere else."""
        try:
            seen = self._identity.seen()
        except NoSuchTopic as error:
            self._refuse_another("", error)
            raise
        if seen is not None:
            self._refuse_another(seen.id)

    def _refuse_another(self, found: str, error: Exception | None = None) -> None:
        if self._id and found != self._id:
            raise Corrupt(
                f"{self.where} was deleted{' and created again' if found else ''} while it was in use: what "
                "was delivered is not known any "
                "more; start the job anew, with another store, control topic and output topic"
            ) from error

    def refuse_compacted(self, topic: str) -> None:
        """Raises UserError if compaction could remove from `topic` what a low-latency sink counts as
        delivered."""
        where = f"{self._where}: reading the settings of topic {topic!r}, which a low-latency sink must know"
        if "compact" in settings_of(self._clients.admin(), topic, where)["cleanup.policy"]:
            raise UserError(
                f"{self._where}: topic {topic!r} is compacted, and compaction removes the records of aborted "
                "transactions, which count as "
                "delivered in this form. Use form: transactional, or a topic with cleanup.policy=delete"
            )

    # --- writing --------------------------------------------------------------------------------------------

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Durable and seen by every later reader when it returns."""
        self._write([(one.writer, ANNOUNCEMENTS, _encode(one)) for one in announcements])

    def withdraw(self, writers: Sequence[str]) -> None:
        """Forget what these announced and stored: it is not needed any more."""
        self._write(
            [(writer, partition, None) for writer in writers for partition in (ANNOUNCEMENTS, STATES)]
        )

    def _write(self, records: Sequence[tuple[str, int, bytes | None]]) -> None:
        # Without idempotence: a record that is there twice says the same.
        producer = self._producer = self._producer or self._clients.producer(
            **{"message.timeout.ms": 10_000, "enable.idempotence": False}
        )
        errors: list[Any] = []
        with failure_of(self.where):
            for writer, partition, value in records:
                producer.produce(
                    self.name,
                    value,
                    self._key(writer),
                    partition,
                    on_delivery=lambda error, _: errors.append(error),
                )
            producer.flush(20)
        if len(errors) < len(records):
            raise BrokersAway(f"{self.where} does not answer")
        if failed := [error for error in errors if error is not None]:
            self._producer = None
            raise judged(failed[0], self.where)

    def store(
        self, producer: "Producer", state: WriterState, told: "Callable[[KafkaError | None, Message], None]"
    ) -> None:
        """Into the transaction that `producer` has open. `told` gets the delivery report."""
        producer.produce(self.name, _encode(state), self._key(state.writer), STATES, on_delivery=told)

    def _key(self, writer: str) -> bytes:
        return (self._prefix + writer).encode()

    # --- reading --------------------------------------------------------------------------------------------

    def announcements(self, uncommitted: "Consumer") -> list[Announcement]:
        """The newest of each writer."""
        return self._newest(uncommitted, uncommitted, ANNOUNCEMENTS, _decode_announcement)

    def states(self, uncommitted: "Consumer") -> list[WriterState]:
        """The newest of each writer, of transactions that are committed. Waits until all that are under way
        are decided."""
        self._committed = self._committed or self._clients.reader("read_committed")
        return self._newest(uncommitted, self._committed, STATES, _decode_state)

    def _newest(
        self, uncommitted: "Consumer", reader: "Consumer", partition: int, decode: Callable[[bytes], Told]
    ) -> list[Told]:
        """The records of this sink that `reader` sees below the end of now, which only a reader of
        uncommitted records knows."""
        low, high = bounds_of(uncommitted, self.name, [partition], self._where)[partition]
        found: dict[bytes, bytes | None] = {}
        for message in read_to(reader, self.name, {partition: low}, {partition: high}, self._where):
            key = message.key()
            if key is not None and key.startswith(self._prefix.encode()):
                found[key] = message.value()
        return [self._decoded(decode, value) for value in found.values() if value is not None]

    def _decoded(self, decode: Callable[[bytes], Told], value: bytes) -> Told:
        try:
            decoded = decode(value)
        except msgspec.DecodeError as error:
            raise Corrupt(f"{self.where} holds a record that is not ours: {error}; name another") from error
        if decoded.version != FORMAT:
            raise Corrupt(f"{self.where} was written by another version ({decoded.version})")
        return decoded

    def close(self) -> None:
        """Let go of the brokers."""
        if self._committed is not None:
            self._committed.close()
            self._committed = None
        self._producer = None
        self._identity.close()


def newest_states(states: Iterable[WriterState]) -> tuple[dict[int, SlotState], dict[int, set[bytes]]]:
    """The newest state of each slot, and the metas that are present above it."""
    slots: dict[int, SlotState] = {}
    present: dict[int, set[bytes]] = {}
    for state in sorted(states, key=lambda state: state.fence):
        for slot in state.slots:
            if slot.sequence >= slots.get(slot.slot, slot).sequence:
                slots[slot.slot] = slot
        for number, metas in state.present.items():
            present.setdefault(number, set()).update(metas)
    return slots, {
        slot: above for slot, metas in present.items() if (above := _above(metas, slots.get(slot)))
    }


def obsolete(
    announcements: Iterable[Announcement], states: Mapping[str, WriterState], fence: Fence
) -> list[str]:
    """Writers of older fences of which nothing is needed: every slot of theirs has a newer state."""
    newest: dict[int, Fence] = {}
    for state in states.values():
        for slot in state.slots:
            newest[slot.slot] = max(newest.get(slot.slot, state.fence), state.fence)

    def needed(writer: str) -> bool:
        state = states.get(writer)
        return state is not None and any(newest[slot.slot] <= state.fence for slot in state.slots)

    return [
        announced.writer
        for announced in announcements
        if announced.fence < fence and not needed(announced.writer)
    ]


def _above(metas: set[bytes], state: SlotState | None) -> set[bytes]:
    return metas if state is None else {meta for meta in metas if meta > state.t_last}
