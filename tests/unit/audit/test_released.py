"""Bounds of an item's release: what its bundle, the commit and the sink say, where nobody writes the moment down."""

from dataclasses import replace
from pathlib import Path

import pytest

from flamestream.audit.descent import Descent, Newest, descents
from flamestream.connectors import sinks
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import meta_of, time_of_meta
from flamestream.model.time import Time, timestamp_of
from flamestream.store.zookeeper_access import NOWHERE
from support.runs.past_run import JOB, SINK, going_on, own_modules

NOW = 10**18
COMMITTED = 10**17


def traced(folder: Path, written: int = COMMITTED) -> tuple[list[Descent], list[sinks.Item]]:
    """All items of a run that goes on behind its last commit, traced; and what its sink has."""
    with own_modules():
        past = going_on()
        job = past.leave(folder, {"files": {"path": str(folder / "out"), "fsync": False}})
        last = replace(past.last_commit(), written=written)
        found = descents(job, last, NOWHERE, "", limit=100, clock=lambda: NOW)
        return found, list(sinks.read(job.job.sink(SINK), f"spec.sinks.{SINK}", JOB))


def test_an_item_left_no_sooner_than_the_newest_run_of_its_bundle_was_stamped() -> None:
    """A bundle has items of several runs: which of them has the text does not matter."""
    newest = Newest("old", 10)
    for time, sequence, payload in (
        (5, 1, "old"),
        (6, 1, "new"),
        (7, 2, "new"),
        (8, 3, "old"),
        (9, 3, "new"),
    ):
        newest.take((meta_of(Time(time), 0), Slot(0), SequenceNumber(sequence), payload))
        newest.take((meta_of(Time(time + 90), 0), Slot(1), SequenceNumber(sequence), "of another slot"))
    assert newest.bundles == {(0, 1): 6, (0, 3): 9}


def test_each_item_has_the_bound_of_its_bundle(tmp_path: Path) -> None:
    found, items = traced(tmp_path)
    times = {(slot, sequence): timestamp_of(time_of_meta(meta)) for meta, slot, sequence, _ in items}
    assert len(found) == len(items)
    for each in found:
        assert each.released_after == times[Slot(each.slot), SequenceNumber(each.bundle)]


@pytest.mark.parametrize(("written", "by_commit"), [(COMMITTED, COMMITTED), (0, NOW)])
def test_what_is_below_the_cut_was_there_at_the_commit_and_all_else_when_it_was_read(
    tmp_path: Path, written: int, by_commit: int
) -> None:
    found, _ = traced(tmp_path, written)
    assert {(each.saved, each.released_before) for each in found} == {(True, by_commit), (False, NOW)}


def test_a_files_sink_says_when_each_bundle_was_written(tmp_path: Path) -> None:
    found, _ = traced(tmp_path)
    moments = [each.written for each in found]
    assert min(moments) > 1_700_000_000_000_000, "a clock's"
    assert max(moments) - min(moments) < 600_000_000
