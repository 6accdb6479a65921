"""A process is told apart from any other that ever has its pid."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flamestream.machine.process_identity import ProcessIdentity, start_ticks
from support.processes import alive


def test_this_process_is_here_and_alive() -> None:
    me = ProcessIdentity.of_this_process()
    assert me.pid == os.getpid()
    assert me.here
    assert me.alive


def test_another_process_with_its_pid_is_not_it() -> None:
    me = ProcessIdentity.of_this_process()
    assert not msgspec.structs.replace(me, ticks=me.ticks - 1).alive


def test_a_process_of_another_boot_or_container_is_not_here() -> None:
    assert not msgspec.structs.replace(ProcessIdentity.of_this_process(), place="another").here


def test_a_dead_process_is_not_alive_even_before_it_is_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        child = msgspec.structs.replace(
            ProcessIdentity.of_this_process(), pid=process.pid, ticks=start_ticks(process.pid)
        )
        assert child.alive
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not alive(process.pid)
        assert not child.alive
    assert not child.alive


PR_SET_NAME = 15


@pytest.fixture
def strange_name() -> Iterator[None]:
    """This thread's name is of bytes that are no text, as that of any process may be."""
    before = Path("/proc/self/comm").read_bytes().strip()
    ctypes.CDLL(None).prctl(PR_SET_NAME, b") \xff (", 0, 0, 0)
    yield
    ctypes.CDLL(None).prctl(PR_SET_NAME, before, 0, 0, 0)


@pytest.mark.usefixtures("strange_name")
def test_a_process_may_have_any_name() -> None:
    assert ProcessIdentity.of_this_process().alive
