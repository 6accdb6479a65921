"""A ZooKeeper server in a pod of its own: the image's role `zookeeper`, from PySpark's jars.

`ZOOKEEPER_DATA` is a volume that outlives the pod; its port is 2181. One server: while it is away no epoch
commits and no recovery begins, and the streams run on. A production set-up names a ZooKeeper ensemble of its
own.

`ZOOKEEPER_LOGIN` is a file with the operator's login (user:password), who is the superuser here: so a login
that was lost can be made anew, and what a job has locked can be removed. The server knows its digest only.
Whose nodes are whose: zookeeper_rights.py.

`ZOOKEEPER_TLS` is a folder with tls.crt and tls.key (a Secret of type kubernetes.io/tls): then every client
speaks TLS, and there is no port without it. Renewed files are read when the server starts again.

Keeps: acknowledged writes survive the pod; quotas hold; one address has a bounded number of connections. Does
not: replicate.
"""

import os
import sys
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kazoo.security import make_digest_acl_credential

from flamestream.machine.java import QUICK, find_java
from flamestream.store.zookeeper_server import class_path, is_ready

VARIABLE: Final = "ZOOKEEPER_DATA"
LOGIN: Final = "ZOOKEEPER_LOGIN"
TLS: Final = "ZOOKEEPER_TLS"
PORT: Final = 2181
CONNECTIONS: Final = 128
"""The most connections of an address: a pod of ours has one, but some networks show a whole node as one
address."""
_CONFIG: Final = """tickTime=500
dataDir={data}
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns={connections}
enforceQuota=true
DigestAuthenticationProvider.superDigest={digest}
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""
_PLAIN: Final = "clientPort={port}\n"
_SEALED: Final = """secureClientPort={port}
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.sslProvider=OPENSSL
ssl.keyStore.location={store}
ssl.keyStore.type=PEM
ssl.clientAuth=none
ssl.protocol=TLS
ssl.enabledProtocols=TLSv1.3,TLSv1.2
"""
_OPENSSL: Final = ("netty-tcnative-classes", "netty-tcnative-boringssl-static")
"""Java's own TLS, in a JVM that starts fast, takes a millisecond for 8 KB: without its second compiler AES is
plain Java."""
# Not a word of failed handshakes: probes make one each time, and so may any stranger (decision 056).
_LOGGING: Final = """rootLogger.level = warn
logger.handshakes.name = org.apache.zookeeper.server.NettyServerCnxnFactory
logger.handshakes.level = off
logger.contexts.name = org.apache.zookeeper.common.ClientX509Util
logger.contexts.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
"""


def command(data: Path, scratch: Path, login: str, port: int = PORT, tls: Path | None = None) -> list[str]:
    """The server's command line; its files of settings are written to `scratch`. `tls`: the folder of its
    key; None serves without TLS."""
    config, logging = scratch / "zoo.cfg", scratch / "log4j2.properties"
    user, _, password = login.partition(":")
    digest = make_digest_acl_credential(user, password)
    reached = (
        _SEALED.format(port=port, store=_key_store(tls, scratch / "server.pem"))
        if tls
        else _PLAIN.format(port=port)
    )
    config.write_text(_CONFIG.format(data=data, connections=CONNECTIONS, digest=digest) + reached)
    logging.write_text(_LOGGING)
    options = [
        *QUICK,
        "-Xms16m",
        "-XX:MaxRAMPercentage=50",
        "-XX:+ExitOnOutOfMemoryError",
        f"-Dlog4j2.configurationFile={logging}",
    ]
    # ZooKeeper's own are 64 MB ahead for each log file, and a snapshot every 100,000 writes.
    small_log = ["-Dzookeeper.preAllocSize=1024", "-Dzookeeper.snapCount=10000"]
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return [str(find_java().launcher), *options, *small_log, "-cp", class_path(*_OPENSSL), main, str(config)]


def _key_store(tls: Path, store: Path) -> Path:
    """Key and certificates in one file. ZooKeeper reads keys as PKCS #8 only, and helm makes PKCS #1."""
    key = load_pem_private_key((tls / "tls.key").read_bytes(), None)
    # Made anew: a file that is there would keep its own mode.
    store.unlink(missing_ok=True)
    with os.fdopen(os.open(store, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
        made.write(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + (tls / "tls.crt").read_bytes()
        )
    return store


def main(arguments: list[str]) -> None:
    """Become the server; with `ready`: end with the exit code 0 if it serves."""
    tls = os.environ.get(TLS)
    if arguments == ["ready"]:
        sys.exit(not is_ready(f"127.0.0.1:{PORT}", sealed=bool(tls)))
    login = Path(os.environ[LOGIN]).read_text().strip()
    words = command(Path(os.environ[VARIABLE]), Path("/tmp"), login, tls=Path(tls) if tls else None)
    os.execv(words[0], words)


if __name__ == "__main__":
    main(sys.argv[1:])
