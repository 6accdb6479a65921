"""The doctor's findings, from the system's own files."""

import os
from pathlib import Path

import pytest

import flamestream
from flamestream.machine import examination
from flamestream.machine.examination import Finding, disk, examined, huge_pages, memory, processors


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system: a group without limits."""
    put(tmp_path, "proc/self/cgroup", "0::/job\n")
    put(tmp_path, "proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n")
    put(tmp_path, "sys/fs/cgroup/job/cpu.max", "max 100000\n")
    put(tmp_path, "sys/fs/cgroup/job/memory.max", "max\n")
    return tmp_path


def put(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def states(findings: object) -> dict[str, str]:
    return {finding.what: finding.state for finding in findings}  # type: ignore[attr-defined]


def test_a_quota_below_two_processors_is_slow(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert next(processors(root)) == Finding("processors", "8")
    put(root, "sys/fs/cgroup/job/cpu.max", "150000 100000\n")
    found = next(processors(root))
    assert (found.found, found.state) == ("1.5", "slow") and found.advice


def test_a_group_that_was_stopped_by_its_quota_says_so(root: Path) -> None:
    put(root, "sys/fs/cgroup/job/cpu.stat", "nr_periods 10\nnr_throttled 0\n")
    assert "throttled" not in states(processors(root))
    put(root, "sys/fs/cgroup/job/cpu.stat", "nr_periods 10\nnr_throttled 7\n")
    assert states(processors(root))["throttled"] == "slow"


def test_memory_is_the_least_of_machine_and_group(root: Path) -> None:
    assert [(each.found, each.state) for each in memory(root)] == [("16.0 GiB", "good")]
    put(root, "sys/fs/cgroup/job/memory.max", str(1 << 30))
    assert [(each.found, each.state) for each in memory(root)] == [("1.0 GiB", "slow")]


def test_inside_a_container_the_topmost_group_is_its_own(root: Path) -> None:
    put(root, "proc/self/cgroup", "0::/of/the/host\n")
    put(root, "sys/fs/cgroup/memory.max", str(3 << 30))
    assert [each.found for each in memory(root)] == ["3.0 GiB"]


@pytest.mark.parametrize(
    ("said", "state"), [("always [madvise] never", "good"), ("always madvise [never]", "slow")]
)
def test_huge_pages_that_are_off_are_slow(root: Path, said: str, state: str) -> None:
    put(root, "sys/kernel/mm/transparent_hugepage/enabled", said)
    assert states(huge_pages(root)) == {"huge pages": state}


def test_what_a_system_does_not_say_is_no_finding(tmp_path: Path) -> None:
    assert not [*memory(tmp_path), *huge_pages(tmp_path)]
    assert list(states(processors(tmp_path))) == ["processors"]


def test_a_slow_disk_is_slow_and_none_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk(tmp_path).found.endswith(f"ms a sync in {tmp_path}")
    monkeypatch.setattr(examination, "_synced", lambda _: 25.0)
    assert disk(tmp_path).state == "slow"
    monkeypatch.undo()
    assert disk(tmp_path / "none").state == "missing"


def test_a_kernel_of_another_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "kernel", None)
    monkeypatch.setattr(flamestream, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "_kernel.cpython-310-x86_64-linux-gnu.so").touch()
    found = {each.what: each for each in examined(tmp_path)}["kernel"]
    assert found.found == "Python: _kernel.cpython-310-x86_64-linux-gnu.so is of another Python"
