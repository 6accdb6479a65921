"""How a session with ZooKeeper is sealed: TLS whose other end is named by one authority, and by nothing else.

kazoo can speak TLS, but it trusts every authority of the machine beside the one that it is given, and keeps
to itself why a handshake failed. So the connection is made here, and kazoo goes on with it.

Keeps: no byte of a session, its login least of all, is sent before the server has proved the name that it was
dialled by, with a certificate of `authority`. Does not: prove the client (its login does, inside the
session).
"""

import select
import socket
import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


def trusting(authority: str) -> ssl.SSLContext:
    """A client's settings: TLS 1.2 at least, this authority (PEM) alone, and the name is looked at. Raises
    SSLError, ValueError or TypeError if it is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority)
    return context


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's way to the network, over TLS. `problem`: what the last connection failed by, or nothing."""

    def __init__(self, authority: str) -> None:
        super().__init__()
        self._trusting = trusting(authority)
        self.problem = ""

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> ssl.SSLSocket:
        """A connection whose server has proved `hostname`."""
        try:
            plain = socket.create_connection(address, timeout)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sealed = self._trusting.wrap_socket(plain, server_hostname=hostname)
            except BaseException:
                plain.close()
                raise
        except OSError as error:
            self.problem = _sentence(error, hostname)
            raise
        self.problem = ""
        return sealed

    def select(
        self, readers: list[Any], writers: list[Any], odd: list[Any], timeout: float | None
    ) -> tuple[list[Any], ...]:
        """As select, but what TLS has unsealed and nobody has read counts as there: its socket has no byte
        left that would show it."""
        unread = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending()]
        # kazoo's own makes an epoll for each of its turns, which was half of its thread's processor time.
        poll = select.poll()
        wanted = dict.fromkeys((one.fileno() for one in readers), select.POLLIN)
        for one in writers:
            wanted[one.fileno()] = wanted.get(one.fileno(), 0) | select.POLLOUT
        for fd, mask in wanted.items():
            poll.register(fd, mask)
        found = dict(poll.poll(0 if unread else None if timeout is None else timeout * 1000))
        # an error and an end are found by who reads or writes
        readable, writable = ~select.POLLOUT, ~select.POLLIN
        return (
            [one for one in readers if one in unread or found.get(one.fileno(), 0) & readable],
            [one for one in writers if found.get(one.fileno(), 0) & writable],
            [],
        )


def _sentence(error: OSError, name: str) -> str:
    """A failed connection in words for whoever set it up; "" for one that TLS has no part in."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is refused ({error.verify_message}): the authority that is trusted must have "
            f"signed it, for {name}, and it "
            "must not have expired; give the authority that signed it, or the server a new certificate"
        )
    if isinstance(error, ssl.SSLError):
        return (
            f"it does not speak TLS there ({error.reason or error}): name its TLS port (secureClientPort), "
            "or say that this ZooKeeper is reached without TLS"
        )
    return ""
