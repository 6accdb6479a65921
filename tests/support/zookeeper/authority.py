"""An authority of certificates for the servers of tests, as helm makes the chart's."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates, as helm's genCA and genSignedCert do."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._key = rsa.generate_private_key(65537, 2048)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        made = self._certificate(self._name, self._key, days=10)
        ca = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.text = ca.public_bytes(Encoding.PEM).decode()

    def server(self, name: str = "127.0.0.1", days: int = 5) -> Path:
        """The folder of a server's key, in the shape that helm gives it (PKCS #1). `days` until it ends; less
        than none: it has ended."""
        folder = self._folder / f"{name}-{days}"
        folder.mkdir()
        key = rsa.generate_private_key(65537, 2048)
        names: list[x509.GeneralName] = [
            x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
        ]
        made = self._certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, days)
        signed = made.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(
            self._key, hashes.SHA256()
        )
        (folder / "tls.crt").write_bytes(signed.public_bytes(Encoding.PEM))
        (folder / "tls.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        )
        return folder

    def _certificate(self, name: x509.Name, key: rsa.RSAPrivateKey, days: int) -> x509.CertificateBuilder:
        end = datetime.now(UTC) + timedelta(days=days)
        return x509.CertificateBuilder(
            self._name, name, key.public_key(), x509.random_serial_number(), end - timedelta(days=20), end
        )
