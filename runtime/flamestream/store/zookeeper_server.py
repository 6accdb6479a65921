"""An embedded ZooKeeper: a real server for one machine, from the jars that PySpark brings.

One server a data folder. Whoever opens the folder first starts it and owns it; who comes later is told where
it listens and joins. The owner's claim is a lock on a file that the server process inherits, so a folder
cannot be served twice, not even in the moment between the death of an owner and the death of its server. The
server listens on loopback only, and ends when its owner does.

A restart is on the same port, so clients find it again by themselves; acknowledged writes and sessions
survive it (they are in the log, which is synced before every acknowledgement).

It has a login of its own (zookeeper.py), which stands beside the data and which only the folder's owner can
read: another user of this machine reaches the port, and none of the nodes.

Keeps: the first client never meets a server that is not ready (it would wait out its whole session timeout).
Does not: replicate. A cluster uses its own ZooKeeper.
"""

import fcntl
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from flamestream.machine.class_archive import archive_options
from flamestream.machine.java import QUICK, Java, find_java, spark_jars
from flamestream.machine.parent_death import start_child
from flamestream.model.decoding import from_json
from flamestream.model.errors import ClusterStateUnavailable
from flamestream.store.zookeeper_access import ZooKeeperAccess

HOST: Final = "127.0.0.1"
READY_WITHIN: Final = 60.0
JOIN_WITHIN: Final = 20.0
POLL: Final = 0.02
"""Seconds between two looks at a server that is starting: nothing else shows when it is ready."""
PORT_TRIES: Final = 5
_NEEDED: Final = (
    "zookeeper",
    "audience-annotations",
    "slf4j-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "metrics-core",
    "snappy-java",
    "netty-buffer",
    "netty-codec-base",
    "netty-common",
    "netty-handler-4",
    "netty-resolver-4",
    "netty-transport-4",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
    "commons-io",
    "commons-cli",
)
"""Beginnings of the names of the jars that a server loads classes from: a class path of all of Spark takes
seconds to open."""

_CONFIG: Final = """tickTime=500
dataDir={data}
clientPortAddress={host}
clientPort={port}
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""
_LOGGING: Final = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/zookeeper.log
appender.file.filePattern = {folder}/zookeeper.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 1MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


class _Served(msgspec.Struct, frozen=True):
    """The note that the owner leaves for those who join."""

    place: str
    """host:port"""
    pid: int


class EmbeddedZooKeeper:
    """The server of one data folder: ours, or another process's that we joined."""

    def __init__(self, folder: Path, java: Java | None = None, options: Sequence[str] | None = None) -> None:
        """Serve `folder`, or join who does. Raises ClusterStateUnavailable if neither works. `options`: more of its
        JVM, instead of those by which it uses its class-data archive."""
        self._folder = folder.absolute()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.owned = self._claim()
        if self.owned:
            self._java = java or find_java()
            self._class_path = class_path()
            self._options = archive_options(self._java, self._class_path) if options is None else options
            login = login_of(self._folder)  # before anybody can join
            self._place = self._start_somewhere()
        else:
            self._place = self._join()
            login = login_of(self._folder)
        self.access = ZooKeeperAccess(self._place, login)

    @property
    def pid(self) -> int:
        """The server process's pid, if it is ours."""
        return self._process.pid if self._process else 0

    def ensure_running(self) -> bool:
        """True if our server had died and has been started again, on the same port."""
        if self._process is None or self._process.poll() is None:
            return False
        self._start(self._place)
        return True

    def close(self, sign: signal.Signals = signal.SIGKILL) -> None:
        """End the server if it is ours, by this signal: its log is synced, so it need not be asked."""
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait()
            self._process = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _claim(self) -> bool:
        try:
            # flock and not lockf (!): it is of the open file, so the server that inherits that holds it as
            # well.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _join(self) -> str:
        """The place of the server that somebody else runs on this folder. It may still be starting, or about
        to end."""
        deadline = time.monotonic() + JOIN_WITHIN
        while (served := self._served()) is None or not is_ready(served.place):
            if time.monotonic() > deadline:
                raise ClusterStateUnavailable(
                    f"{self._folder / 'lock'} is held by another process, but no ZooKeeper answers for "
                    f"{self._folder} after {JOIN_WITHIN:g} s: end that process, or use another folder"
                )
            time.sleep(POLL)
        return served.place

    def _served(self) -> _Served | None:
        try:
            return from_json((self._folder / "served.json").read_bytes(), _Served)
        except (FileNotFoundError, msgspec.DecodeError):
            return None  # the owner is just writing it

    def _start_somewhere(self) -> str:
        """Start on a free port. Another process may take it before our server does, so a few ports are
        tried."""
        for attempt in range(PORT_TRIES):
            place = f"{HOST}:{_free_port()}"
            try:
                self._start(place)
            except ClusterStateUnavailable:
                if attempt == PORT_TRIES - 1 or "Address already in use" not in self._printed():
                    self.close()
                    raise
            else:
                return place
        raise AssertionError("unreachable")

    def _start(self, place: str) -> None:
        # Its port may be somebody else's by now: who joins would take any ZooKeeper there for this one.
        (self._folder / "served.json").unlink(missing_ok=True)
        self._process = start_child(
            self._command(place), self._folder / "zookeeper.out", os.environ, pass_fds=(self._lock,)
        )
        deadline = time.monotonic() + READY_WITHIN
        while not is_ready(place):
            ended = self._process.poll()
            if ended is not None or time.monotonic() > deadline:
                state = "is not ready" if ended is None else f"ended with exit code {ended}"
                raise ClusterStateUnavailable(
                    f"the embedded ZooKeeper of {self._folder} {state} at {place}. Its log is "
                    f"{self._folder / 'zookeeper.log'}; it printed: {self._printed() or 'nothing'}"
                )
            time.sleep(POLL)
        (self._folder / "served.json").write_bytes(msgspec.json.encode(_Served(place, self._process.pid)))

    def _command(self, place: str) -> list[str | Path]:
        config, logging = self._folder / "zoo.cfg", self._folder / "log4j2.properties"
        config.write_text(
            _CONFIG.format(data=self._folder / "data", host=HOST, port=place.rpartition(":")[2])
        )
        logging.write_text(_LOGGING.format(folder=self._folder))
        options = [
            *QUICK,
            *self._options,
            "-Xms16m",
            "-Xmx64m",
            "-XX:+ExitOnOutOfMemoryError",
            f"-Dlog4j2.configurationFile={logging}",
        ]
        small_log = ["-Dzookeeper.preAllocSize=1024", "-Dzookeeper.snapCount=10000"]
        return [
            self._java.launcher,
            *options,
            *small_log,
            "-cp",
            self._class_path,
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            config,
        ]

    def _printed(self) -> str:
        """The end of what the server wrote to its output."""
        with suppress(FileNotFoundError):
            return (self._folder / "zookeeper.out").read_text(errors="replace")[-2000:].strip()
        return ""


def login_of(folder: Path) -> str:
    """user:password of the server that serves `folder`, made when it is first asked for."""
    file = folder / "login"
    # Also if it is empty: its owner died before it wrote, and without a login the nodes are everybody's (!).
    if not file.exists() or not file.stat().st_size:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as fresh:
            fresh.write(f"flamestream:{secrets.token_hex(16)}")
    return file.read_text()


def class_path(*more: str) -> str:
    """The jars of PySpark that a ZooKeeper server needs, and `more` (beginnings of names)."""
    jars = spark_jars()
    found = sorted(str(jar) for jar in jars.glob("*.jar") if jar.name.startswith((*_NEEDED, *more)))
    if not any("/zookeeper-3" in jar for jar in found):
        raise ClusterStateUnavailable(
            f"no ZooKeeper among PySpark's jars in {jars}: install pyspark as requirements/run.txt pins it"
        )
    return ":".join(found)


def is_ready(place: str, *, sealed: bool = False) -> bool:
    """Whether a ZooKeeper at `place` (host:port) serves clients, by its own word. `sealed`: over TLS, whoever
    it is."""
    host, _, port = place.rpartition(":")
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=2.0))
            if sealed:
                connection = stack.enter_context(_anybody().wrap_socket(connection))
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return False
    return b"\nMode: " in answer


def _anybody() -> ssl.SSLContext:
    """Nobody is trusted with anything: only "serving" is heard."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
