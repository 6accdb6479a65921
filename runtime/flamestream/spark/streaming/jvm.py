"""The driver's JVM, started by us: PySpark's gateway server without spark-submit, so without its two shells
and its extra JVM.

The class path is all of Spark's jars in a fixed order, so that a class-data archive fits (class_archive.py):
a local session is there in about 1 s instead of 2.5 s. The JVM's output and log go to files, since a terminal
is no place for stack traces of tasks that are killed on purpose.

Keeps: the JVM ends when this process does, however that ends. Does not: configure Spark (session.py).
Source: the options are those of Spark 4.3's own launcher (JavaModuleOptions), less the one that java.py
drops.
"""

import logging
import os
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from flamestream.machine.class_archive import archive_options
from flamestream.machine.java import QUICK, Java, spark_jars
from flamestream.machine.parent_death import start_child
from flamestream.model.errors import Retryable

# a lost JVM is an exception where it is met; py4j would log it too
logging.getLogger("py4j").setLevel(logging.CRITICAL)

READY_WITHIN: Final = 120.0
END_WITHIN: Final = 30.0
POLL: Final = 0.01
_OPEN: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_MODULES: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPEN),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
_CONSOLE: Final = """rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
"""
_LOGGING: Final = """rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 4MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


class DriverJvm:
    """A gateway server. It starts at once and is waited for in `connect`, so that other things can start
    beside it."""

    def __init__(
        self,
        java: Java,
        scratch: Path,
        conf: Mapping[str, str],
        environment: Mapping[str, str],
        *,
        console: bool = False,
    ) -> None:
        """`scratch` is for the log (`console`: our standard error is) and what Spark needs on disk. Only in
        the main thread."""
        self._scratch = scratch
        self._output = None if console else scratch / "jvm.out"
        self._connection = scratch / "gateway"
        self._connection.unlink(missing_ok=True)
        variables = {**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection)}
        options = _options(java, scratch, conf, console=console)
        command: list[str | Path] = [
            java.launcher,
            *options,
            "org.apache.spark.api.python.PythonGatewayServer",
        ]
        self._process = start_child(command, self._output, variables, stdin=subprocess.PIPE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def connect(self) -> Any:
        """py4j's gateway to it, as PySpark wants it. Raises Retryable with the JVM's own words if it does not
        come up."""
        from pyspark.java_gateway import launch_gateway

        port, secret = self._await_port()
        given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(given)  # the only way in that PySpark has
        try:
            return launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            for name in given:
                del os.environ[name]

    def close(self) -> None:
        """End it, in order if it can, and back when it has ended."""
        assert self._process.stdin
        self._process.stdin.close()  # what its end waits for
        try:
            self._process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _await_port(self) -> tuple[int, str]:
        deadline = time.monotonic() + READY_WITHIN
        while not self._connection.exists():  # it is moved there whole
            ended = self._process.poll()
            if ended is not None or time.monotonic() > deadline:
                state = "is not ready" if ended is None else f"ended with exit code {ended}"
                if self._output is None:
                    raise Retryable(f"Spark's driver JVM {state}; what it printed is above")
                printed = self._output.read_text(errors="replace")[-2000:].strip()
                raise Retryable(
                    f"Spark's driver JVM {state}; its log is {self._scratch / 'spark.log'}; it printed: "
                    f"{printed or 'nothing'}"
                )
            time.sleep(POLL)
        content = self._connection.read_bytes()
        self._connection.unlink()  # it holds a secret
        port, length = struct.unpack_from("!ii", content)
        return port, content[8 : 8 + length].decode()


def class_path(environment: Mapping[str, str] | None = None) -> str:
    """All of Spark's jars in the order of their names; the folders of a cluster's configuration, where there
    are any, come first."""
    variables = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
    folders = [folder for name in variables if (folder := (environment or {}).get(name))]
    return ":".join([*folders, *sorted(str(jar) for jar in spark_jars().glob("*.jar"))])


def _options(java: Java, scratch: Path, conf: Mapping[str, str], *, console: bool) -> list[str]:
    path = ":".join(filter(None, [conf.get("spark.driver.extraClassPath"), class_path(os.environ)]))
    log_settings = scratch / "log4j2.properties"
    log_settings.write_text(
        (_CONSOLE if console else _LOGGING).format(level=conf.get("spark.log.level", "WARN"), folder=scratch)
    )
    extra = conf.get("spark.driver.extraJavaOptions", "").split()
    # A JVM that is to write such an archive must not run on one.
    archive = [] if any("ArchiveClassesAtExit" in option for option in extra) else archive_options(java, path)
    memory = f"-Xmx{conf.get('spark.driver.memory', '512m')}"
    return [
        *QUICK,
        memory,
        *archive,
        *_MODULES,
        f"-Dlog4j2.configurationFile={log_settings}",
        *extra,
        "-cp",
        path,
    ]
