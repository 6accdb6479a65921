"""Ten thousand who open the page's events, and ten thousand who say nothing: a viewer sees the job on, who comes gets
the page, the server keeps its size, and the job notices neither. Real sockets, a real server, a real job."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from flamestream.ui.listening import MOST_CONNECTIONS
from flamestream.ui.server import STATIC
from flamestream.ui.viewers import MOST
from support.eventually import eventually
from support.net.crowd import crowd, room_for
from support.processes import children, command_of
from support.runs.cli_job import NAME, CliJob, explained
from support.runs.page import feeding_job, ui

REFUSED = "HTTP/1.1 503 Service Unavailable"
MOST_MEMORY = 64 << 20
"""Bytes that the server may grow by, whoever comes."""


class Client:
    """Somebody who has the page's token."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.place = parts.netloc
        self.login = {"Authorization": f"Bearer {parts.fragment.removeprefix('token=')}"}
        self.events = 0

    def ask(self, path: str) -> tuple[int, bytes]:
        with closing(HTTPConnection(self.place, timeout=60)) as connection:
            connection.request("GET", path, headers=self.login)
            answer = connection.getresponse()
            return answer.status, answer.read()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While it takes the job's events, which are counted."""
        host, _, port = self.place.rpartition(":")
        with socket.create_connection((host, int(port))) as stream:
            stream.sendall(self.request())
            reading = threading.Thread(target=self._read, args=(stream,))
            reading.start()
            yield
            stream.shutdown(socket.SHUT_RDWR)
            reading.join()

    def _read(self, stream: socket.socket) -> None:
        for line in stream.makefile("rb"):
            self.events += line == b"event: status\n"

    def may_look(self) -> int:
        """The status that one more gets."""
        with closing(HTTPConnection(self.place, timeout=60)) as connection:
            connection.request("GET", f"/api/v1/events?job={NAME}", headers=self.login)
            return connection.getresponse().status

    def sees_more(self) -> None:
        """Back when it has been told twice what it did not know: of after this call, then."""
        before = self.events
        eventually(lambda: self.events >= before + 2, "a viewer is told what is new")

    def request(self) -> bytes:
        """Of events, as a crowd sends it."""
        head = f"GET /api/v1/events?job={NAME} HTTP/1.1\r\nHost: {self.place}\r\n"
        return (head + f"Authorization: {self.login['Authorization']}\r\n\r\n").encode()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[CliJob]:
    if not (STATIC / "index.html").exists():
        pytest.skip("the page is not built: there is no Node 20 with npm")
    made, feeder = feeding_job(tmp_path)
    try:
        yield made
    finally:
        feeder.stop()
        made.close()


def server() -> int:
    """The pid of the page's server."""
    (pid,) = [each for each in children(os.getpid()) if " ui " in command_of(each)]
    return pid


def memory(pid: int, name: str) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) * 1024


def look_on(viewer: Client, job: CliJob, pid: int) -> None:
    """While a crowd is there."""
    viewer.sees_more()
    assert viewer.ask("/")[0] == 200
    status, jobs = viewer.ask("/api/v1/jobs")
    assert status == 200 and [row["job"] for row in json.loads(jobs)["jobs"]] == [NAME]
    assert len(os.listdir(f"/proc/{pid}/fd")) <= MOST_CONNECTIONS + 32
    now = job.status()
    assert now is not None and (now.phase, now.attempt) == ("running", 1)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_crowd_is_bounded_and_told_so_and_hides_no_page(tmp_path: Path, job: CliJob, count: int) -> None:
    if not room_for(count):
        pytest.skip("a process may not have so many connections here")
    job.running()
    with explained(job), ui(str(job.run_folder.path), cwd=tmp_path) as address:
        pid, viewer = server(), Client(address)
        with viewer.looking():
            viewer.sees_more()
            before = memory(pid, "VmRSS")
            with crowd(viewer.place, count, viewer.request()) as told:
                assert told["lines"] == {"HTTP/1.1 200 OK": MOST - 1, REFUSED: count - (MOST - 1)}
                assert "close a view, or come again" in told["bodies"][REFUSED]
                look_on(viewer, job, pid)
            with crowd(viewer.place, count) as told:
                assert told["lines"] == {"": count}
                look_on(viewer, job, pid)
            eventually(lambda: viewer.may_look() == 200, "there is room for a viewer again")
        assert memory(pid, "VmHWM") < before + MOST_MEMORY
