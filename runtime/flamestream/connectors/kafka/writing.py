"""The blocking half of a Kafka sink: opening under a fence, delivering, committing.

**Who may write.** A transactional id names job, sink, worker and fence. Opening under a fence F:

1. initialise the own id; 2. announce it with F, outside of any transaction; 3. read all announcements: if one
   has a fence above F, give up;
4. initialise every id that was announced with a lower fence; 5. only now look at what was delivered.

Initialising an id makes the broker raise its epoch, abort what that id has open, and refuse every later
request of the older epoch: the coordinator refuses to add partitions or to commit, and the leaders of
partitions in the open transaction refuse records, because the abort marker carries the new epoch. All output
is written in transactions, so after step 4 nothing of an older fence can be appended. A zombie that only now
opens under an older fence announces itself behind us, so it reads our announcement in its step 3 and writes
nothing; one whose announcement we did read is initialised by us after its own step 1, so our epoch is the
newer. It cannot initialise again without reading the announcements again.

**What was delivered.** `transactional`: each delivery is one transaction, with the writer's state in it;
consumers read committed records. `low-latency`: a delivery counts when its records are in the log, though
their transaction is open, and consumers read uncommitted records. Transactions are committed now and then,
each with the writer's state; behind the state the tail is read (kafka/tail.py). What a recovery aborts was
seen by those consumers and stays in the log, so it counts as delivered.

The tail begins at the offsets of a writer's state, or of its last announcement: a writer that was silent
announces new offsets before it writes again, so that a tail is never much longer than what is written within
`FRESH_SECONDS`.

Keeps: what is acknowledged is in the output once; a failure that leaves it open what was written is answered
by opening anew under the same fence, never by writing again. Does not: retry (loop/background.py calls again
after a BrokersAway).
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from flamestream.connectors.kafka.connector import PARTITIONERS, KafkaSinkSpec
from flamestream.connectors.kafka.control import (
    FORMAT,
    Announcement,
    ControlTopic,
    WriterState,
    newest_states,
    obsolete,
)
from flamestream.connectors.kafka.items import HEADER, Places, Record, Records, digest_of, pack, tag_of
from flamestream.connectors.kafka.ledger import Items, KafkaLedger
from flamestream.connectors.kafka.sink_topics import WrittenTopics
from flamestream.connectors.kafka.tail import Tail
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.model import payload as codec
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, Slot
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway, failure_of, judged
from flamestream.net.kafka.reading import bounds_of, read_to

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, KafkaError, Message, Producer

FRESH_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 0.5
INIT_SECONDS: Final = 0.05
"""librdkafka looks for a coordinator again at each call, and otherwise only every half a second."""
CLOSE_SECONDS: Final = 5.0
MAX_FENCERS: Final = 8


class KafkaOutput:
    """The topic of one sink and the form of its records; what its writers share."""

    def __init__(self, spec: KafkaSinkSpec, job: str, sink: str) -> None:
        self.topic, self.job, self.sink = spec.topic, job, sink
        self.clients = Clients(spec, f"{job}-{sink}")
        self.records = Records(spec.value, spec.key, spec.partitioner, f"spec.sinks.{sink}.kafka")
        self.more = {"partitioner": spec.partitioner} if spec.partitioner in PARTITIONERS else {}
        """Settings of librdkafka's that its producers have beside ours."""
        self.low_latency = spec.form == "low-latency"
        self.canonical = spec.value == "payload"
        """Whether values are encoded payloads, which can be compared at a replay."""
        self.tag = tag_of(job, sink)
        self.where = f"sink {sink}: topic {spec.topic!r}"


class KafkaWriting:
    """A writer of the sink's output. Calls block, one at a time, but `close`."""

    def __init__(
        self, output: KafkaOutput, control: ControlTopic, topics: WrittenTopics, writer: str
    ) -> None:
        self._output, self._control, self._topics, self._name = output, control, topics, writer
        self._lock = threading.Lock()
        self._closed = False
        self._fence: Fence = NO_FENCE
        self._slots: Sequence[Slot] = ()
        self._producer: Producer | None = None
        self._places: Places | None = None
        self._reader: Consumer | None = None
        self._broken = True
        """It is not known what was written last: open anew before anything else."""
        self._ledger = KafkaLedger({}, {})
        self._partitions = 0
        self._offsets: dict[int, int] = {}
        """Offsets of the output, at or above which lies what this writer writes next."""
        self._offsets_at = 0.0
        """The time at which a record of the control topic last said where the tail begins."""
        self._failed: tuple[KafkaError, str] | None = None
        self.open_transaction = False
        self.trouble = ""

    # --- opening --------------------------------------------------------------------------------------------

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        """Fence; the last bundle of each slot. Raises Fenced, or BrokersAway to be called again."""
        with self._lock:
            self._fence, self._slots, self._broken = action.fence, tuple(action.slots), True
            self._join()
            return self._ledger.last(self._slots)

    @property
    def newest(self) -> bytes:
        """The greatest meta that is in the output of any slot."""
        return self._ledger.newest

    def _join(self) -> None:
        """The five steps, and what follows from what is found."""
        me = self._id(self._fence)
        self._topics.open()
        if self._output.low_latency:
            self._control.refuse_compacted(self._output.topic)
        # (!) The five steps of the docstring, in this order: each later one relies on what the earlier ones
        # keep out.
        self._producer = self._initialised(me)
        self._places = Places(self._output.tag, *self._fence)
        self.open_transaction = False
        self._control.announce(Announcement(FORMAT, self._fence, me, {}))
        self._reader = self._reader or self._output.clients.reader("read_uncommitted")
        announced = self._control.announcements(self._reader)
        self._give_up_if_replaced(announced)
        self._fence_off([other.writer for other in announced if other.fence < self._fence])
        # Nothing older is appended from here on, so what is read now stays.
        states = self._control.states(self._reader)
        self._learn(me, announced, states)
        self._broken, self._failed = False, None
        stored = self._store(me)
        self._control.withdraw(
            obsolete(announced, {state.writer: state for state in [*states, stored]}, self._fence)
        )
        self.trouble = ""

    def _give_up_if_replaced(self, announced: Sequence[Announcement]) -> None:
        newest = max((other.fence for other in announced), default=NO_FENCE)
        if newest > self._fence:
            taken = (
                f"attempt {newest.attempt} (layout {newest.layout}) has taken over from "
                f"{self._fence.attempt} ({self._fence.layout})"
            )
            raise Fenced(f"{self._output.where}: {taken}")

    def _fence_off(self, writers: Sequence[str]) -> None:
        """Nothing of these can be appended any more when this returns."""
        if writers:
            with ThreadPoolExecutor(min(MAX_FENCERS, len(writers))) as fencers:
                list(fencers.map(self._initialised, writers))

    def _initialised(self, writer: str) -> "Producer":
        producer = self._output.clients.producer(
            **self._output.more, **{"transactional.id": writer, "on_delivery": self._delivered}
        )
        self._patiently(producer.init_transactions, INIT_SECONDS)
        return producer

    def _learn(self, me: str, announced: Sequence[Announcement], states: Sequence[WriterState]) -> None:
        mine = set(self._slots)
        self._topics.check_written(states)
        known, present = newest_states(states)
        reader, output = self._reader, self._output
        assert reader is not None, "made before"
        bounds = self._bounds()
        if output.low_latency:
            tail = Tail(output.tag, mine, known, output.canonical)
            begins = _tail_begins(
                bounds,
                [other for other in announced if other.fence < self._fence or other.writer == me],
                states,
            )
            for message in read_to(
                reader,
                output.topic,
                begins,
                {number: end for number, (_, end) in bounds.items()},
                output.where,
            ):
                tail.add(message)
            known |= tail.states()
            for slot, metas in tail.metas().items():
                present.setdefault(slot, set()).update(metas)
        own = {slot: state for slot, state in known.items() if slot in mine}
        above = {
            slot: {meta for meta in metas if slot not in own or meta > own[slot].t_last}
            for slot, metas in present.items()
            if slot in mine
        }
        self._ledger = KafkaLedger(own, {slot: metas for slot, metas in above.items() if metas})
        self._offsets = {number: end for number, (_, end) in bounds.items()}

    def _bounds(self) -> dict[int, tuple[int, int]]:
        assert self._reader is not None, "made before"
        with failure_of(self._output.where):
            topic: Any = self._reader.list_topics(self._output.topic, 5).topics[self._output.topic]
        if topic.error is not None:
            raise judged(topic.error, self._output.where)
        self._partitions = len(topic.partitions)
        return bounds_of(self._reader, self._output.topic, range(self._partitions), self._output.where)

    # --- delivering -----------------------------------------------------------------------------------------

    def deliver(self, action: Deliver) -> None:
        """Its bundles are in the output when it returns. Raises Fenced, or BrokersAway to be called again."""
        with self._lock:
            if action.fence != self._fence:
                raise Fenced(
                    f"{self._output.where}: delivery {action.number} is of {action.fence}, "
                    f"the writer of {self._fence}"
                )
            self._sound()
            if bundles := self._ledger.fresh(action.bundles):
                self._write(
                    [
                        (bundle, codec.decode_items(bundle.items), digest_of(bundle.items))
                        for bundle in bundles
                    ]
                )

    def _write(self, fresh: Sequence[tuple[Bundle, Items, bytes]]) -> None:
        made = [(bundle, digest, self._made(bundle, items)) for bundle, items, digest in fresh]
        skipped = sum(len(items) for _, items, _ in fresh) - sum(len(records) for _, _, records in made)
        with self._breaking():
            self._begin()
            for bundle, digest, records in made:
                self._produce(bundle, digest, records)
            if self._output.low_latency:
                self._flush()
            self._ledger.take(fresh)
            # Of a bundle whose items were all there no record says that it was delivered: the state has to.
            if skipped or not self._output.low_latency:
                self._commit()

    def _made(self, bundle: Bundle, items: Items) -> list[Record]:
        """A record for each item that is not in the output yet. All are made before any is written."""
        if there := self._ledger.present.get(bundle.slot):
            items = [item for item in items if item[0] not in there]
        return self._output.records.of(items, bundle.slot, self._partitions)

    def _begin(self) -> None:
        """Have a transaction, and where its records begin in the control topic."""
        if self.open_transaction:
            return
        self._topics.check()
        if self._output.low_latency and time.monotonic() - self._offsets_at > FRESH_SECONDS:
            self._offsets |= {number: end for number, (_, end) in self._bounds().items()}
            self._control.announce(
                Announcement(FORMAT, self._fence, self._id(self._fence), dict(self._offsets))
            )
            self._offsets_at = time.monotonic()
        self._own.begin_transaction()
        self.open_transaction = True

    def _produce(self, bundle: Bundle, digest: bytes, records: Sequence[Record]) -> None:
        assert self._places is not None, "open comes first"
        produce, topic = self._own.produce, self._output.topic
        before, after = self._places.around(bundle.slot, bundle.sequence, len(records), digest)
        for meta, key, value, partition in records:
            headers: Any = [(HEADER, before + pack(meta) + after)]
            while True:
                try:
                    produce(topic, value, key, partition, headers=headers)
                    break
                except BufferError:
                    self._own.poll(PATIENCE_SECONDS)

    def _flush(self) -> None:
        """Every record is in the log, or the transaction is lost."""
        while self._own.flush(PATIENCE_SECONDS):
            self.trouble = self._output.clients.problem
            self._stop_if_closed()
            self._topics.check()
        if self._failed is not None:
            raise judged(*self._failed)
        self._works()

    def _delivered(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self._failed = self._failed or (error, self._output.where)
        # a record that was there already when it was sent again has no offset
        elif (offset := message.offset()) is not None:
            self._offsets[message.partition()] = offset + 1  # type: ignore[index]  # what is in the log has a partition

    def _stored(self, error: "KafkaError | None", _: "Message") -> None:
        if error is not None:
            self._failed = self._failed or (error, self._control.where)

    # --- committing -----------------------------------------------------------------------------------------

    def commit(self) -> None:
        """End the open transaction, if there is one. Raises as `deliver`."""
        with self._lock:
            if self.open_transaction:
                self._sound()
                with self._breaking():
                    self._commit()

    def _commit(self) -> None:
        if self.open_transaction:
            self._store(self._id(self._fence))

    def _store(self, me: str) -> WriterState:
        """The state of all slots, and the commit of the transaction that it is in."""
        with self._breaking():
            if not self.open_transaction:
                self._own.begin_transaction()
                self.open_transaction = True
            present = {slot: sorted(metas) for slot, metas in self._ledger.present.items()}
            offsets = dict(self._offsets) if self._output.low_latency else {}
            state = WriterState(
                FORMAT, self._fence, me, offsets, self._ledger.states, present, self._topics.identity
            )
            self._control.store(self._own, state, self._stored)
            self._patiently(self._own.commit_transaction, meanwhile=self._topics.check)
            self.open_transaction = False
            self._offsets_at = time.monotonic()
            self._works()
        return state

    # --- failures -------------------------------------------------------------------------------------------

    def _sound(self) -> None:
        """After a failure: open anew under the same fence, which says what was written."""
        if self._broken:
            self._join()

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Inside, every failure leaves the writer broken, and KafkaException becomes ours."""
        try:
            yield
        except BaseException as error:
            if (instead := self._broke(error)) is not None:
                raise instead from error
            raise

    def _broke(self, error: BaseException) -> FlameStreamError | BrokersAway | None:
        """Whatever failed, the transaction at hand is not to be gone on with. What to raise instead of a
        Kafka error."""
        from confluent_kafka import KafkaException  # an extra

        self._broken, self.open_transaction = True, False
        if (failed := self._failed) is not None:
            self._failed = None
            return judged(*failed)
        return judged(error.args[0], self._output.where) if isinstance(error, KafkaException) else None

    def _patiently(
        self,
        call: Callable[[float], None],
        seconds: float = PATIENCE_SECONDS,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """A call of librdkafka's that may time out and be called again, while its broker is away."""
        from confluent_kafka import KafkaException  # an extra

        while True:
            try:
                call(seconds)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self.trouble = f"{self._output.where}: {error.args[0].str()}"
                self._stop_if_closed()
                meanwhile()
            else:
                return

    def _stop_if_closed(self) -> None:
        if self._closed:
            raise BrokersAway(f"{self._output.where}: closed while the brokers were away")

    def _works(self) -> None:
        self.trouble = ""
        self._output.clients.works()

    @property
    def _own(self) -> "Producer":
        assert self._producer is not None, "open comes first"
        return self._producer

    def _id(self, fence: Fence) -> str:
        return (
            f"flamestream.{self._output.job}.{self._output.sink}.{self._name}.{fence.attempt}-{fence.layout}"
        )

    def close(self) -> None:
        """Commit what is open, so that those who read committed records see it, and let go of the brokers."""
        self._closed = True
        if not self._lock.acquire(timeout=CLOSE_SECONDS):
            return
        try:
            if self.open_transaction and not self._broken:
                with self._breaking():
                    self._commit()
        except (FlameStreamError, BrokersAway):
            self.trouble = "the last transaction was left to the next attempt"
        finally:
            self._producer = None
            self._control.close()
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            self._lock.release()


def _tail_begins(
    bounds: dict[int, tuple[int, int]], announced: Sequence[Announcement], states: Sequence[WriterState]
) -> dict[int, int]:
    """The offsets at which the tails of these writers' open transactions begin at the latest; unknown
    partitions, at their beginning."""
    stored = {state.writer: state.offsets for state in states}
    begins = {number: end for number, (_, end) in bounds.items()}
    for writer in announced:
        told = stored.get(writer.writer)
        if told is None:
            continue  # it has stored no state, so it has delivered nothing
        for number, (low, end) in bounds.items():
            known = max(told.get(number, low), writer.offsets.get(number, low), low)
            begins[number] = min(begins[number], known, end)
    return begins
