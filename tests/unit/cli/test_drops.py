"""A name in upgrade.drop that nothing has is said when a job goes on."""

from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.cli.changes import drops
from flamestream.core.protocol.inventory import inventory_of, next_inventory
from flamestream.job.manifest_cluster import Upgrade
from flamestream.model.errors import StoreUnavailable
from flamestream.model.graph import Graph

GRAPH = Graph("g")
GRAPH.source("clicks").upsert(GRAPH.table("seen", initial=int), key=len).committed.sink("out")
SNAPSHOT: Any = SimpleNamespace(epoch=3, inventory=next_inventory(None, inventory_of(GRAPH.validated())))


def said(newest: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *drop: str) -> str:
    monkeypatch.setattr(drops, "newest", newest)
    job: Any = SimpleNamespace(spec=SimpleNamespace(upgrade=Upgrade(drop=[*drop])))
    drops.warn_of_drops(job)
    return " ".join(capsys.readouterr().err.split())


def test_a_name_that_nothing_has_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = said(lambda job: SNAPSHOT, capsys, monkeypatch, "seen", "sene")
    assert "drop names 'sene', and the job's snapshot of epoch 3 has no such" in told
    assert said(lambda job: SNAPSHOT, capsys, monkeypatch, "seen", "clicks") == ""


def test_where_nobody_can_know_nothing_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(job: Any) -> Any:
        raise StoreUnavailable("away")

    assert (
        said(away, capsys, monkeypatch, "sene") == said(lambda job: None, capsys, monkeypatch, "sene") == ""
    )
