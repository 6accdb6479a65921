"""A real Kafka broker, one KRaft node (cluster.py has several): its jars from Maven Central, fetched once
into the checkout's `.cache`.

`FLAMESTREAM_KAFKA_JARS` names a folder of a Kafka's jars to use instead (its `libs`). Where there is neither
that, nor fetched ones, nor a Maven that fetches (installed by apt-get for root), the tests that need it are
skipped, and say so.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from flamestream.machine.class_archive import archive_options, make_archive
from flamestream.machine.java import QUICK, find_java
from support.eventually import eventually
from support.installing import CACHE, by_maven, one_at_a_time
from support.kafka_broker.topics import Kafka
from support.ports import free_port
from support.processes import kill, suspend

HERE = Path(__file__).parent
JARS = CACHE / "kafka-4.3.1"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
SETTINGS = {
    "log.retention.ms": "-1",  # tests write records of 1970, which a cleaner may take for expired at any time
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A broker killed with -9 is let in again soon, and what a dead client left open is looked for each
    # second.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


def jars() -> Path:
    """A folder of the broker's jars, fetched if need be (half a minute, once)."""
    if given := os.environ.get("FLAMESTREAM_KAFKA_JARS"):
        return Path(given)
    otherwise = ", or name a Kafka's `libs` folder in FLAMESTREAM_KAFKA_JARS"
    return by_maven(
        JARS,
        "Kafka",
        otherwise,
        "-f",
        str(HERE / "pom.xml"),
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
    )


class Broker(Kafka):
    """One broker on ports of its own; what it keeps is in `folder`. `more` are settings of
    server.properties."""

    def __init__(
        self,
        folder: Path,
        more: Mapping[str, str] = {},  # never changed
        megabytes: int = 384,
        options: Sequence[str] | None = None,
    ) -> None:
        """`options` of its JVM; None: those by which it uses its class archive, which is made if need be."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self._control_port = free_port(), free_port()
        self.more = dict(more)
        self._megabytes = megabytes
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def control(self) -> str:
        """Where controllers reach it."""
        return f"127.0.0.1:{self._control_port}"

    @property
    def up(self) -> bool:
        return self._process is not None

    # --- its life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Back when it answers."""
        self.launch()
        eventually(self.answers, "the Kafka broker answers", within=90)

    def launch(self) -> None:
        """As `start`, without waiting."""
        self._configure()
        if not (self._folder / "data" / "meta.properties").exists():
            subprocess.run(
                self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"),
                capture_output=True,
                check=True,
                timeout=60,
            )
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(self._java("kafka.Kafka"), stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL, and back when it is dead."""
        if self._process is not None:
            kill(self._process.pid)
            self._process.wait()
            self._process = None

    def end(self) -> None:
        """As who ends it in peace, and back when it is over."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout=60)
        self._process = None

    def pause(self) -> None:
        """It hangs: connections stay, nothing is answered."""
        assert self._process is not None
        suspend(self._process.pid)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _configure(self) -> None:
        addresses = {
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{self.control}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@{self.control}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
        }
        settings = {**SETTINGS, **addresses, **self.more}
        (self._folder / "server.properties").write_text(
            "".join(f"{name}={value}\n" for name, value in settings.items())
        )

    def tool(self, main: str, *arguments: str) -> str:
        """What one of Kafka's own command lines prints, asked of this broker. `main`: its class."""
        folder = by_maven(
            CACHE / "kafka-tools-4.3.1", "Kafka's tools", "", "-f", str(HERE / "tools.xml"),
            "dependency:copy-dependencies", "-DincludeScope=runtime",
        )  # fmt: skip
        log = f"-Dlog4j2.configurationFile={HERE / 'log4j2.yaml'}"
        command = [
            str(find_java().launcher),
            *QUICK,
            "-Xmx128m",
            log,
            "-cp",
            f"{folder}/*",
            f"org.apache.kafka.tools.{main}",
        ]
        done = subprocess.run(
            [*command, "--bootstrap-server", self.address, *arguments],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stderr
        return done.stdout

    def _java(self, *command: str) -> list[str]:
        paths = class_path()
        options = [
            *(_archived(paths) if self._options is None else self._options),
            "-Xms128m",
            f"-Xmx{self._megabytes}m",
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.yaml'}",
            "-cp",
            paths,
        ]
        return [
            str(find_java().launcher),
            *QUICK,
            *options,
            *command,
            str(self._folder / "server.properties"),
        ]

    def answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (
            f"the broker has ended: {(self._folder / 'log').read_text()[-2000:]}"
        )
        try:
            return bool(self.admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False


def class_path() -> str:
    """All of the broker's jars, in an order that is always the same: an archive fits no other."""
    return ":".join(sorted(str(jar) for jar in jars().glob("*.jar")))


def _archived(paths: str) -> list[str]:
    """Options of the JVM that has its classes from an archive: a broker starts in half the time."""

    def session(options: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            broker = Broker(Path(folder), options=options)
            broker.start()
            broker.end()

    java = find_java()
    with one_at_a_time("archiving"):  # while it fetches, if need be
        make_archive(java, paths, session)
    return archive_options(java, paths)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for all tests of a file, as one that nobody asks takes a twentieth of a processor; whoever kills it
    starts it again."""
    made = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        made.start()
        yield made
    finally:
        made.kill()
