"""`call.redis` in a caller's real process: a client that a manifest names, against a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis")  # an extra

from support.calls.asking import BEGINS, Asking, asking_with
from support.redis import RedisServer, redis_server
from support.runs.cli_job import CliJob, explained

PASSWORD = "nobody-may-read-this"

APPLICATION = f"""{BEGINS}
@asked
@fs.call(timeout="20s")
async def counted(key, call):
    return await call.redis("counts").incr(key)

@asked
@fs.call(timeout="200ms", retries=0)
async def waits(key, call):
    return await call.redis("counts").blpop(key)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server(requirepass=PASSWORD) as made:
        yield made


@pytest.fixture
def spec(server: RedisServer, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    return {"redis": {"url": server.url, "connections": 2, "password_file": str(tmp_path / "password")}}


@pytest.fixture
def asking(spec: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Asking]:
    module = f"asks_redis_{abs(hash(request.node.name))}"
    with asking_with(tmp_path, module, APPLICATION, counts=spec) as made:
        yield made


def connections(server: RedisServer) -> int:
    """Those of callers."""
    return sum("flamestream-job" in line for line in server.call("CLIENT", "LIST").splitlines())


def test_calls_share_a_bounded_pool(asking: Asking, server: RedisServer) -> None:
    for number in range(50):
        asking.make("counted", "fifty", number)
    assert {answer.results for answer in asking.answers(50)} == {(number + 1,) for number in range(50)}
    assert 1 <= connections(server) <= 2


def test_a_try_that_is_given_up_gives_its_connection_back(asking: Asking, server: RedisServer) -> None:
    for number in range(6):
        asking.make("waits", "nothing", number)
    assert {answer.error is None for answer in asking.answers(6)} == {False}
    assert asking.result("counted", "one") == 1
    assert connections(server) <= 2


def test_an_outage_is_waited_out(asking: Asking, server: RedisServer) -> None:
    assert asking.result("counted", "outage") == 1
    server.kill()
    asking.make("counted", "outage")
    server.start()
    (answer,) = asking.answers()
    assert answer.results == (2,)


def test_a_password_is_in_no_message(
    spec: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "password").write_text("hunter22")
    with asking_with(tmp_path, "asks_redis_wrongly", APPLICATION, counts=spec) as asking:
        error = asking.error("waits")
    assert error.startswith("AuthenticationError: ")
    assert "hunter22" not in error + capfd.readouterr().err


JOB = """
import flamestream as fs

@fs.call(timeout="20s")
async def counted(number: int, call: fs.Call) -> int:
    await call.redis("counts").incr("of-a-job")
    return number

graph = fs.Graph("counts")
graph.source("numbers", int).call(counted).sink("counted")
"""


def test_a_job_asks_with_what_its_manifest_names(tmp_path: Path, server: RedisServer) -> None:
    (tmp_path / "counts_job.py").write_text(JOB)
    (tmp_path / "password").write_text(PASSWORD)
    spec = {
        "sources": {"numbers": {"generator": {"count": 100}}},
        "sinks": {"counted": {"files": {"path": "counted"}}},
        "clients": {"counts": {"redis": {"url": server.url, "password_file": "password"}}},
        "egress": [f"127.0.0.1:{server.port}"],
        "journal": {"folder": "journal"},
        "workers": {"replicas": 1},
    }
    job = CliJob(tmp_path, tmp_path / "counts_job.py", spec, spark=False)
    with explained(job):
        job.start()
        assert job.end()[1]["outcome"] == "completed"
        assert sorted(job.delivered("counted")) == list(range(100))
        assert server.call("GET", "of-a-job") == "100"
        assert PASSWORD not in job.told()
        assert [
            file
            for file in job.run_folder.path.rglob("*")
            if file.is_file() and PASSWORD.encode() in file.read_bytes()
        ] == []
    job.close()
