"""A broker that asks for a login over TLS, by PLAIN or SCRAM, and lets the user do only what its access rules
say.

It speaks without a login on `address`, for the test itself, which may do everything; `secure` is what a job
is given.
"""

import subprocess
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it offers them without saying so
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.kafka_broker import Broker
from support.ports import free_port

USER, PASSWORD = "indexer", "a good password"  # of a test's own broker
_JAAS = "org.apache.kafka.common.security"


class SecureBroker(Broker):
    """`secure` is its address for users."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._secure_port = free_port()
        self.authority = _certificates(folder)
        plain = f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        self.more |= {
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{self.control},SECURE://{self.secure}",
            "advertised.listeners": f"PLAINTEXT://{self.address},SECURE://{self.secure}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.secure.plain.sasl.jaas.config": plain,
            "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule "
            "required;",
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": str(folder / "server.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    @property
    def secure(self) -> str:
        return f"127.0.0.1:{self._secure_port}"

    def let_in(self) -> None:
        """The user is known to SCRAM as well, under its one password."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
        self.admin_call(lambda admin: admin.alter_user_scram_credentials([made]))

    def allow(self, kind: str, name: str, *operations: str, prefix: bool = False) -> None:
        """The user may do that with what is named."""
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        rules = [
            AclBinding(
                ResourceType[kind],
                name,
                pattern,
                f"User:{USER}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        self.admin_call(lambda admin: admin.create_acls(rules))

    def access(self, mechanism: str, secret: dict[str, str], **settings: Any) -> dict[str, Any]:
        """What a spec says to log in."""
        login = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "ssl.ca.location": str(self.authority),
        }
        return {
            "brokers": self.secure,
            "settings": {**login, **settings},
            "secrets": {"sasl.password": secret},
        }


def _certificates(folder: Path) -> Path:
    """An authority, and the broker's key and certificate in one file as Java wants them."""
    authority, key = folder / "authority.pem", folder / "authority.key"
    _openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=authority",
        "-keyout",
        str(key),
        "-out",
        str(authority),
    )
    own, asked, given = folder / "server.key", folder / "server.csr", folder / "server.crt"
    _openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=127.0.0.1",
        "-keyout",
        str(own),
        "-out",
        str(asked),
    )
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1\n")
    signed = [
        "-CA",
        str(authority),
        "-CAkey",
        str(key),
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        str(names),
    ]
    _openssl("x509", "-req", "-in", str(asked), *signed, "-out", str(given))
    (folder / "server.pem").write_text(own.read_text() + given.read_text() + authority.read_text())
    return authority


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
