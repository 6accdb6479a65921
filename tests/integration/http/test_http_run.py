"""`flamestream run` from HTTP POST to server-sent events, and to a server that fences, killed all over: each
thing counts once."""

import contextlib
import http.client
import json
import signal
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flamestream.job.application import load
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import interpret
from support.documents import SocketServer, texts
from support.eventually import eventually
from support.http.events import EventSource
from support.http.example import Example
from support.ports import free_port
from support.runs.cli_job import REPOSITORY, CliJob, explained
from support.runs.kills import Killer, Role

LINES = REPOSITORY / "benchmarks" / "jobs" / "workload.py"


class Poster:
    """A client that sends each document until it is told that it is durable, twice if chance (here: the
    number) wants it."""

    def __init__(self, port: int, lines: list[str]) -> None:
        self.answered: list[dict[str, Any]] = []
        self.tries = 0
        self._port, self._lines = port, lines
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for number, line in enumerate(self._lines):
            for _ in range(2 if number % 7 == 0 else 1):
                answer = self._posted(f"key {number}", line)
            self.answered.append(json.loads(answer))

    def _posted(self, key: str, line: str) -> bytes:
        """Until somebody answers."""
        while (answer := self._post(key, line)) is None:
            pass
        return answer

    def _post(self, key: str, line: str) -> bytes | None:
        self.tries += 1
        with contextlib.suppress(OSError, http.client.HTTPException), closing(self._connect()) as connection:
            connection.request("POST", "/docs", line.encode(), {"Idempotency-Key": key})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 200:
                return body
            assert answer.status == 503, (answer.status, body)
        threading.Event().wait(0.02)  # as Retry-After asks for, but shorter
        return None

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)


def test_posts_and_events_survive_kills(tmp_path: Path) -> None:
    count, inlet, outlet = 250, free_port(), free_port()
    lines = [f"{number}\t{text}" for number, text in enumerate(texts(count))]
    spec = {
        "sources": {
            "docs": {
                "http": {"listen": f"127.0.0.1:{inlet}", "path": "/docs", "keys": "keys", "fsync": False}
            }
        },
        "sinks": {
            "index": {
                "events": {"path": "index", "listen": f"127.0.0.1:{outlet}", "fsync": False, "poll_ms": 5}
            }
        },
        "journal": {"folder": str(tmp_path / "journal"), "fsync": False, "keep": True},
    }
    wanted = sum(len(set(text.split())) for text in texts(count))
    job = HttpJob(tmp_path, LINES, spec, spark=False)
    killer = Killer(job, [], wanted, 1)
    poster = Poster(inlet, lines)
    with contextlib.closing(job), EventSource(outlet) as browser, explained(job, killer):
        job.browser = browser
        job.start()
        poster.start()
        killer.plan = [
            (0.1, Role.WORKER),
            (0.3, Role.WORKER),
            (0.4, Role.COORDINATOR),
            (0.5, Role.WORKER),
            (0.7, Role.LAUNCHER),
        ]
        killer.run()
        poster.join()
        eventually(lambda: len(browser.data) >= wanted, "the client has seen everything", within=60)
        assert [answer["first"] for answer in poster.answered] == list(range(count)), (
            "every post once, in order"
        )
        job.running()
        job.signal(signal.SIGTERM)
        assert job.end()[1]["outcome"] == "stopped"
        audit = job.audit()
        assert (audit["clean"], audit["records"], audit["verdict"]["delivered"]) == (True, count, wanted), (
            audit
        )
    assert browser.problems == []
    assert len(browser.data) == len(set(browser.ids)) == wanted
    lengths: Counter[str] = Counter()
    for change in browser.data:
        lengths[change["word"]] += 1
        assert change["documents"] == lengths[change["word"]], "each change of a word once, in order"
    assert browser.connections > 1, "it was disconnected, by the launcher's death at least, and came back"


@pytest.mark.slow  # a minute: the contract of such a sink, and kills with HTTP, at each push
def test_a_fencing_server_has_everything_once_through_kills(tmp_path: Path) -> None:
    """Of workers, the coordinator, a zombie and the server itself; nobody reads an HTTP server back, so what
    it holds is compared here."""
    lines = [f"{number}\t{text}" for number, text in enumerate(texts(400))]
    runs = [(time_of(Timestamp(1 + number), FrontId(0)), [line]) for number, line in enumerate(lines)]
    wanted = [
        [change.word, change.document, change.documents]
        for _, change in interpret(load(LINES, "graph"), runs)["index"]
    ]
    server = Example(tmp_path)
    server.start()

    def restart() -> None:
        server.stop()
        server.start()

    with SocketServer([line.encode() for line in lines], held=True) as producer:
        spec = {
            "sources": {"docs": {"socket": {"address": producer.address}}},
            "sinks": {"index": server.spec},
            "journal": {"folder": str(tmp_path / "journal"), "fsync": False, "keep": True},
        }
        job = FencedJob(tmp_path, LINES, spec, spark=False)
        killer = Killer(job, [], len(wanted), 2, meanwhile=lambda part: producer.grow_to(part + 0.05))
        with contextlib.closing(job), contextlib.closing(server), explained(job, killer):
            job.server = server
            job.start()
            plan = [
                (0.05, "server"),
                (0.2, Role.WORKER),
                (0.35, "server"),
                (0.5, Role.COORDINATOR),
                (0.6, Role.ZOMBIE),
                (0.75, "server"),
            ]
            killer.run_with(plan, restart)
            producer.grow_to(1)
            assert job.end()[1]["outcome"] == "completed"
            found = [
                [change["word"], change["document"], change["documents"]]
                for change in map(json.loads, server.payloads())
            ]
            assert sorted(found) == sorted(wanted), "every change once"
            last = job.status()
            assert last is not None and last.attempt > 1
            assert {attempt for attempt, _ in server.fences()} == {last.attempt}, (
                "whoever was replaced is refused"
            )
    lengths: Counter[str] = Counter()
    for word, _, documents in found:
        lengths[word] += 1
        assert documents == lengths[word], "the changes of a word in order"


class FencedJob(CliJob):
    """Its output is what the server holds."""

    server: Example

    def output_bytes(self) -> int:
        return len(self.server.payloads())


class HttpJob(CliJob):
    """Its output is what a client has seen."""

    browser: EventSource

    def output_bytes(self) -> int:
        return len(self.browser.data)
