"""The producer of a source that a server has: its reader waits in a thread of its own, for ever if it must.

Keeps: what reading.py keeps; the reader is closed by its thread, behind whatever it is doing. Does not: read.
"""

from typing import Protocol

from flamestream.connectors.kit.producer import Reader, ReadingProducer
from flamestream.loop.background import Threads
from flamestream.model.time import FrontId
from flamestream.ports import Post, Reactor


class ServerReader(Reader, Protocol):
    """A reader with a connection."""

    def close(self) -> None:
        """Let it go."""


class ServerProducer(ReadingProducer):
    """`ports.Producer`."""

    def __init__(self, reader: ServerReader, front: FrontId, post: Post, reactor: Reactor) -> None:
        self._thread = Threads(1, reactor.soon)
        super().__init__(reader, front, post, reactor, threads=self._thread, tries=None)
        self._closing = reader.close

    def close(self) -> None:
        super().close()
        self._thread.close(self._closing)
