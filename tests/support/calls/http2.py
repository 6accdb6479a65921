"""A server of HTTP/2 alone, over TLS with a certificate of its own: hyper's h2 in a thread. It counts its
connections."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived


class Http2Server:
    """`GET` of anything is answered with an empty body."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "http2.pem"
        self.certificate.write_bytes(_certificate())
        self.connections = 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        context.set_alpn_protocols(["h2"])
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._listener.getsockname()[1]}/"

    def serve(self) -> None:
        """Until it is closed."""
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._connection, args=(accepted,), daemon=True).start()

    def close(self) -> None:
        """Accept nobody more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connection(self, accepted: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as stream:
            self.connections += 1
            state = H2Connection(H2Configuration(client_side=False))
            state.initiate_connection()
            stream.sendall(state.data_to_send())
            while data := stream.recv(65536):
                for event in state.receive_data(data):
                    if isinstance(event, RequestReceived):
                        state.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
                stream.sendall(state.data_to_send())


@contextmanager
def http2_server(folder: Path) -> Iterator[Http2Server]:
    """One that ends with the test; `folder` gets its certificate."""
    server = Http2Server(folder)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.close()


def _certificate() -> bytes:
    """A key and a certificate of localhost that nobody has signed, as PEM."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "h")]),
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + made.public_bytes(serialization.Encoding.PEM)
