"""The blocking half of a Kafka sink: opening under a fence, delivering, committing.

**Who may write.** A transactional id names job, sink, worker and fence. Opening under a fence F:

1. initialise the own ids; 2. announce them with F, outside of any transaction; 3. read all announcements: if one
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
each with the writer's state, while deliveries go on (kafka/transactions.py); behind the oldest of the states
of its ids the tail is read (kafka/tail.py). What a recovery aborts was
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from flamestream.connectors.kafka.control import (
    FORMAT,
    Announcement,
    ControlTopic,
    WriterState,
    newest_states,
    obsolete,
)
from flamestream.connectors.kafka.items import Places, Record, digest_of
from flamestream.connectors.kafka.ledger import Items, KafkaLedger
from flamestream.connectors.kafka.output import KafkaOutput
from flamestream.connectors.kafka.sink_topics import WrittenTopics
from flamestream.connectors.kafka.tail import Tail
from flamestream.connectors.kafka.transactions import Transactions
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.model import payload as codec
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, Slot
from flamestream.net.kafka.failures import BrokersAway, failure_of, judged
from flamestream.net.kafka.reading import bounds_of, read_to

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer

FRESH_SECONDS: Final = 2.0
CLOSE_SECONDS: Final = 5.0
MAX_FENCERS: Final = 8


class KafkaWriting:
    """A writer of the sink's output. Calls block, one at a time, but `commit`, which has a thread of its own,
    and `close`."""

    def __init__(
        self, output: KafkaOutput, control: ControlTopic, topics: WrittenTopics, writer: str
    ) -> None:
        self._output, self._control, self._topics = output, control, topics
        self._transactions = Transactions(output, control, writer)
        self._lock = threading.Lock()
        self._fence: Fence = NO_FENCE
        self._slots: Sequence[Slot] = ()
        self._places: Places | None = None
        self._reader: Consumer | None = None
        self._broken = True
        """It is not known what was written last: open anew before anything else."""
        self._ledger = KafkaLedger({}, {})
        self._partitions = 0
        self._offsets_at = 0.0
        """The time at which a record of the control topic last said where the tail begins."""

    @property
    def open_transaction(self) -> bool:
        """Whether something was delivered that no commit has been asked for."""
        return self._transactions.open

    @property
    def trouble(self) -> str:
        """Why a call takes long; "" if none does."""
        return self._transactions.trouble

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
        self._topics.open()
        if self._output.low_latency:
            self._control.refuse_compacted(self._output.topic)
        # (!) The five steps of the docstring, in this order: each later one relies on what the earlier ones
        # keep out.
        mine = self._transactions.initialise(self._fence)
        self._places = Places(self._output.tag, *self._fence)
        self._announce({})
        self._reader = self._reader or self._output.clients.reader("read_uncommitted")
        announced = self._control.announcements(self._reader)
        self._give_up_if_replaced(announced)
        self._fence_off([other.writer for other in announced if other.fence < self._fence])
        # Nothing older is appended from here on, so what is read now stays.
        states = self._control.states(self._reader)
        self._learn(mine, announced, states)
        self._broken = False
        # (!) Each id says where its tail begins before it writes: one that has stored nothing counts as one
        # that has delivered nothing.
        stored = [self._commit() for _ in mine]
        self._control.withdraw(
            obsolete(announced, {state.writer: state for state in [*states, *stored]}, self._fence)
        )
        self._transactions.works()

    def _announce(self, offsets: dict[int, int]) -> None:
        self._control.announce(
            [
                Announcement(FORMAT, self._fence, writer, offsets)
                for writer in self._transactions.writers(self._fence)
            ]
        )

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
                list(fencers.map(self._transactions.initialised, writers))

    def _learn(
        self, ids: Sequence[str], announced: Sequence[Announcement], states: Sequence[WriterState]
    ) -> None:
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
                [other for other in announced if other.fence < self._fence or other.writer in ids],
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
        self._transactions.offsets = {number: end for number, (_, end) in bounds.items()}

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
        """Write a delivery, whose bundles are in the output when this returns. Raises Fenced, or BrokersAway
        to be called again."""
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
                    ],
                    action.traces or {} if self._output.traceparent else {},
                )

    def _write(self, fresh: Sequence[tuple[Bundle, Items, bytes]], contexts: Mapping[bytes, str]) -> None:
        made = [(bundle, digest, self._made(bundle, items)) for bundle, items, digest in fresh]
        assert self._places is not None, "open comes first"
        skipped = sum(len(items) for _, items, _ in fresh) - sum(len(records) for _, _, records in made)
        with self._breaking():
            self._begin()
            for bundle, digest, records in made:
                around = self._places.around(bundle.slot, bundle.sequence, len(records), digest)
                self._transactions.produce(around, records, contexts)
            if self._output.low_latency:
                self._transactions.flush(self._topics.check)
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
        self._topics.check()
        if self._transactions.open:
            return
        if self._output.low_latency and time.monotonic() - self._offsets_at > FRESH_SECONDS:
            offsets = self._transactions.offsets
            offsets |= {number: end for number, (_, end) in self._bounds().items()}
            self._announce(dict(offsets))
            self._offsets_at = time.monotonic()
        self._transactions.begin()

    # --- committing -----------------------------------------------------------------------------------------

    def commit(self) -> None:
        """End the open transaction, if there is one; deliveries go on beside it. Raises as `deliver`."""
        with self._lock:
            if not self._transactions.open or self._broken:  # then the next delivery opens anew
                return
            with self._breaking():
                ended, _ = self._transactions.turn(self._state)
            self._offsets_at = time.monotonic()
        with self._breaking():
            self._transactions.finish(ended, self._topics.check)

    def _commit(self) -> WriterState:
        """The state of all slots, and the commit of the transaction that it is in."""
        with self._breaking():
            stored = self._transactions.commit(self._state, self._topics.check)
            self._offsets_at = time.monotonic()
        return stored

    def _state(self, writer: str) -> WriterState:
        present = {slot: sorted(metas) for slot, metas in self._ledger.present.items()}
        offsets = dict(self._transactions.offsets) if self._output.low_latency else {}
        return WriterState(
            FORMAT, self._fence, writer, offsets, self._ledger.states, present, self._topics.identity
        )

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

        self._broken = True
        if (failed := self._transactions.lose()) is not None:
            return failed
        return judged(error.args[0], self._output.where) if isinstance(error, KafkaException) else None

    def close(self) -> None:
        """Commit what is open, so that those who read committed records see it, and let go of the brokers."""
        self._transactions.closed = True
        if not self._lock.acquire(timeout=CLOSE_SECONDS):
            return
        try:
            if self._transactions.open and not self._broken:
                self._commit()
        except (FlameStreamError, BrokersAway):
            pass  # the last transaction is left to the next attempt
        finally:
            self._transactions.close()
            self._control.close()
            self._topics.close()
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
