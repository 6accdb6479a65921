"""`flamestream run` from a socket, or a stream of Redis, to Redis, with workers, the coordinator and the
server killed.

Each change is there once, as the reference says, and the history of deliveries passes the audit.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis")  # an extra

from redis.exceptions import RedisError

from flamestream.job.application import load
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import interpret
from support.documents import SocketServer, texts
from support.redis import RedisServer, redis_server
from support.runs.cli_job import REPOSITORY, CliJob, explained
from support.runs.kills import Killer, Role

LINES = REPOSITORY / "benchmarks" / "jobs" / "workload.py"
FIELDS = ["word", "document", "positions", "documents"]
SERVER = "server"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as made:
        yield made


class RedisJob(CliJob):
    """Whose output is a stream or a hash, with its history."""

    def __init__(
        self, folder: Path, server: RedisServer, source: dict[str, Any], form: dict[str, Any]
    ) -> None:
        self.server = server
        self.stream = form["form"] == "stream"
        self.seen = 0
        spec = {
            "sources": {"docs": source},
            "sinks": {
                "index": {
                    "redis": {"url": server.url, "key": "{shop}:postings", "history": "bundles", **form}
                }
            },
            "journal": {"folder": str(folder / "journal"), "fsync": False, "keep": True},
            "workers": {"replicas": 2, "standby": 1, "slots": 64},
        }
        super().__init__(folder, LINES, spec, spark=False)

    def output_bytes(self) -> int:
        """Entries that are there; while the server is away, those that were there before."""
        with contextlib.suppress(RedisError):
            self.seen = self.server.call("XLEN" if self.stream else "HLEN", "{shop}:postings")
        return self.seen

    def entries(self) -> list[list[str]]:
        """Each entry's fields as text, in the order of the words."""
        if self.stream:
            found = [
                dict(entry)
                for entry in self.server.call("XRANGE", "{shop}:postings", "-", "+")
                for entry in [pairs(entry[1])]
            ]
        else:
            found = [
                {key: text(v) for key, v in json.loads(e).items()}
                for e in self.server.call("HVALS", "{shop}:postings")
            ]
        return sorted([entry[field] for field in FIELDS] for entry in found)


def pairs(fields: Any) -> list[tuple[str, str]]:
    """An entry's fields, however the client gives them."""
    return (
        list(fields.items())
        if isinstance(fields, dict)
        else list(zip(fields[::2], fields[1::2], strict=True))
    )


def text(value: Any) -> str:
    """As the sink writes it."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def expected(lines: Sequence[str]) -> list[list[str]]:
    """The reference's entries for these documents in this order."""
    runs = [(time_of(Timestamp(1 + number), FrontId(0)), [line]) for number, line in enumerate(lines)]
    changes = [change for _, change in interpret(load(LINES, "graph"), runs)["index"]]
    return sorted([text(getattr(change, field)) for field in FIELDS] for change in changes)


FORMS: dict[str, dict[str, Any]] = {
    "stream": {"form": "stream", "fields": FIELDS},
    "hash": {"form": "hash", "field": ["word", "document"]},
}


PLAN = [
    (0.05, SERVER),
    (0.2, Role.WORKER),
    (0.35, SERVER),
    (0.5, Role.COORDINATOR),
    (0.65, Role.WORKER),
    (0.75, SERVER),
]


class Entries:
    """A stream's entries, added as far as they are asked for."""

    def __init__(self, server: RedisServer, lines: Sequence[str]) -> None:
        self.server, self.left, self.count = server, list(lines), len(lines)

    def grow_to(self, part: float) -> None:
        """Have this part of the lines there."""
        while self.left and self.count - len(self.left) < self.count * part:
            self.server.call("XADD", "docs", "*", "line", self.left.pop(0))


@pytest.mark.parametrize(
    "form", ["stream", *(pytest.param(form, marks=pytest.mark.slow) for form in FORMS if form != "stream")]
)
def test_with_kills_of_workers_and_of_the_server(tmp_path: Path, server: RedisServer, form: str) -> None:
    lines = [f"{number}\t{words}" for number, words in enumerate(texts(400))]
    with SocketServer([line.encode() for line in lines], held=True) as producer:
        source = {"socket": {"address": producer.address}}
        with contextlib.closing(RedisJob(tmp_path, server, source, FORMS[form])) as job:
            survive(job, server, lines, producer.grow_to, ends=True)


@pytest.mark.slow  # half a minute: its contract, and kills of the same server, at each push
def test_from_a_stream_with_kills_of_workers_and_of_the_server(tmp_path: Path, server: RedisServer) -> None:
    lines = [f"{number}\t{words}" for number, words in enumerate(texts(400))]
    source = {"redis": {"url": server.url, "key": "docs", "fields": ["line"]}}
    entries = Entries(server, lines)
    with contextlib.closing(RedisJob(tmp_path, server, source, FORMS["stream"])) as job:
        survive(job, server, lines, entries.grow_to, ends=False)


def survive(
    job: RedisJob, server: RedisServer, lines: Sequence[str], grow_to: Callable[[float], None], *, ends: bool
) -> None:
    """Input is there a little ahead of the next kill, so that the job lasts until the last one. `ends`:
    whether its source does."""
    wanted = expected(lines)
    killer = Killer(job, [], len(wanted), 1, meanwhile=lambda part: grow_to(part + 0.05))
    with explained(job, killer):
        job.start(*([] if ends else ["--drain"]))
        killer.run_with(PLAN, server.restart)
        grow_to(1)
        assert job.over(len(wanted), ends=ends) == ("completed" if ends else "drained")
        assert job.entries() == wanted
        audit = job.audit()
        assert (audit["clean"], audit["records"], audit["verdict"]["delivered"]) == (
            True,
            len(lines),
            len(wanted),
        ), audit
