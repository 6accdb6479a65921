"""The topics of a sink as one writer opened them: whether they are those still.

An output topic that was deleted and created again has lost what was acknowledged, and a control topic the
knowledge of it. Both go on taking records, so nothing else would say so.

Keeps: it is noticed at the next opening, or within `LOOK_SECONDS` of writing; asking holds up no delivery.
Does not: write.
"""

import threading
import time
from collections.abc import Iterable
from typing import Final

from flamestream.connectors.kafka.control import ControlTopic, WriterState
from flamestream.model.errors import Corrupt
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.identity import TopicIdentity

LOOK_SECONDS: Final = 5.0


class WrittenTopics:
    """The topics that one writer has opened; `where` begins messages about the output."""

    def __init__(self, clients: Clients, topic: str, control: ControlTopic, where: str) -> None:
        self._topic, self._control, self._where = topic, control, where
        self._identity = TopicIdentity(clients, topic, where)
        self._id = ""
        self._looked_at = 0.0
        self._lock = threading.Lock()
        """Deliveries and a commit beside them ask at the same time."""

    @property
    def identity(self) -> str:
        """The output's name and id, as `WriterState.topic` has them."""
        return f"{self._topic} {self._id}"

    def open(self) -> None:
        """Learn who they are; the control topic is created if it is not there. Raises UserError if the output
        is not."""
        self._control.ensure()
        self._id = self._identity.now().id

    def check_written(self, states: Iterable[WriterState]) -> None:
        """Raises Corrupt if what these say was written is not in this output topic. Another name is the
        user's decision."""
        for state in states:
            # An older version's state has no name here, and so accuses nobody.
            name, _, known = state.topic.rpartition(" ")
            if name == self._topic and known != self._id:
                raise Corrupt(self._created_again(known, self._id))

    def check(self) -> None:
        """Raises Corrupt or UserError if one is not any more what was opened. Waits for nothing."""
        with self._lock:
            self._control.check()
            if (seen := self._identity.seen()) is not None and seen.id != self._id:
                raise Corrupt(self._created_again(self._id, seen.id))
            if time.monotonic() - self._looked_at > LOOK_SECONDS:
                self._looked_at = time.monotonic()
                self._identity.look()
                self._control.look()

    def close(self) -> None:
        """Let go of the brokers."""
        self._identity.close()

    def _created_again(self, known: str, now: str) -> str:
        return (
            f"{self._where} was deleted and created again (its id was {known}, now {now}): what was "
            "delivered is gone with the old one. "
            "Restore it, or start the job anew, with another store and control topic"
        )
