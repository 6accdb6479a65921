"""A ZooKeeper server in a pod of its own: the image's role `zookeeper`, from PySpark's jars.

`ZOOKEEPER_DATA` is a volume that outlives the pod; its port is 2181. One server: while it is away no epoch commits and no recovery begins,
and the streams run on. A production set-up names a ZooKeeper ensemble of its own.

`ZOOKEEPER_LOGIN` is a file with the operator's login (user:password), who is the superuser here: so a login that was lost can be made anew,
and what a job has locked can be removed. The server knows its digest only. Whose nodes are whose: zookeeper_rights.py.

Keeps: acknowledged writes survive the pod; quotas hold; one address has a bounded number of connections. Does not: replicate, encrypt.
"""

import os
from pathlib import Path
from typing import Final

from kazoo.security import make_digest_acl_credential

from flamestream.machine.java import QUICK, find_java
from flamestream.store.zookeeper_server import class_path

VARIABLE: Final = "ZOOKEEPER_DATA"
LOGIN: Final = "ZOOKEEPER_LOGIN"
PORT: Final = 2181
CONNECTIONS: Final = 128
"""Of one address: a pod of ours has one, but some networks show a whole node as one."""
_CONFIG: Final = """tickTime=500
dataDir={data}
clientPort={port}
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
_LOGGING: Final = """rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
"""


def command(data: Path, scratch: Path, login: str, port: int = PORT) -> list[str]:
    """The server's command line; its two files of settings are written to `scratch`."""
    config, logging = scratch / "zoo.cfg", scratch / "log4j2.properties"
    user, _, password = login.partition(":")
    digest = make_digest_acl_credential(user, password)
    config.write_text(_CONFIG.format(data=data, port=port, connections=CONNECTIONS, digest=digest))
    logging.write_text(_LOGGING)
    options = [*QUICK, "-Xms16m", "-Xmx64m", "-XX:+ExitOnOutOfMemoryError", f"-Dlog4j2.configurationFile={logging}"]
    small_log = ["-Dzookeeper.preAllocSize=1024", "-Dzookeeper.snapCount=10000"]
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return [str(find_java().launcher), *options, *small_log, "-cp", class_path(), main, str(config)]


def main() -> None:
    """Become the server."""
    words = command(Path(os.environ[VARIABLE]), Path("/tmp"), Path(os.environ[LOGIN]).read_text().strip())
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
