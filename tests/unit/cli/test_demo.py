"""`make demo`: what it prepares is a job that reads what it says it reads. Its kill and its audit are in
test_cli_spark.py."""

import sys
from pathlib import Path

import pytest

from flamestream.cli import demo
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.settings import FrontSettings
from flamestream.job.validation import checked
from flamestream.model.ids import SourceName
from flamestream.model.time import END, FrontId


def test_every_document_that_is_named_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = demo._documents(20)
    demo._prepare(tmp_path, documents)
    # the example's own, which other tests load
    monkeypatch.delitem(sys.modules, "inverted_index", raising=False)
    job = checked(tmp_path / "job.yaml").job
    del sys.modules["inverted_index"]  # and this one not at all
    source = RecordedSource(
        "demo", FrontSettings(FrontId(1), SourceName("docs"), True, 8), job.source("docs")
    )
    assert sum(len(records) for _, records in source.below(END)) == len(documents)
