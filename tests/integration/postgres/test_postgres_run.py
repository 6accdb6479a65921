"""`flamestream run` from PostgreSQL to PostgreSQL, with workers, the coordinator and the server killed.

The table ends as the reference says, and the history of deliveries passes the audit.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flamestream.job.application import load
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import interpret
from support.documents import SocketServer, texts
from support.postgres import PostgresServer, postgres
from support.runs.cli_job import REPOSITORY, CliJob, explained
from support.runs.kills import Killer, Role

LINES = REPOSITORY / "benchmarks" / "jobs" / "workload.py"
COLUMNS = ["word", "document", "positions", "documents"]
SERVER = "server"
Plan = Sequence[tuple[float, Role | str]]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        made.execute(
            "CREATE TABLE documents (id bigserial PRIMARY KEY, line text NOT NULL)",
            "CREATE TABLE postings (word text, document bigint, positions int[], documents bigint, PRIMARY "
            "KEY (word, document))",
        )
        yield made


class PostgresJob(CliJob):
    """Whose output is a table with its history."""

    def __init__(
        self,
        folder: Path,
        server: PostgresServer,
        source: dict[str, Any],
        *,
        spark: bool = False,
        **changes: Any,
    ) -> None:
        self.server = server
        self.seen = 0
        sink = {
            "dsn": server.dsn,
            "table": "postings",
            "columns": COLUMNS,
            "key": COLUMNS[:2],
            "history": "postings_history",
        }
        spec = {
            "sources": {"docs": source},
            "sinks": {"index": {"postgres": sink}},
            "journal": {"folder": str(folder / "journal"), "fsync": False, "keep": True},
            **changes,
        }
        super().__init__(folder, LINES, spec, spark=spark)

    def output_bytes(self) -> int:
        """Rows that were delivered so far; while the server is away, those that were there before."""
        with contextlib.suppress(psycopg.OperationalError):
            ((self.seen,),) = self.server.execute("SELECT count(*)::int FROM postings")
        return self.seen

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(
            self.server.execute(f"SELECT {', '.join(COLUMNS)} FROM postings"), key=lambda row: row[:2]
        )


def expected(lines: Sequence[str]) -> list[tuple[Any, ...]]:
    """The reference's rows for these documents in this order."""
    runs = [(time_of(Timestamp(1 + number), FrontId(0)), [line]) for number, line in enumerate(lines)]
    changes = [change for _, change in interpret(load(LINES, "graph"), runs)["index"]]
    return sorted(
        (change.word, change.document, list(change.positions), change.documents) for change in changes
    )


def survive(
    job: PostgresJob,
    server: PostgresServer,
    lines: Sequence[str],
    plan: Plan,
    grow_to: Callable[[float], None] | None = None,
) -> None:
    """`grow_to`: of a source that ends, which has this part of its input."""
    wanted = expected(lines)
    ends, grow_to = grow_to is not None, grow_to or (lambda _: None)
    killer = Killer(job, [], len(wanted), 1, meanwhile=lambda part: grow_to(part + 0.05))
    with explained(job, killer):
        job.start(*([] if ends else ["--drain"]))
        killer.run_with(plan, server.restart)
        grow_to(1)
        assert job.over(len(wanted), ends=ends) == ("completed" if ends else "drained")
        assert job.rows() == wanted
        audit = job.audit()
        assert (audit["clean"], audit["records"], audit["verdict"]["delivered"]) == (
            True,
            len(lines),
            len(wanted),
        ), audit


def numbered(count: int) -> list[str]:
    return [f"{number}\t{text}" for number, text in enumerate(texts(count))]


def test_from_a_change_log_with_kills_of_workers_and_of_the_server(
    tmp_path: Path, server: PostgresServer
) -> None:
    lines = numbered(600)
    with server.connect() as connection:
        connection.cursor().executemany(
            "INSERT INTO documents (line) VALUES (%s)", [(line,) for line in lines]
        )
    source = {"postgres": {"dsn": server.dsn, "table": "documents", "key": "id", "columns": ["line"]}}
    with contextlib.closing(
        PostgresJob(tmp_path, server, source, workers={"replicas": 2, "standby": 1, "slots": 64})
    ) as job:
        plan = [
            (0.05, SERVER),
            (0.2, Role.WORKER),
            (0.35, SERVER),
            (0.5, Role.COORDINATOR),
            (0.65, Role.WORKER),
            (0.75, SERVER),
        ]
        survive(job, server, lines, plan)


@pytest.mark.slow
@pytest.mark.spark
def test_from_a_socket_on_spark_with_more_kills(tmp_path: Path, server: PostgresServer) -> None:
    lines = numbered(4000)
    with SocketServer([line.encode() for line in lines], held=True) as producer:
        source = {"socket": {"address": producer.address}}
        with contextlib.closing(PostgresJob(tmp_path, server, source, spark=True)) as job:
            kills: list[Role | str] = [
                Role.WORKER,
                SERVER,
                Role.WORKER,
                Role.LAUNCHER,
                SERVER,
                Role.ZOMBIE,
                Role.COORDINATOR,
                SERVER,
                Role.DAEMON,
            ]
            survive(
                job,
                server,
                lines,
                [((i + 1) / 12, victim) for i, victim in enumerate(kills)],
                producer.grow_to,
            )
