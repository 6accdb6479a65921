"""The class-data archive of Spark's JVMs: where it is, and how a JVM is told.

It holds the classes of a session as one memory-mapped file, so that the next session starts in half the time.
It fits one runtime and one class path exactly; for any other it is not found, and the JVM starts without. An
archive that the JVM finds unfit is ignored by it: nothing but time depends on it.

Does not: make it (make_class_archive.py).
"""

from pathlib import Path

from flamestream.machine.cache import cache_folder
from flamestream.machine.java import Java


def archive_of(java: Java, class_path: str) -> Path:
    """Where the archive for this runtime and class path is, or would be."""
    jars = [Path(jar) for jar in class_path.split(":")]
    # The JVM refuses an archive whose jars have other sizes or times than when it was made.
    sizes = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars if jar.is_file()]
    release = java.real.parent.parent / "release"
    runtime = release.read_text() if release.exists() else str(java.real.stat())
    return cache_folder("class-archive", f"{java.real} {runtime} {class_path} {sizes}") / "spark.jsa"


def archive_options(java: Java, class_path: str) -> list[str]:
    """Options that make a JVM use the archive; none if it has not been made."""
    archive = archive_of(java, class_path)
    below = base_of(archive)
    files = [below, archive] if below.exists() else [archive]
    return [f"-XX:SharedArchiveFile={':'.join(map(str, files))}"] if archive.exists() else []


def base_of(archive: Path) -> Path:
    """Where the archive of Java's own classes is that it stands on, if the runtime came without."""
    return archive.with_name("base.jsa")
