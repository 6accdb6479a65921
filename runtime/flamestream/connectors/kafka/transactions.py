"""The transactions of one writer of a Kafka sink: what is open, and what is being committed beside it.

A commit waits for the transaction's coordinator, 5 to 60 ms. Deliveries of a low-latency sink must not: such
a writer has two transactional ids and uses them by turns.

    id     deliver deliver | commit ........ |                 deliver | commit
    id.2                   deliver deliver deliver | commit ... |

Keeps: one transaction is being committed at a time, in the order in which they were begun; so the newest
committed state is that of the newest committed transaction. Does not: know what may be written
(kafka/writing.py), or begin anew after a failure.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flamestream.connectors.kafka.control import ControlTopic, WriterState
from flamestream.connectors.kafka.items import HEADER, Record, pack
from flamestream.connectors.kafka.output import KafkaOutput
from flamestream.connectors.kit.contexts import TRACEPARENT, context_of
from flamestream.model.errors import FlameStreamError
from flamestream.model.ids import Fence
from flamestream.net.kafka.failures import BrokersAway, judged

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import KafkaError, Message, Producer

PATIENCE_SECONDS: Final = 0.5
INIT_SECONDS: Final = 0.05
"""librdkafka looks for a coordinator again at each call, and otherwise only every half a second."""
Told = Callable[[], None]


def nothing() -> None:
    """For what has nothing to look at while it waits."""


class Transactions:
    """The transactions of one writer, `name`. Calls block; all but `finish` one at a time."""

    def __init__(self, output: KafkaOutput, control: ControlTopic, name: str) -> None:
        self._output, self._control, self._name = output, control, name
        self._producers: list[Producer] = []
        self._writers: list[str] = []
        self._at = 0
        """The producer whose turn it is."""
        self._under_way = threading.Lock()
        """Held while a transaction is being committed."""
        self._failed: tuple[KafkaError, str] | None = None
        self.offsets: dict[int, int] = {}
        """Offsets of the output, at or above which lies what this writer writes next."""
        self.open = False
        self.closed = False
        self.trouble = ""

    def writers(self, fence: Fence) -> list[str]:
        """The transactional ids of this writer under `fence`."""
        own = (
            f"flamestream.{self._output.job}.{self._output.sink}.{self._name}.{fence.attempt}-{fence.layout}"
        )
        return [own, f"{own}.2"] if self._output.low_latency else [own]

    # --- ids ------------------------------------------------------------------------------------------------

    def initialise(self, fence: Fence) -> list[str]:
        """Take the ids of `fence`: what they had open is aborted. Waits for a commit that is under way, whose
        outcome would else be another's."""
        with self._under_way:
            self._writers = self.writers(fence)
            self._producers = [self.initialised(writer) for writer in self._writers]
            self._at, self.open, self._failed = 0, False, None
            return self._writers

    def initialised(self, writer: str) -> "Producer":
        """A producer of this id; whoever had it before can write nothing any more."""
        producer = self._output.clients.producer(
            **self._output.more, **{"transactional.id": writer, "on_delivery": self._delivered}
        )
        self._patiently(producer.init_transactions, INIT_SECONDS)
        return producer

    # --- writing --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open one, in the id whose turn it is."""
        self._own.begin_transaction()
        self.open = True

    def produce(
        self, around: tuple[bytes, bytes], records: Sequence[Record], contexts: Mapping[bytes, str]
    ) -> None:
        """Records of one bundle. `around`: what stands in their headers before and behind their metas;
        `contexts`: of those that are traced."""
        produce, topic, (before, after) = self._own.produce, self._output.topic, around
        for meta, key, value, partition in records:
            headers: Any = [(HEADER, before + pack(meta) + after)]
            if contexts and (context := context_of(contexts, meta)) is not None:
                headers.append((TRACEPARENT, context.encode()))
            while True:
                try:
                    produce(topic, value, key, partition, headers=headers)
                    break
                except BufferError:
                    self._own.poll(PATIENCE_SECONDS)

    def flush(self, meanwhile: Told) -> None:
        """Every record is in the log, or the transaction is lost."""
        while self._own.flush(PATIENCE_SECONDS):
            self.trouble = self._output.clients.problem
            self._stop_if_closed()
            meanwhile()
        if self._failed is not None:
            raise judged(*self._failed)
        self.works()

    # --- committing -----------------------------------------------------------------------------------------

    def commit(self, state: Callable[[str], WriterState], meanwhile: Told) -> WriterState:
        """Commit what is open with the writer's state in it; the state."""
        ended, stored = self.turn(state)
        self.finish(ended, meanwhile)
        return stored

    def turn(self, state: Callable[[str], WriterState]) -> "tuple[Producer, WriterState]":
        """Give what is open the writer's state, and let the other id have what comes next. The producer, for
        `finish`, which the same thread must call, and the state."""
        self._under_way.acquire()
        try:
            stored = self._store(state)
        except BaseException:
            self._under_way.release()
            raise
        ended = self._own
        self._at, self.open = (self._at + 1) % len(self._producers), False
        return ended, stored

    def finish(self, ended: "Producer", meanwhile: Told) -> None:
        """Commit what `turn` gave. Another thread may write into the other id meanwhile."""
        try:
            self._patiently(ended.commit_transaction, meanwhile=meanwhile)
        finally:
            self._under_way.release()
        self.works()

    def _store(self, state: Callable[[str], WriterState]) -> WriterState:
        if not self.open:
            self.begin()
        stored = state(self._writers[self._at])
        self._control.store(self._own, stored, self._stored)
        return stored

    def close(self) -> None:
        """Let go of the brokers; what is open is left to whoever takes these ids next."""
        self._producers = []  # each knows us, and so would live until somebody looks for such circles

    # --- failures -------------------------------------------------------------------------------------------

    def lose(self) -> FlameStreamError | BrokersAway | None:
        """Give up the open transaction. The error that a record of it failed with, if one did."""
        failed, self._failed, self.open = self._failed, None, False
        return None if failed is None else judged(*failed)

    def works(self) -> None:
        """The brokers have answered."""
        self.trouble = ""
        self._output.clients.works()

    def _delivered(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self._failed = self._failed or (error, self._output.where)
        # a record that was there already when it was sent again has no offset
        elif (offset := message.offset()) is not None:
            self.offsets[message.partition()] = offset + 1  # type: ignore[index]  # what is in the log has a partition

    def _stored(self, error: "KafkaError | None", _: "Message") -> None:
        if error is not None:
            self._failed = self._failed or (error, self._control.where)

    def _patiently(
        self, call: Callable[[float], None], seconds: float = PATIENCE_SECONDS, meanwhile: Told = nothing
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
        if self.closed:
            raise BrokersAway(f"{self._output.where}: closed while the brokers were away")

    @property
    def _own(self) -> "Producer":
        assert self._producers, "`initialise` comes first"
        return self._producers[self._at]
