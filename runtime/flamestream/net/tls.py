"""TLS 1.3 between two processes that hold the same key, as a transformation of bytes.

From the key and from what the connection is for both make the same certificate, and each end shows it and
trusts nothing else. So whoever does not hold the key, or means another purpose, is no peer; a certificate of
another attempt, whose key is another one, is worth nothing; and who records a connection cannot read it
later, even with the key (TLS 1.3 agrees on new secrets each time, nothing is resumed).

>>> def proved(key: bytes, other: bytes, purpose: bytes, heard: bytes) -> bool:
...     dialler, acceptor = LinkKey(key).dialling(purpose), LinkKey(other).accepting(heard)
...     for here, there in [(dialler, acceptor), (acceptor, dialler)] * 2:
...         _ = there.received(memoryview(here.to_send()))
...     return dialler.proved and acceptor.proved
>>> proved(b"key", b"key", b"w0 to w1", b"w0 to w1")
True
>>> proved(b"key", b"of attempt 2", b"w0 to w1", b"w0 to w1"), proved(b"key", b"key", b"w0 to w2", b"w0 to w1")
(False, False)

Keeps: nothing is handed over that was not sealed by a holder of the key, in this connection, in this order.
Does not: know a socket, or tell the end of a connection from its being cut off (no end of a link says more
than that it has ended). Source: RFC 8446, by OpenSSL; why certificates that both ends make: decision 049.
"""

import hashlib
import hmac
import os
import ssl
from datetime import UTC, datetime
from typing import Final

MOST_RECEIVED: Final = 256 << 10
"""Bytes that one call of `received` takes at most."""
MOST_UNPROVED: Final = 16 << 10
"""Bytes that a handshake may take: it has about 1,500."""
_RECORD: Final = 32 << 10
"""More than the bytes of a record of TLS: what of one came before is handed over with its end."""
_ALWAYS: Final = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""A certificate is worth as much as its key: no clock has a say."""

_plain = memoryview(bytearray(MOST_RECEIVED + _RECORD))
"""A buffer for all streams of the process, as framing.py has one for all sockets."""


class LinkKey:
    """A key that both ends hold. What is made of it is made once a purpose, when it is first needed: a
    millisecond each."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._contexts: dict[tuple[bytes, bool], ssl.SSLContext] = {}

    def dialling(self, purpose: bytes) -> "TlsStream":
        """The dialler's end of a connection for this purpose."""
        return TlsStream(self._context(purpose, accepts=False), accepts=False)

    def accepting(self, purpose: bytes) -> "TlsStream":
        """The acceptor's end. Only for a purpose that its owner knows: each is kept."""
        return TlsStream(self._context(purpose, accepts=True), accepts=True)

    def _context(self, purpose: bytes, *, accepts: bool) -> ssl.SSLContext:
        made = self._contexts.get((purpose, accepts))
        if made is None:
            made = self._contexts[purpose, accepts] = _mutual(
                *_certificate(self._key, purpose), accepts=accepts
            )
        return made


def _mutual(certificate: bytes, private: bytes, *, accepts: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if accepts else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # one certificate is trusted, whatever is dialled
    # A server's default asks for no certificate: the dialler has to prove the key as well (!).
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode())
    if accepts:
        context.num_tickets = 0  # nothing is resumed
    file = os.memfd_create("link")  # `ssl` takes a private key from a file only: one that is on no disk
    try:
        os.write(file, certificate + private)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context


class TlsStream:
    """An end of a connection. Whatever a call leaves to be sent is in `to_send`."""

    def __init__(self, context: ssl.SSLContext, *, accepts: bool) -> None:
        self._from_wire, self._to_wire = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_wire, self._to_wire, server_side=accepts)
        self._unproved = 0
        self.proved = False
        """Whether the peer has proved that it holds the key, and means the same purpose."""
        self._over = False
        # Begins the handshake: what the dialler says first is in `to_send` then; the acceptor finds that it
        # has to wait.
        self.received(memoryview(b""))

    def received(self, new: memoryview) -> tuple[memoryview, str]:
        """Plain bytes of at most `MOST_RECEIVED` sealed ones, good until any stream's next call; and why they
        are the last, or ""."""
        assert len(new) <= MOST_RECEIVED, "the owner reads in smaller pieces"
        self._from_wire.write(new)
        size = 0
        try:
            if not self.proved:
                self._unproved += len(new)
                self._tls.do_handshake()
                self.proved = True
            # Until both are empty: no socket becomes ready again for what is held in here.
            while self._from_wire.pending or self._tls.pending():
                size += self._tls.read(len(_plain) - size, _plain[size:])  # type: ignore[operator]  # with a buffer: how much
        except ssl.SSLWantReadError:  # the rest is on its way
            too_much = not self.proved and self._unproved > MOST_UNPROVED
            return _plain[:size], "it sent more than the handshake asks for" if too_much else ""
        except ssl.SSLError as error:
            self._over = True
            # What was opened before stands: each record proves itself, in its place.
            return _plain[:size], _reason(error)
        return _plain[:size], ""

    def sealed(self, parts: list[bytes]) -> bytes:
        """The bytes to send instead of `parts`: none once it is over, which its owner may not know yet."""
        assert self.proved, "nothing is said to somebody who has proved nothing"
        if self._over:
            return b""
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[self._tls.write(rest) :]  # a record at a time
        return self._to_wire.read()

    def to_send(self) -> bytes:
        """The bytes that TLS itself has to send."""
        return self._to_wire.read()


def _certificate(key: bytes, purpose: bytes) -> tuple[bytes, bytes]:
    """A certificate and its private key: the same whenever they are made of the same."""
    # lazily: a command that dials nobody should not wait for it
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    # The words keep this apart from the attempts' keys, which are made of the run's token, too.
    seed = hmac.new(key, b"flamestream link certificate: " + purpose, hashlib.sha256).digest()
    private = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flamestream link")])
    # Nothing is drawn, no serial number and no date, and Ed25519 needs no chance to sign: both ends must make
    # the same bytes.
    made = x509.CertificateBuilder(name, name, private.public_key(), 1, *_ALWAYS).sign(private, None)
    return made.public_bytes(Encoding.PEM), private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError) or error.reason == "TLSV1_ALERT_UNKNOWN_CA":
        return "it has another key"
    return (
        "closed by the peer" if isinstance(error, ssl.SSLZeroReturnError) else f"TLS: {error.reason or error}"
    )
