"""A graph's clock on a real Spark: its moments come once and in order, also while the job is down and through
kills."""

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.documents import Folder
from support.eventually import eventually
from support.runs.cli_job import CliJob, explained
from support.runs.kills import Killer, Role

pytestmark = pytest.mark.spark

GRAPH = """\
import flamestream as fs

graph = fs.Graph("clock", step="100ms")
graph.clock("tick", every="200ms").sink("ticks", key=lambda moment: 0)
graph.source("docs", clock="arrival").window(fs.tumbling("1s"), key=lambda document: 0).count().map(lambda w: w.value).sink("counts")
"""  # noqa: E501


def test_moments_come_once_through_kills_of_a_worker_and_of_all(tmp_path: Path) -> None:
    (tmp_path / "clock.py").write_text(GRAPH)
    Folder(tmp_path / "docs").add(range(5))
    journal = {"folder": str(tmp_path / "journal"), "fsync": False, "keep": True}
    sinks = {name: {"files": {"path": name, "fsync": False}} for name in ("ticks", "counts")}
    spec = {
        "sources": {"docs": {"files": {"path": "docs", "follow": True}}},
        "sinks": sinks,
        "journal": journal,
    }
    job = CliJob(tmp_path, tmp_path / "clock.py", spec)
    killer = Killer(job, [(0.0, Role.WORKER), (0.0, Role.LAUNCHER)], 1, 1)

    def there(ticks: int) -> bool:
        return len(job.delivered("ticks")) >= ticks

    try:
        with explained(job, killer):
            job.start("--drain")
            eventually((tmp_path / "ticks" / "sink.msgpack").exists, "the sink is opened", within=60)
            eventually(lambda: there(5), "the clock goes", within=60)
            killer.run()
            before = len(job.delivered("ticks"))
            eventually(lambda: there(before + 5), "the clock goes on", within=120)
            job.signal(signal.SIGTERM)
            assert job.end()[1]["outcome"] == "stopped"
            moments, steps = job.delivered("ticks"), timedelta(milliseconds=200)
            assert moments == sorted(set(moments))
            assert all(
                (moment - datetime(1970, 1, 1, tzinfo=UTC)) % steps == timedelta(0) for moment in moments
            )
            assert job.delivered("counts") == [5]
            audit = job.audit()
            assert (audit["clean"], audit["verdict"]["lost"]) == (True, 0), audit
    finally:
        job.close()
