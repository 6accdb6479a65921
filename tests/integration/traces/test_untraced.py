"""Where nothing is traced, a worker has no part of tracing: it imports none, and no item passes through any.

The job says so itself: its first item sets a profile function in its worker's loop, and each later one gives what that
has seen since. What a job that is traced gives is here too, in the long suite.
"""

from pathlib import Path
from typing import Any

import pytest

from support.documents import Folder
from support.runs.cli_job import CliJob, explained

APPLICATION = """
import sys

import flamestream as fs

PARTS = ("/node/tracing/", "/connectors/kit/contexts", "/opentelemetry/")
called = set()


def seen(frame, event, argument):
    if event == "call":
        called.update(part for part in PARTS if part in frame.f_code.co_filename)


def parts(document):
    if sys.getprofile() is None:
        sys.setprofile(seen)
    names = [f"/{name.replace('.', '/')}/" for name in list(sys.modules)]
    imported = {part for part in PARTS if any(part in name for name in names)} - {"/connectors/kit/contexts"}
    return f"{sorted(imported)} {sorted(called)}"


graph = fs.Graph("untraced")
graph.source("docs").map(parts).sink("parts", key=len)
"""
NOWHERE = {"tracing": {"endpoint": "http://127.0.0.1:9", "sample": "1/1"}}
DOCUMENTS = 20


def seen_by_items(folder: Path, **more: Any) -> list[str]:
    """What each item of a job has seen of tracing in its worker."""
    application = folder / "untraced.py"
    application.write_text(APPLICATION)
    Folder(folder / "docs").add(range(DOCUMENTS))
    spec = {
        "sources": {"docs": {"files": {"path": "docs"}}},
        "sinks": {"parts": {"files": {"path": "parts", "fsync": False}}},
        "workers": {"replicas": 1, "slots": 4},
        "limits": {"runs": 1},  # so that the first results are on their way before the last item
    }
    job = CliJob(folder, application, spec | more, spark=False)
    try:
        with explained(job):
            job.start()
            assert job.end()[1]["outcome"] == "completed"
        delivered = job.delivered("parts")
    finally:
        job.close()
    assert len(delivered) == DOCUMENTS
    return delivered


def test_no_item_of_an_untraced_job_meets_a_part_of_tracing(tmp_path: Path) -> None:
    assert set(seen_by_items(tmp_path)) == {"[] []"}


@pytest.mark.slow
def test_an_item_of_a_traced_job_does(tmp_path: Path) -> None:
    """Or the other test would see nothing whatever happens."""
    last = seen_by_items(tmp_path, **NOWHERE)[-1]
    assert last.startswith("['/node/tracing/'") and last.endswith("['/node/tracing/']")
