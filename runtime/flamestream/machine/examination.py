"""Examination: what this machine gives a job, and what of it makes jobs slow. `flamestream doctor` shows it.

A finding is `good`; `slow`: jobs run, and it costs them; or `missing`: no job runs without it. Each that is
not good says what to do.

Keeps: files of the system that are not there or not readable (another kernel, a sandbox) are no finding, and
never an error. Does not: start Java or Spark, or look at any job.
"""

import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

import msgspec

import flamestream
from flamestream.machine.java import find_java, spark_jars
from flamestream.model.errors import UserError
from flamestream.model.kernel import WHY_NOT, kernel

SLOW_SYNC: Final = 10.0
"""Milliseconds: results of a journalled source wait for one sync."""
_SYNCS: Final = 20
FEW_FILES: Final = 4096
"""Descriptors that a worker may need: one a peer, a segment that it reads, a client of its sources."""
LITTLE_MEMORY: Final = 2 << 30
"""Bytes that Spark's JVM and two workers need."""

State = Literal["good", "slow", "missing"]


class Finding(msgspec.Struct, frozen=True):
    """A finding: what was looked at, what was found, and what to do about it."""

    what: str
    found: str
    state: State = "good"
    advice: str = ""


def examined(folder: Path, root: Path = Path("/")) -> list[Finding]:
    """All findings; `folder` is on the disk that a job would write to, `root` is where the system's own files
    are."""
    return [
        _python(),
        _kernel(Path(flamestream.__file__).parent),
        _spark(),
        _java(),
        *processors(root),
        *memory(root),
        *huge_pages(root),
        *_limits(),
        disk(folder),
    ]


def _python() -> Finding:
    return Finding("python", f"{platform.python_version()} on {platform.machine()}")


def _kernel(package: Path) -> Finding:
    if kernel is not None:
        return Finding("kernel", f"native {kernel.VERSION}")
    advice = "install the wheel, or a Rust compiler (rustup.rs) and then FlameStream again"
    # whole names: the last suffix is `.so` alone, with which each of them ends
    ours = {f"_kernel{suffix}" for suffix in EXTENSION_SUFFIXES}
    foreign = [file.name for file in package.glob("_kernel*.so") if file.name not in ours]
    return Finding(
        "kernel", f"Python: {f'{foreign[0]} is of another Python' if foreign else WHY_NOT}", "slow", advice
    )


def _spark() -> Finding:
    try:
        spark_jars()
        return Finding("spark", f"PySpark {version('pyspark')}")
    except (UserError, PackageNotFoundError) as error:
        return Finding("spark", "none", "missing", str(error))


def _java() -> Finding:
    try:
        java = find_java()
    except UserError as error:
        return Finding("java", "none", "missing", str(error))
    return Finding("java", f"{java.version} at {java.real}")


def processors(root: Path) -> Iterator[Finding]:
    """The processors that this process may use, by affinity and by its group's quota."""
    count: float = len(os.sched_getaffinity(0))
    # cgroup v2: "150000 100000", microseconds of processor time in a period; "max": no limit
    quota, _, period = (_said(_group(root) / "cpu.max") or "max").partition(" ")
    if quota.isdigit() and period.isdigit():
        count = min(count, int(quota) / int(period))
    advice = "a job needs one for its workers and one for Spark and the coordinator: give it more"
    yield Finding("processors", f"{count:g}", "slow" if count < 2 else "good", advice if count < 2 else "")
    throttled = dict(line.split() for line in (_said(_group(root) / "cpu.stat") or "").splitlines()).get(
        "nr_throttled", "0"
    )
    if throttled != "0":
        yield Finding(
            "throttled",
            f"{throttled} times",
            "slow",
            "the group's cpu quota stops processes: latency has its pauses; raise it",
        )


def memory(root: Path) -> Iterator[Finding]:
    """The memory that this process may use: the machine's, or its group's limit."""
    said = dict(
        line.split(":", 1) for line in (_said(root / "proc/meminfo") or "").splitlines() if ":" in line
    )
    total = [int(said["MemTotal"].split()[0]) << 10] if "MemTotal" in said else []
    limit = _said(_group(root) / "memory.max") or "max"
    sizes = [*total, *([int(limit)] if limit.isdigit() else [])]
    if sizes:
        little = min(sizes) < LITTLE_MEMORY
        advice = "Spark and two workers need 2 GiB: raise the limit" if little else ""
        yield Finding("memory", f"{min(sizes) / (1 << 30):.1f} GiB", "slow" if little else "good", advice)


def huge_pages(root: Path) -> Iterator[Finding]:
    """Whether large state may lie on pages of 2 MiB."""
    said = _said(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    chosen = said.partition("[")[2].partition("]")[0]
    if chosen:
        off = chosen == "never"
        advice = "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled" if off else ""
        yield Finding("huge pages", chosen, "slow" if off else "good", advice)


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # unlimited is -1
    few = 0 <= soft < FEW_FILES
    yield Finding(
        "open files",
        _limit(soft),
        "slow" if few else "good",
        f"ulimit -n {FEW_FILES} (at most {_limit(hard)})" if few else "",
    )
    yield Finding("processes", _limit(resource.getrlimit(resource.RLIMIT_NPROC)[0]))


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def disk(folder: Path) -> Finding:
    """The time that a small durable write takes in `folder`."""
    try:
        took = _synced(folder)
    except OSError as error:
        return Finding(
            "disk",
            f"{folder}: {error.strerror}",
            "missing",
            "a job keeps its run folder there: choose another, or make it writable",
        )
    slow = took > SLOW_SYNC
    advice = (
        f"above {SLOW_SYNC:g} ms: results of journalled sources wait for it; "
        "put the run folder on a faster disk"
        if slow
        else ""
    )
    return Finding("disk", f"{took:.2f} ms a sync in {folder}", "slow" if slow else "good", advice)


def _synced(folder: Path) -> float:
    """Milliseconds of a small durable write, the median of some."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _group(root: Path) -> Path:
    """The folder of this process's control group (version 2); the topmost one inside a container."""
    for line in (_said(root / "proc/self/cgroup") or "").splitlines():
        number, _, name = line.split(":", 2)
        own = root / "sys/fs/cgroup" / name.lstrip("/")
        if number == "0" and own.is_dir():
            return own
    return root / "sys/fs/cgroup"


def _said(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None
