"""The example from Kafka to a page: what was written to the topic is found on the page, also behind the death
of a worker."""

import contextlib
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from support.eventually import eventually
from support.kafka_broker import Broker
from support.postgres import PostgresServer, postgres
from support.runs.cli_job import REPOSITORY, CliJob, explained
from support.runs.kills import Killer, Role

EXAMPLES = REPOSITORY / "examples"
TEXTS = {"1.txt": "To be, or not to be", "2.txt": "Let it be <b>", "3.txt": "not quick"}


class SearchJob(CliJob):
    """The example's manifest, with other addresses."""

    def __init__(self, folder: Path, broker: Broker, server: PostgresServer, topic: str) -> None:
        self._server = server
        spec = yaml.safe_load((EXAMPLES / "kafka_search.yaml").read_text())["spec"]
        spec["sources"]["docs"]["kafka"] |= {"brokers": broker.address, "topic": topic}
        spec["sinks"]["index"]["postgres"]["dsn"] = server.dsn
        spec["journal"] = {"folder": str(folder / "journal"), "fsync": False}
        own = {
            name: part for name, part in spec.items() if name in ("sources", "sinks", "journal", "workers")
        }
        super().__init__(folder, EXAMPLES / "kafka_search.py", own, spark=False)

    def output_bytes(self) -> int:
        ((count,),) = self._server.execute("SELECT count(*)::int FROM postings")
        return int(count)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        comment = next(
            line
            for line in (EXAMPLES / "kafka_search.yaml").read_text().splitlines()
            if "CREATE TABLE" in line
        )
        made.execute(comment.partition('"')[2].rstrip('"'))
        yield made


@contextlib.contextmanager
def search_page(dsn: str) -> Iterator[str]:
    command = [sys.executable, str(EXAMPLES / "search_page.py"), dsn, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().partition("?")[0]
        finally:
            process.kill()


def test_what_is_written_to_the_topic_is_found_on_the_page(
    broker: Broker, server: PostgresServer, tmp_path: Path
) -> None:
    topic = broker.topic(3)
    with (
        contextlib.closing(SearchJob(tmp_path, broker, server, topic)) as job,
        search_page(server.dsn) as address,
        explained(job),
    ):
        job.start("--drain")
        job.running()
        _write(broker, topic, "1.txt")
        eventually(lambda: _found(address, "be") == ["1.txt (be: 1, 5)"], "the first document")
        Killer(job, [(0.0, Role.WORKER)], 1, 1).run()
        _write(broker, topic, "2.txt", "3.txt")
        eventually(
            lambda: _found(address, "be") == ["1.txt (be: 1, 5)", "2.txt (be: 2)"], "the second document"
        )
        eventually(lambda: _found(address, "not quick") == ["3.txt (not: 0; quick: 1)"], "the third document")
        assert _found(address, "not be") == ["1.txt (be: 1, 5; not: 3)"]
        assert _found(address, "nowhere") == []


def _write(broker: Broker, topic: str, *names: str) -> None:
    broker.write(topic, *(msgspec.json.encode({"name": name, "text": TEXTS[name]}) for name in names))


def _found(address: str, query: str) -> list[str]:
    with urllib.request.urlopen(f"{address}?q={urllib.parse.quote_plus(query)}", timeout=30) as answer:
        text = answer.read().decode()
    return [item.replace("<small>", "").partition("</small>")[0] for item in text.split("<li>")[1:]]
