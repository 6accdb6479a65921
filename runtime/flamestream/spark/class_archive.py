"""A class-data archive for Spark's JVMs: the classes of a session as one memory-mapped file, so that the next one starts in half the time.

`python -m flamestream.spark.class_archive` makes it (the set-up of a checkout does), by one short session whose JVM writes the archive at
its end. It fits one runtime and one class path exactly; for any other it is not found, and the JVM starts without. An archive that the JVM
finds unfit is ignored by it: nothing but time depends on it.

Does not: contain anything of ours.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from flamestream.adapters.cache import cache_folder
from flamestream.adapters.java import Java, find_java

_MAGIC: Final = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""How a finished dynamic archive begins: the JVM writes its head last."""


def archive_of(java: Java, class_path: str) -> Path:
    """Where the archive for this runtime and class path is, or would be."""
    jars = [Path(jar) for jar in class_path.split(":")]
    sizes = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars if jar.is_file()]
    release = java.real.parent.parent / "release"
    runtime = release.read_text() if release.exists() else str(java.real.stat())
    return cache_folder("class-archive", f"{java.real} {runtime} {class_path} {sizes}") / "spark.jsa"


def archive_options(java: Java, class_path: str) -> list[str]:
    """Options that make a JVM use the archive; none if it has not been made."""
    archive = archive_of(java, class_path)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def make_archive(java: Java) -> Path:
    """Make the archive for the driver's JVM, whole or not at all, if it is not there yet."""
    from flamestream.spark.jvm import class_path
    from flamestream.spark.session import SparkDriver, SparkSettings

    archive = archive_of(java, class_path())
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part")
    with tempfile.TemporaryDirectory() as scratch:
        dump = f"-XX:ArchiveClassesAtExit={part}"
        settings = SparkSettings(workers=1, scratch=Path(scratch), conf={"spark.driver.extraJavaOptions": dump})
        with SparkDriver(settings, java) as driver:
            driver.context.parallelize(range(1), 1).foreachPartition(_nothing)
    if part.read_bytes()[:4] != _MAGIC:
        part.unlink()
        raise RuntimeError(f"{java.real} did not finish the class-data archive {part}")
    part.replace(archive)
    return archive


def _nothing(_: object) -> None:
    """A task that is there to load the classes of a task."""


if __name__ == "__main__":
    make_archive(find_java())
