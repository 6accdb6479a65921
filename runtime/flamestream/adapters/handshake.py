"""Mutual authentication of two processes that share a key, before anything else is read from the connection.

    dialler -> acceptor   Greeting(what the connection is for, nonce)
    dialler <- acceptor   Challenge(nonce, proof of the acceptor)
    dialler -> acceptor   Proof(proof of the dialler)
    dialler <- acceptor   Welcome

A proof is the HMAC-SHA256, under the key, of the prover's role, the purpose and both nonces, so it is worth nothing on another
connection, in the other role, or under another attempt. The dialler sends nothing of its own before the Welcome, therefore an
acceptor never holds more than `MAX_HANDSHAKE_FRAME` bytes of an unauthenticated peer.

Keeps: `established` is called once, only when both have proved the key; otherwise `refused` once, with the connection closed.
Does not: encrypt, find keys, or decide what a failure means. Source: challenge-response as in ISO 9798-4.
"""

import hashlib
import hmac
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from flamestream.adapters.framing import FrameConnection
from flamestream.model.decoding import DecodeError, msgpack_decoder
from flamestream.ports import Reactor

MAX_HANDSHAKE_FRAME: Final = 2048
_NONCE_SIZE: Final = 32


class Purpose(msgspec.Struct, frozen=True, array_like=True):
    """What a connection is for; part of what is proved."""

    protocol: str
    job: str
    attempt: int
    layout: int
    dialler: str
    acceptor: str


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag=True):
    purpose: Purpose
    nonce: bytes


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=True):
    nonce: bytes
    proof: bytes


class Proof(msgspec.Struct, frozen=True, array_like=True, tag=True):
    proof: bytes


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


_Message = Greeting | Challenge | Proof | Welcome
_encode = msgspec.msgpack.Encoder().encode
_decode: Final[Callable[[bytes], _Message]] = msgpack_decoder(_Message)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one connection."""

    max_frame: int
    max_unsent: int
    handshake_seconds: float = 5.0
    """From the connection to the Welcome, waiting for a fence included."""


Credentials = tuple[Purpose, bytes]
"""What a connection is for, and the key that both ends share."""
Established = Callable[[FrameConnection], None]
Refused = Callable[[str], None]


class _Half:
    """What both ends share: the connection, the deadline, and the one way to fail."""

    def __init__(self, reactor: Reactor, sock: socket.socket, refused: Refused, limits: Limits) -> None:
        self._connection = FrameConnection(reactor, sock, MAX_HANDSHAKE_FRAME, self._received, self._closed, limits.max_unsent)
        self._refused = refused
        self._nonce = os.urandom(_NONCE_SIZE)
        self._deadline = reactor.later(limits.handshake_seconds, lambda: self.refuse("it was silent for too long"))

    def refuse(self, reason: str) -> None:
        """Close the connection and say why."""
        if self._connection.open:
            self._connection.close()
            self._closed(reason)

    def _closed(self, reason: str) -> None:
        self._deadline.cancel()
        self._refused(reason)

    def _received(self, frames: list[bytes]) -> None:
        raise NotImplementedError


class Dialled(_Half):
    """The dialler's half. From the challenge on it takes frames of `max_frame`, since the owner's may follow the Welcome at once."""

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
        self._max_frame = limits.max_frame
        self._proved = False
        self._connection.send(_encode(Greeting(self._purpose, self._nonce)))

    def _received(self, frames: list[bytes]) -> None:
        for place, frame in enumerate(frames):
            if not self._connection.open:
                return
            message = parse(frame)
            if isinstance(message, Challenge) and not self._proved:
                self._answer(message)
            elif isinstance(message, Welcome) and self._proved:
                self._deadline.cancel()
                self._established(self._connection)
                self._connection.deliver(frames[place + 1 :])
                return
            else:
                self.refuse("it does not keep to the handshake")

    def _answer(self, challenge: Challenge) -> None:
        said = (self._purpose, self._nonce, challenge.nonce)
        if not hmac.compare_digest(challenge.proof, _proof(self._key, "acceptor", *said)):
            self.refuse("it has another key")
            return
        self._proved = True
        self._connection.max_frame = self._max_frame
        self._connection.send(_encode(Proof(_proof(self._key, "dialler", *said))))


class Accepted(_Half):
    """The acceptor's half. `greeted` hears the purpose, and answers, now or later, with `challenge` or `refuse`."""

    def __init__(
        self, reactor: Reactor, sock: socket.socket, greeted: Callable[["Accepted"], None], refused: Refused, limits: Limits
    ) -> None:
        super().__init__(reactor, sock, refused, limits)
        self._on_greeting = greeted
        self._greeting: Greeting | None = None
        self._key = b""
        self._established: Established = _nobody

    @property
    def greeted(self) -> bool:
        """It has said what it came for."""
        return self._greeting is not None

    @property
    def purpose(self) -> Purpose:
        """What the dialler says it came for. Unproved."""
        assert self._greeting is not None, "asked before it greeted"
        return self._greeting.purpose

    def challenge(self, key: bytes, established: Established) -> None:
        """Go on under `key`."""
        assert self._greeting is not None, "a challenge answers a greeting"
        assert not self._key, "a challenge is made once"
        self._key, self._established = key, established
        proof = _proof(key, "acceptor", self._greeting.purpose, self._greeting.nonce, self._nonce)
        self._connection.send(_encode(Challenge(self._nonce, proof)))

    def _received(self, frames: list[bytes]) -> None:
        message = parse(frames[0])
        if len(frames) > 1:
            self.refuse("it sent more than the handshake asks for")
        elif isinstance(message, Greeting) and self._greeting is None and len(message.nonce) == _NONCE_SIZE:
            self._greeting = message
            self._on_greeting(self)
        elif isinstance(message, Proof) and self._greeting is not None and self._key:
            self._check(message, self._greeting)
        else:
            self.refuse("it does not keep to the handshake")

    def _check(self, message: Proof, greeting: Greeting) -> None:
        if hmac.compare_digest(message.proof, _proof(self._key, "dialler", greeting.purpose, greeting.nonce, self._nonce)):
            self._deadline.cancel()
            self._connection.send(_encode(Welcome()))
            self._established(self._connection)
        else:
            self.refuse("it has another key")


def parse(frame: bytes) -> _Message | None:
    """The message, or None for garbage."""
    try:
        return _decode(frame)
    except DecodeError:
        return None


def _proof(key: bytes, role: str, purpose: Purpose, dialler_nonce: bytes, acceptor_nonce: bytes) -> bytes:
    said = msgspec.msgpack.encode((role, purpose, dialler_nonce, acceptor_nonce))
    return hmac.new(key, said, hashlib.sha256).digest()


def _nobody(_: FrameConnection) -> None:
    """Nobody waits for this connection yet."""
