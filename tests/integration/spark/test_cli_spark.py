"""The same on a real local Spark: what Spark loses comes back, and the demo works."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.job.exit_codes import ExitCode
from support.runs.site import Site, ended

pytestmark = pytest.mark.spark


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    runtime = Path(__file__).parents[3] / "runtime"
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(runtime), os.environ.get("PYTHONPATH", "")]))
    )
    found = Site(tmp_path, spark=True)
    yield found
    found.close()


def test_a_job_on_spark_survives_the_loss_of_a_worker_and_of_the_driver(site: Site) -> None:
    site.write("{rate: 200}")
    run = site.start()
    site.running()
    for role in ("worker", "driver"):
        code, answer = site.ask("drill", "job.yaml", "--kill", role, "--after", "0.3")
        assert code == ExitCode.OK, answer
        assert (answer["reason"], answer["done"], answer["faults"][0]["seen"]) == ("Clean", 1, "gone")
        assert answer["audit"]["clean"]
    run.send_signal(signal.SIGTERM)
    assert ended(run)[0] == ExitCode.OK
    assert site.audit()["clean"]


@pytest.mark.slow
def test_the_demo_kills_a_worker_and_loses_nothing(site: Site) -> None:
    command = [sys.executable, "-m", "flamestream.cli.demo", "--documents", "200", "--word", "import"]
    done = subprocess.run(command, cwd=site.path, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "0 lost, 0 doubled, 0 reordered" in done.stdout and "output gap " in done.stdout
    assert "(seen gone): whole again after" in done.stdout
    assert "'import' is in " in done.stdout
