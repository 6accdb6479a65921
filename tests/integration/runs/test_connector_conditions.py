"""What a job says of its servers: `flamestream status` while one is away, and how a job ends that one
refuses."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.kafka_broker import Broker
from support.postgres import PostgresServer, postgres
from support.runs.cli_job import CliJob, explained

APPLICATION = """
from dataclasses import dataclass
import flamestream as fs

@fs.payload_type
@dataclass(frozen=True)
class Sum:
    n: int
    total: int

graph = fs.Graph("numbers")
graph.source("numbers").reduce(
    key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n, emit=lambda total, n: Sum(n, total)
).sink("out", key=lambda found: found.n % 7)
"""
Make = Callable[..., CliJob]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Jobs from numbers to a sink, that end with the test."""
    application = tmp_path / "numbers_of_conditions.py"
    application.write_text(APPLICATION)
    with ExitStack() as stack:

        def made(sink: dict[str, Any], **generator: int) -> CliJob:
            spec = {
                "sources": {"numbers": {"generator": generator}},
                "sinks": {"out": sink},
                "workers": {"replicas": 2, "slots": 16},
            }
            job = CliJob(tmp_path, application, spec, spark=False)
            stack.callback(job.close)
            return job

        yield made


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        yield made


def table(server: PostgresServer) -> dict[str, Any]:
    return {
        "postgres": {
            "dsn": server.dsn,
            "table": "sums",
            "columns": {"n": "n", "total": "total"},
            "history": "history",
        }
    }


def problems(job: CliJob) -> str:
    """What `flamestream status` shows."""
    code, said = job.ask("status", str(job.run_folder.path))
    assert code == ExitCode.OK, said
    return "; ".join(said["status"]["problems"])


def count(server: PostgresServer) -> int:
    ((found,),) = server.execute("SELECT count(*)::int FROM sums")
    return int(found)


def test_a_server_that_is_away_is_in_the_status_until_it_is_back_and_nothing_is_lost(
    make: Make, server: PostgresServer
) -> None:
    server.execute("CREATE TABLE sums (n bigint, total bigint)")
    job = make(table(server), count=6000, rate=1000)
    with explained(job):
        job.start()
        job.running()
        eventually(lambda: count(server) > 500, "results")
        server.kill()
        said = eventually(lambda: problems(job), "the status says so")
        assert "sink out: " in said
        assert f"127.0.0.1:{server.port}" in said
        server.start()
        eventually(lambda: not problems(job), "the status is clear again")
        code, answer = job.end()
        assert (code, answer["outcome"]) == (ExitCode.OK, "completed")
        assert count(server) == 6000
        assert job.audit()["clean"]


def test_a_job_that_its_server_refuses_ends_with_what_to_do_and_does_it_when_it_is_done(
    make: Make, server: PostgresServer
) -> None:
    job = make(table(server), count=600)
    with explained(job):
        job.start()
        code, answer = job.end()
        assert (code, answer["outcome"], answer["category"]) == (ExitCode.JOB_FAILED, "failed", "user"), (
            answer
        )
        assert "there is no table sums; create it" in answer["message"]
        status = job.status()
        assert status is not None and "there is no table sums" in status.message, status
        server.execute("CREATE TABLE sums (n bigint, total bigint)")
        job.start()
        code, answer = job.end()
        assert (code, answer["outcome"]) == (ExitCode.OK, "completed")
        assert count(server) == 600


@pytest.mark.parametrize("form", ["transactional", pytest.param("low-latency", marks=pytest.mark.slow)])
def test_a_kafka_sink_whose_control_topic_was_deleted_is_not_written_again(
    make: Make, broker: Broker, form: str
) -> None:
    """The snapshot knows what was delivered, and that nobody else does any more."""
    topic = broker.topic(1)
    control = f"control-{topic}"
    job = make(
        {"kafka": {"brokers": broker.address, "topic": topic, "form": form, "control": control}},
        count=100_000,
        rate=1000,
    )
    with explained(job):
        job.start()
        eventually(lambda: job.running().epoch >= 2, "epochs are committed")
        job.signal()
        assert job.end()[1]["outcome"] == "stopped"
        there = broker.admin()
        broker.admin_call(lambda admin: admin.delete_topics([control]))
        eventually(lambda: control not in there.list_topics(timeout=10).topics, "the topic is deleted")
        before = len(broker.read(topic, committed=False))
        job.start()
        code, answer = job.end()
        assert (code, answer["outcome"]) == (ExitCode.CORRUPT, "failed"), answer
        assert "sink 'out' has lost data" in answer["message"]
        assert len(broker.read(topic, committed=False)) == before, "something was written again"
