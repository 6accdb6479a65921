"""Mutual authentication of two processes that share a key, before anything else is read from the connection.

    dialler -> acceptor   Greeting(what the connection is for)   in the clear
    dialler <- acceptor   Welcome                                in the clear: that is known here
                          or Elsewhere(address), and the end     in the clear: another one knows it
    both                  TLS, proved by the key, for the purpose of the greeting (net/tls.py)

The acceptor must know the purpose before it knows which key is meant, and may hold the greeting until it
knows its attempt: so that much is said in the clear. The certificates of TLS hold it too: whoever changes it
in between ends the connection. Neither end sends more than this before it is asked for, so an acceptor never
holds more than a few kilobytes of an unauthenticated peer.

Keeps: `established` is called once, only when the other end has proved the key and means the same purpose;
otherwise `refused` once, with the connection closed. Does not: find keys, or decide what a failure means.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from flamestream.model.decoding import DecodeError, msgpack_decoder
from flamestream.net.framing import FrameConnection
from flamestream.net.tls import LinkKey, TlsStream
from flamestream.ports import Reactor

MAX_HANDSHAKE_FRAME: Final = 2048


class Purpose(msgspec.Struct, frozen=True, array_like=True):
    """The purpose of a connection; part of what is proved."""

    protocol: str
    job: str
    attempt: int
    layout: int
    dialler: str
    acceptor: str


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag=True):
    purpose: Purpose


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Elsewhere(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Dial there instead."""

    address: str


_Message = Greeting | Welcome | Elsewhere
_encode = msgspec.msgpack.Encoder().encode
_decode: Final[Callable[[bytes], _Message]] = msgpack_decoder(_Message)


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one connection."""

    max_frame: int
    max_unsent: int
    handshake_seconds: float = 5.0
    """Seconds from the connection until TLS has proved the peer, waiting for a fence included."""


Credentials = tuple[Purpose, LinkKey]
"""A connection's purpose, and the key that both ends share."""
Established = Callable[[FrameConnection], None]
Refused = Callable[[str], None]


class _Half:
    """The part of both ends: the connection, the deadline, and the one way to fail."""

    def __init__(self, reactor: Reactor, sock: socket.socket, refused: Refused, limits: Limits) -> None:
        self._connection = FrameConnection(
            reactor, sock, MAX_HANDSHAKE_FRAME, self._received, self._closed, limits.max_unsent
        )
        self._refused = refused
        self._deadline = reactor.later(
            limits.handshake_seconds, lambda: self.refuse("it was silent for too long")
        )

    def refuse(self, reason: str) -> None:
        """Close the connection and say why."""
        # One that has ended by itself says so in a later turn: `refused` is called once.
        if self._connection.open:
            self._connection.close()
            self._closed(reason)

    def _closed(self, reason: str) -> None:
        self._deadline.cancel()
        self._refused(reason)

    def _received(self, frames: list[bytes]) -> None:
        raise NotImplementedError

    def _secure(self, tls: TlsStream, established: Established) -> None:
        """The connection is the owner's as soon as the peer is proved: its first words may have come in the
        same breath."""

        def proved() -> None:
            self._deadline.cancel()
            established(self._connection)

        self._connection.secure(tls, proved)


class Dialled(_Half):
    """The dialler's half."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        credentials: Credentials,
        established: Established,
        refused: Refused,
        limits: Limits,
    ) -> None:
        super().__init__(reactor, sock, refused, limits)
        self._purpose, self._key = credentials
        self._established = established
        self.elsewhere = ""
        """Said by whoever refused: the address to be dialled instead. It is not proved."""
        self._connection.send(_encode(Greeting(self._purpose)))

    def _received(self, frames: list[bytes]) -> None:
        message = parse(frames[0]) if len(frames) == 1 else None
        if isinstance(message, Welcome):
            self._secure(self._key.dialling(_encode(self._purpose)), self._established)
        elif isinstance(message, Elsewhere):
            self.elsewhere = message.address
            self.refuse("it is to be found elsewhere")
        else:
            self.refuse("it does not keep to the handshake")


class Accepted(_Half):
    """The acceptor's half. `greeted` hears the purpose, and answers, now or later, with `welcome` or
    `refuse`."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        greeted: Callable[["Accepted"], None],
        refused: Refused,
        limits: Limits,
    ) -> None:
        super().__init__(reactor, sock, refused, limits)
        self._on_greeting = greeted
        self.since = reactor.instant()
        """The moment at which it came."""
        self._greeting: Greeting | None = None

    @property
    def greeted(self) -> bool:
        """Whether it has said what it came for."""
        return self._greeting is not None

    @property
    def purpose(self) -> Purpose:
        """The purpose that the dialler has named. It is not proved."""
        assert self._greeting is not None, "asked before it greeted"
        return self._greeting.purpose

    def lead(self, address: str) -> None:
        """Refuse, and say who is to be dialled instead."""
        self._connection.send(_encode(Elsewhere(address)))
        self.refuse(f"it was led to {address}")

    def welcome(self, key: LinkKey, established: Established) -> None:
        """Go on under `key`."""
        # Before TLS takes over what is sent: the dialler does not speak it until it has read this.
        self._connection.send(_encode(Welcome()))
        self._secure(key.accepting(_encode(self.purpose)), established)

    def _received(self, frames: list[bytes]) -> None:
        message = parse(frames[0])
        if len(frames) > 1:
            self.refuse("it sent more than the handshake asks for")
        elif isinstance(message, Greeting) and self._greeting is None:
            self._greeting = message
            self._on_greeting(self)
        else:
            self.refuse("it does not keep to the handshake")


def parse(frame: bytes) -> _Message | None:
    """The message, or None for garbage."""
    try:
        return _decode(frame)
    except DecodeError:
        return None
