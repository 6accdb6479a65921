"""Bad input to a job that really runs: what is said (what happened, where, what to do), and that no byte of
the output is wrong.

Workers are plain processes here. What needs no running job is tested where it is decided: manifests and
graphs in tests/unit/cli and tests/unit/model, segments and manifests of snapshots in tests/unit/store,
hostile peers in test_tcp_hostile.py.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.runs.cli_job import CliJob
from support.runs.numbers_job import INDEX, Make


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Jobs that end with the test."""
    with ExitStack() as stack:

        def made(application: Path, source: dict[str, Any], *more_sinks: str, **changes: Any) -> CliJob:
            reads, writes = ("docs", "index") if application == INDEX else ("numbers", "out")
            files = {sink: {"files": {"path": sink, "fsync": False}} for sink in (writes, *more_sinks)}
            spec = {
                "sources": {reads: source},
                "sinks": files,
                "workers": {"replicas": 2, "slots": 16},
                **changes,
            }
            job = CliJob(tmp_path, application, spec, spark=False)
            stack.callback(job.close)
            return job

        yield made
