"""Windows of arrival times on a real Spark: they close while nothing comes, and through a kill they are those
of the journal."""

import signal
from pathlib import Path

import pytest

from support.documents import Folder
from support.eventually import eventually
from support.runs.cli_job import CliJob, explained
from support.runs.kills import Killer, Role

pytestmark = pytest.mark.spark

GRAPH = """\
import flamestream as fs

graph = fs.Graph("arrivals")
documents = graph.source("docs", clock="arrival")
counts = documents.window(fs.tumbling("2s"), key=lambda document: 0).count()
counts.map(lambda window: window.value).sink("counts", key=lambda number: 0)
counts.late.sink("late")
"""


@pytest.mark.slow  # a minute: the simulator draws arrival times at each push
def test_windows_of_a_followed_folder_are_those_of_the_journal_through_a_kill(tmp_path: Path) -> None:
    (tmp_path / "arrivals.py").write_text(GRAPH)
    docs = Folder(tmp_path / "docs")
    docs.add(range(20))
    journal = {"folder": str(tmp_path / "journal"), "fsync": False, "keep": True}
    sinks = {name: {"files": {"path": name, "fsync": False}} for name in ("counts", "late")}
    spec = {
        "sources": {"docs": {"files": {"path": "docs", "follow": True}}},
        "sinks": sinks,
        "journal": journal,
    }
    job = CliJob(tmp_path, tmp_path / "arrivals.py", spec)
    killer = Killer(job, [(0.0, Role.WORKER)], 1, 1)

    def counted(documents: int) -> bool:
        return bool(sum(job.delivered("counts")) == documents)

    try:
        with explained(job, killer):
            job.start("--drain")
            eventually((tmp_path / "counts" / "sink.msgpack").exists, "the sink is opened", within=60)
            eventually(lambda: counted(20), "the first windows close while nothing comes", within=60)
            docs.add(range(20, 50))
            killer.run()
            eventually(lambda: counted(50), "the windows of the rest close", within=120)
            job.signal(signal.SIGTERM)
            assert job.end()[1]["outcome"] == "drained"
            audit = job.audit()
            assert (audit["clean"], audit["records"], audit["verdict"]["lost"]) == (True, 50, 0), audit
            assert job.delivered("late") == []
            elsewhere = {name: {"files": {"path": f"{name}-again"}} for name in sinks}
            store = {"interval": "100ms", "store": "snapshots-again"}
            again = CliJob(
                tmp_path, tmp_path / "arrivals.py", {**spec, "sinks": elsewhere, "checkpoint": store}
            )
            code, answer = again.ask(
                "run", str(again.manifest), "--runner", "batch", "--run-folder", str(tmp_path / "run-again")
            )
            assert code == 0, answer
            assert again.delivered("counts") == job.delivered("counts")
    finally:
        job.close()
