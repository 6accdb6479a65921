"""Windows of event time over a followed folder of whole files: they close as files come, through a kill."""

import signal
from pathlib import Path

from support.eventually import eventually
from support.runs.cli_job import CliJob, explained
from support.runs.kills import Killer, Role

GRAPH = """\
import flamestream as fs

def seconds(document: fs.Document) -> int:
    return int(document.text)

graph = fs.Graph("times")
documents = graph.source("docs", at=seconds, unit="s", late="1s")
counts = documents.window(fs.tumbling("10s"), key=lambda document: 0).count()
counts.map(lambda window: window.value).sink("counts", key=lambda number: 0)
"""


def test_windows_close_as_files_come(tmp_path: Path) -> None:
    (tmp_path / "times.py").write_text(GRAPH)
    docs = tmp_path / "docs"
    docs.mkdir()

    def write(*numbers: int) -> None:
        for number in numbers:
            (docs / f"{number:05}.tmp").write_text(str(number))
            (docs / f"{number:05}.tmp").rename(docs / f"{number:05}.txt")

    spec = {
        "sources": {"docs": {"files": {"path": "docs", "follow": True}}},
        "sinks": {"counts": {"files": {"path": "counts", "fsync": False}}},
        "journal": {"folder": "journal", "fsync": False, "keep": True},
    }
    job = CliJob(tmp_path, tmp_path / "times.py", spec, spark=False)
    killer = Killer(job, [(0.0, Role.WORKER)], 1, 1)
    try:
        with explained(job, killer):
            write(*range(12))
            job.start("--drain")
            eventually((tmp_path / "counts" / "sink.msgpack").exists, "the sink is opened", within=60)
            eventually(lambda: job.delivered("counts") == [10], "the first window closes", within=60)
            write(*range(12, 30))
            killer.run()
            write(30, 31)
            eventually(lambda: job.delivered("counts") == [10, 10, 10], "the others close", within=120)
            job.signal(signal.SIGTERM)
            assert job.end()[1]["outcome"] == "drained"
            audit = job.audit()
            assert (audit["clean"], audit["records"]) == (True, 32), audit
    finally:
        job.close()
