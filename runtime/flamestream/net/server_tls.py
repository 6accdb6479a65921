"""TLS 1.3 of a port that clients of all kinds connect to, by a certificate in files.

Whoever renews the certificate writes the files anew, as cert-manager and a mounted Secret do: the next client sees it.

Keeps: a handshake takes nothing that is not bounded: it is made in the loop as its bytes come, and of all at most
HANDSHAKES begin in a second, for each costs up to a millisecond. Does not: ask clients for a certificate (their token
says who they are), or bound the time of a handshake (http_connection.py does, as that of a head).
"""

import logging
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from flamestream.model.errors import UserError
from flamestream.ports import Reactor

HANDSHAKES: Final = 100
"""A second: a tenth of a worker's time, with a key of RSA."""

log = logging.getLogger(__name__)


class ServerTls:
    """The certificate of one port."""

    def __init__(self, cert_file: str, key_file: str, reactor: Reactor) -> None:
        """Raises UserError."""
        self._files, self._reactor = (cert_file, key_file), reactor
        self._seen: tuple[int, ...] = ()
        self._begun, self._second = 0, 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.num_tickets = 0  # nothing is resumed
        try:
            self._load()
        except OSError as error:  # ssl's errors are such, too
            raise UserError(
                f"spec.queries.tls: no certificate with its key in {cert_file} and {key_file}: {error}"
            ) from None

    def sealed(self, sock: socket.socket) -> "TlsSocket | None":
        """The connection of a client, before its handshake; None: there are too many now."""
        second = self._reactor.instant() // 1_000_000
        self._begun = self._begun + 1 if second == self._second else 1
        self._second = second
        if self._begun > HANDSHAKES:
            return None
        try:
            self._load()
        except OSError as error:  # half of it is written: the one before is good for a while
            log.warning("certificate not read", extra={"certificate": self._files, "reason": str(error)})
        return TlsSocket(sock, self._context)

    def _load(self) -> None:
        seen = tuple(os.stat(file).st_mtime_ns for file in self._files)
        if seen != self._seen:
            self._context.load_cert_chain(*self._files, password=_none)
            self._seen = seen


def _none() -> str:
    """For a key that asks for a password: nobody is there to type it."""
    return ""


class TlsSocket:
    """A socket that does not block, over TLS: what http_connection.py needs of one."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Raises OSError for one that has ended."""
        sock.setblocking(False)
        self._tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def fileno(self) -> int:
        return self._tls.fileno()

    def recv(self, size: int) -> bytes:
        """As of a socket: what is there. A record at a time, so nothing stays behind that nobody is told of."""
        with _as_of_a_socket():
            return self._tls.recv(size)

    def send(self, data: bytes | bytearray) -> int:
        """As of a socket."""
        with _as_of_a_socket():
            return self._tls.send(data)

    def shutdown(self, how: int) -> None:
        """Say that nothing more comes, so that nobody takes it for cut off."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        self._tls.shutdown(how)

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        self._tls.close()


@contextmanager
def _as_of_a_socket() -> Iterator[None]:
    try:
        yield
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise BlockingIOError from None
