"""A reference consumer: what the far end of a socket sink has to do, in memory, and a server around it.

`Consumer` is the whole duty of a consumer in a page; `ConsumerServer` speaks docs/reference/wire-protocol.md
in a thread of its own. Both are for tests, benchmarks, and as a model for a consumer of one's own (which
would keep `_fences` and the ledger on disk).

>>> consumer = Consumer()
>>> consumer.open(Fence(Attempt(2), LayoutVersion(0)), [Slot(7)])
[]
>>> consumer.deliver(Fence(Attempt(1), LayoutVersion(0)), [(Slot(7), SequenceNumber(1), b"t", b"items")])
Traceback (most recent call last):
flamestream.model.errors.Fenced: slot 7 is open under attempt 2

Keeps: invariant 6, and each bundle once. Does not: survive its process.
"""

import socket
import threading
from collections.abc import Callable, Sequence

import msgspec

from flamestream.connectors.kit.ledger import Ledger
from flamestream.connectors.socket import wire
from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.log import Delivered
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Attempt, Fence, LayoutVersion, SequenceNumber, Slot
from flamestream.net.framing import FrameConnection

__all__ = ["Attempt", "Consumer", "ConsumerServer", "LayoutVersion", "SequenceNumber"]

OnBundles = Callable[[Sequence[Bundle]], None]


class Consumer:
    """Keeps each slot's fence and last bundle. `on_bundles` gets what is new, once."""

    def __init__(self, on_bundles: OnBundles | None = None) -> None:
        self._fences: dict[Slot, Fence] = {}
        self._ledger = Ledger()
        self._on_bundles = on_bundles

    def open(self, fence: Fence, slots: Sequence[Slot]) -> list[Delivered]:
        """Refuse what is older than `fence` from now on. The last bundle of each slot that has one."""
        self._check(fence, slots)
        self._fences.update(dict.fromkeys(slots, fence))
        last = self._ledger.last(slots)
        return [(slot, bundle.sequence, bundle.t_last, bundle.items) for slot, bundle in last.items()]

    def deliver(self, fence: Fence, bundles: Sequence[Delivered]) -> None:
        """Take what is new. Raises Fenced, or Bug if a bundle may not follow its slot's last one."""
        self._check(fence, [bundle[0] for bundle in bundles])
        fresh = self._ledger.check([Bundle(*bundle) for bundle in bundles])
        if self._on_bundles is not None and fresh:
            self._on_bundles(fresh)
        self._ledger.take(fresh)  # behind the callback (!): what raises is asked for again

    def _check(self, fence: Fence, slots: Sequence[Slot]) -> None:
        fences = self._fences
        for slot in slots:
            if fences.get(slot, NO_FENCE) > fence:
                raise Fenced(f"slot {slot} is open under attempt {fences[slot].attempt}")


class ConsumerServer:
    """A `Consumer` behind a TCP port, in a thread of its own; `on_bundles` is called in that thread."""

    def __init__(
        self, on_bundles: OnBundles | None = None, *, consumer: Consumer | None = None, port: int = 0
    ) -> None:
        """`consumer` and `port` of an earlier server: it has been restarted."""
        self.consumer = consumer or Consumer(on_bundles)
        self._reactor = EpollReactor()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.setblocking(False)
        self._connections: set[FrameConnection] = set()
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.refused = 0
        """Connections closed because of garbage."""
        self._thread = threading.Thread(target=self._serve, name="consumer", daemon=True)
        self._thread.start()

    def __enter__(self) -> "ConsumerServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def drop_connections(self) -> None:
        """Close every connection, as a network failure would. Returns at once."""
        self._reactor.soon(self._drop)

    def close(self) -> None:
        """Stop serving and free the port. What the consumer has stays in `consumer`."""
        self._reactor.stop()
        self._thread.join()
        self._reactor.close()  # not in the thread: `stop` may still be waking it

    def _serve(self) -> None:
        self._reactor.watch(self._listener.fileno(), readable=self._accept)
        self._reactor.run(lambda: None)
        self._drop()
        self._reactor.unwatch(self._listener.fileno())
        self._listener.close()

    def _drop(self) -> None:
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return

        def closed(_: str) -> None:
            self._connections.discard(connection)

        connection = FrameConnection(
            self._reactor, sock, wire.MAX_FRAME, lambda frames: self._frames(connection, frames), closed
        )
        self._connections.add(connection)

    def _frames(self, connection: FrameConnection, frames: list[bytes]) -> None:
        for frame in frames:
            try:
                question: wire.Question = wire.decode_question(frame)
            except msgspec.DecodeError:
                self.refused += 1
                connection.close()
                self._connections.discard(connection)
                return
            connection.send(wire.encode(self._answer(question)))

    def _answer(self, question: wire.Question) -> wire.Answer:
        try:
            match question:
                case wire.OpenFrame(fence=fence, slots=slots):
                    return wire.OpenedFrame(fence, self.consumer.open(fence, slots))
                case wire.DeliverFrame(fence=fence, number=number, bundles=bundles):
                    self.consumer.deliver(fence, bundles)
                    return wire.AcknowledgedFrame(fence, number)
        except Fenced:
            return wire.FencedFrame(question.fence)
        except FlameStreamError as error:
            return wire.FailedFrame(question.fence, error.category, str(error))
