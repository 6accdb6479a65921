"""A Spark to run workers in: its configuration, its start, its end.

Without a word from the user it is local, with a core a worker. Whatever the user configures is kept, above
our defaults; a few settings that a job cannot live without are ours, and a user's other value for them is
refused by name.

Why these: tasks run as long as the job, and one that is lost must come back however often that happens
(Spark's default gives a task 4 lives and an application few executors); nothing is speculated, since a second
copy of a worker is a zombie; a web page is of no use to a job whose data Spark never sees.

PySpark itself is imported when the JVM boots already: that takes as long as half of the boot.

Keeps: one SparkContext a process (Spark's own rule). Does not: run anything in it (streaming.py).
"""

import os
import re
import secrets
import shutil
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import flamestream
from flamestream.machine.class_archive import archive_options
from flamestream.machine.java import CLASS_PATH_VARIABLE, QUICK, Java, find_java, spark_jars
from flamestream.machine.process_shell import INTERPRETER
from flamestream.model.errors import ManifestError, Retryable, UserError
from flamestream.spark.streaming.daemon import MODULES_VARIABLE
from flamestream.spark.streaming.jvm import DriverJvm, class_path

if TYPE_CHECKING:
    from pyspark import SparkContext

LIVES: Final = 1_000_000
"""How often a task, or an executor, may be lost. The coordinator decides when a job is beyond help, long
before that."""

REQUIRED_BY_WORKERS: Final = {
    "spark.task.maxFailures": str(LIVES),
    "spark.executor.maxNumFailures": str(LIVES),
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.speculation": "false",
    # else Spark keeps a task off executors that it was lost on
    "spark.excludeOnFailure.enabled": "false",
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "flamestream.spark.streaming.daemon",
    "spark.python.worker.reuse": "false",
    "spark.dynamicAllocation.enabled": "false",
}
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0",
    "spark.scheduler.minRegisteredResourcesRatio": "0",
    "spark.python.task.killTimeout": "200ms",
    "spark.executor.memory": "512m",
    "spark.executor.defaultJavaOptions": " ".join(QUICK),
}
_LOCKED: Final = {
    "spark.authenticate": "true",  # a task is code: only our driver may send one
    "spark.network.crypto.enabled": "true",
    # Spark's default hides what is said and lets it be changed
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",  # nobody talks it into less
}
"""Where Spark makes a secret of its own, or we do: everywhere but on a Spark cluster, which has its users'
(docs/reference/manifest.md)."""
_WITH_A_SECRET: Final = re.compile(r"local(\[|-cluster\[|$)|k8s://|yarn$")
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """A job's wishes of its Spark session."""

    workers: int
    """Tasks that run at the same time, standbys included."""
    scratch: Path
    """A folder of this run alone: emptied at the start, removed at the end."""
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    python_path: tuple[Path, ...] = ()
    """Folders that workers import the application from."""
    preimport: tuple[str, ...] = (
        "flamestream.node.worker_process",
        "flamestream.spark.streaming.worker_main",
        "flamestream.store.zookeeper",
    )
    """Modules that every worker needs and whose import starts no thread (daemon.py)."""
    required: Mapping[str, str] = field(default_factory=lambda: REQUIRED_BY_WORKERS)
    """Settings that nothing else may change."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Below what the user configures, above what holds for every session."""
    name: str = "flamestream"
    console: bool = False
    """Spark's log goes to our standard error, not to a file in `scratch`."""

    @property
    def local(self) -> bool:
        """Whether everything runs on this machine."""
        return not self.master or self.master.startswith("local")


def configuration(settings: SparkSettings) -> dict[str, str]:
    """Every setting of the session. Raises ManifestError if the user's contradict what a job needs."""
    master = settings.conf.get("spark.master", "")
    required = {
        **settings.required,
        **(_LOCKED if _WITH_A_SECRET.match(settings.master or master or "local") else {}),
    }
    for name, value in required.items():
        given = settings.conf.get(name, value)
        if given != value:
            raise ManifestError(
                f"spec.spark.conf.{name}: {given!r} is not possible, FlameStream needs {value!r}: "
                "remove the line"
            )
    if master and settings.master and master != settings.master:
        raise ManifestError(
            "spec.spark.conf.spark.master: "
            f"{master!r} contradicts spec.spark.master {settings.master!r}: remove one"
        )
    variables = {**INTERPRETER, MODULES_VARIABLE: ",".join(settings.preimport)}
    environment = {f"spark.executorEnv.{name}": value for name, value in variables.items()}
    if settings.local:
        # elsewhere this machine's folders mean nothing
        environment["spark.executorEnv.PYTHONPATH"] = _python_path(settings)
    places = {"spark.local.dir": str(settings.scratch / "local")} | (_LOOPBACK if settings.local else {})
    named = {
        "spark.app.name": settings.name,
        # A local master says by itself how often a task may be lost: spark.task.maxFailures does not count
        # there.
        "spark.master": settings.master or master or f"local[{settings.workers},{LIVES}]",
    }
    return {**_DEFAULTS, **settings.defaults, **places, **environment, **settings.conf, **required, **named}


class SparkDriver:
    """A started Spark. The JVM starts with the object; `context` waits for it."""

    def __init__(self, settings: SparkSettings, java: Java | None = None) -> None:
        """Only in the main thread (parent_death.py)."""
        self.settings = settings
        self._conf = configuration(settings)
        # the one kind for which Spark makes none itself
        if self._conf["spark.master"].startswith("local-cluster"):
            self._conf["spark.authenticate.secret"] = secrets.token_hex(32)
        self._context: SparkContext | None = None
        self._making = threading.Lock()
        java = java or find_java()
        home = _spark_home(settings.scratch)
        self._variables = {
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": _scala_version(),
            "PYSPARK_PYTHON": sys.executable,
        }
        if settings.local:
            self._variables |= {"SPARK_LOCAL_IP": "127.0.0.1", CLASS_PATH_VARIABLE: class_path()}
            archive = " ".join(archive_options(java, class_path()))
            self._conf["spark.executor.defaultJavaOptions"] = (
                f"{self._conf['spark.executor.defaultJavaOptions']} {archive}".strip()
            )
        self.jvm = DriverJvm(
            java, settings.scratch, self._conf, {**os.environ, **self._variables}, console=settings.console
        )

    @property
    def context(self) -> "SparkContext":
        """The session's SparkContext. Raises UserError if Spark does not take its configuration, Retryable if
        its JVM is lost."""
        # (!) Several that start workers may ask at once: a second one would take the connection of the first.
        with self._making:
            if self._context is None:
                self._context = self._made_context(self.jvm.connect())
            return self._context

    def _made_context(self, gateway: Any) -> "SparkContext":
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark import SparkConf, SparkContext

        # SparkContext reads it there, and nowhere else
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        try:
            conf = SparkConf(loadDefaults=False, _jvm=gateway.jvm).setAll(list(self._conf.items()))
            return SparkContext(conf=conf, gateway=gateway)
        except Py4JJavaError as error:
            reason = reason_of(error)  # asks the JVM, so before the gateway is forgotten
            _forget_gateway()
            raise UserError(
                f"Spark does not start with {self._conf['spark.master']!r} and spec.spark.conf: {reason}"
            ) from None
        except (Py4JError, OSError) as error:
            _forget_gateway()
            raise Retryable(f"Spark's driver JVM was lost while starting: {reason_of(error)}") from error

    def close(self) -> None:
        """End every task, the session, and the JVM."""
        try:
            if self._context is not None:
                _stop(self._context)
        finally:
            self._context = None
            self.jvm.close()
            shutil.rmtree(self.settings.scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reason_of(error: Exception) -> str:
    """The line that says why, of a Java stack trace of hundreds."""
    from py4j.protocol import Py4JJavaError

    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return next(iter(text.strip().splitlines()), "") or type(error).__name__


def _stop(context: "SparkContext") -> None:
    """Stop it, also where its JVM is lost: that is known by then, and no reason not to end this side."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            context.stop()
        except OSError:
            context.stop()  # by now it has given its JVM up, and ends the rest
    _forget_gateway()


def _forget_gateway() -> None:
    """Else a later session of this process would talk to a JVM that is gone."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()


def _spark_home(scratch: Path) -> Path:
    """An empty `scratch`, with a folder in it that Spark takes for its home: it writes there, and that must
    not be PySpark's own."""
    shutil.rmtree(scratch, ignore_errors=True)
    home = scratch / "home"
    home.mkdir(parents=True)
    (home / "jars").symlink_to(spark_jars())
    (scratch / "local").mkdir()
    return home


def _scala_version() -> str:
    """The Scala version that Spark's start scripts would set: it is in the names of Spark's jars."""
    (core,) = spark_jars().glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]


def _python_path(settings: SparkSettings) -> str:
    ours = Path(flamestream.__file__).parents[1]
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(dict.fromkeys(filter(None, [*map(str, settings.python_path), str(ours), given])))
