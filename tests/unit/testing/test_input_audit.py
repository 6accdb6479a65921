"""A record of input that has a hole is told from one that is whole, whatever the source's offsets look
like."""

from typing import Any

import pytest

from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import FrontId, Time
from flamestream.testing.input_audit import Finding, Skip, committed_position, contiguity, recounted

P, Q = Partition("p"), Partition("q")


def run(number: int, first: int, count: int, partition: Partition = P, end: int | None = None) -> Entry:
    """At time `number`."""
    return Entry(Time(number), partition, Offset(first), count, end=None if end is None else Offset(end))


def found(
    *entries: Entry, begins: dict[Partition, int] | None = None, **options: Any
) -> list[tuple[str, int]]:
    offsets = {partition: Offset(offset) for partition, offset in (begins or {}).items()}
    return [
        (each.kind, each.count)
        for each in contiguity(entries, offsets, **options)
        if isinstance(each, Finding)
    ]


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([], []),
        ([run(1, 0, 4), run(2, 4, 4)], []),
        ([run(1, 0, 4), run(2, 0, 2, Q), run(3, 4, 4), run(4, 2, 1, Q)], []),
        ([run(1, 0, 4), run(2, 5, 4)], [("missing", 1)]),
        ([run(1, 3, 4)], [("missing", 3)]),
        ([run(1, 0, 4), run(2, 9, 1, Q), run(3, 4, 4)], [("missing", 9)]),
        ([run(1, 0, 4), run(2, 6, 2), run(3, 10, 1)], [("missing", 2), ("missing", 2)]),
        ([run(1, 0, 4), run(2, 2, 4)], [("unexpected", 2)]),
        ([run(1, 0, 4), run(2, 0, 4), run(3, 4, 1)], [("unexpected", 4)]),
        ([run(1, 0, 8), run(2, 2, 2), run(3, 8, 1)], [("unexpected", 2)]),
        ([run(2, 0, 4), run(1, 4, 4)], [("disorder", 1)]),
        ([run(1, 0, 4), run(1, 4, 4)], [("disorder", 1)]),
    ],
)
def test_each_run_goes_on_where_the_one_before_ended(
    entries: list[Entry], says: list[tuple[str, int]]
) -> None:
    assert found(*entries) == says


def test_offsets_with_gaps_go_on_where_the_run_before_says_that_it_ends() -> None:
    assert found(run(1, 0, 2, end=7), run(2, 7, 1, end=8)) == []
    assert found(run(1, 0, 2, end=7), run(2, 9, 1, end=10)) == [("missing", 2)]


def test_a_run_without_records_says_where_its_partition_begins_and_only_once() -> None:
    assert found(run(1, 500, 0, end=500), run(2, 500, 3, end=503)) == []
    assert found(run(1, 500, 0, end=500), run(2, 501, 3, end=504)) == [("missing", 1)]
    assert found(run(1, 0, 2, end=2), run(2, 500, 0, end=500)) == [("missing", 498)]
    assert found(run(1, 500, 3, end=503)) == [("missing", 500)], "its beginning is gone"


def test_where_a_partition_begins_is_known_of_a_restored_job_and_of_a_source_that_says_so() -> None:
    assert found(run(1, 24, 4), begins={P: 24}) == []
    assert found(run(1, 28, 4), begins={P: 24}) == [("missing", 4)]
    assert found(run(1, 100, 4), start=Offset(100)) == []


def test_what_is_skipped_by_a_source_whose_offsets_may_skip_is_to_be_asked_for() -> None:
    entries = [run(1, 3, 2, end=5), run(2, 9, 1, end=10)]
    assert list(contiguity(entries, {}, skips=True)) == [
        Skip(Time(1), P, Offset(0), Offset(3)),
        Skip(Time(2), P, Offset(5), Offset(9)),
    ]
    assert found(run(1, 3, 2), skips=True) == [("missing", 3)], "a run that names no end skips nothing"


@pytest.mark.parametrize(
    ("offsets", "last", "says"),
    [
        ({P: 8, Q: 3}, 3, []),
        ({P: 9, Q: 3}, 3, [("missing", 1)]),
        ({P: 8, Q: 1}, 3, [("unexpected", 2)]),
        ({P: 8}, 3, [("unexpected", 3)]),
        ({P: 8, Q: 3, Partition("r"): 5}, 3, [("missing", 5)]),
        ({P: 8, Q: 3}, 2, [("disorder", 1)]),
    ],
)
def test_the_runs_below_the_cut_come_to_what_was_committed(
    offsets: Any, last: int, says: list[tuple[str, int]]
) -> None:
    entries = [run(1, 0, 4), run(2, 0, 3, Q), run(3, 4, 4), run(4, 8, 9)]
    position = FrontPosition(FrontId(0), Time(last), offsets)
    assert [(each.kind, each.count) for each in committed_position(entries, position, Time(4), {})] == says


def test_a_restored_job_that_has_read_nothing_stands_where_it_began() -> None:
    position = FrontPosition(FrontId(0), Time(3), {P: Offset(24)})
    assert committed_position([], position, Time(9), {P: Offset(24)}) == []


@pytest.mark.parametrize(("count", "says"), [(7, []), (5, [("missing", 2)]), (9, [("unexpected", 2)])])
def test_a_source_that_is_read_again_has_as_many_records_as_entered(
    count: int, says: list[tuple[str, int]]
) -> None:
    position = FrontPosition(FrontId(0), Time(3), {P: Offset(7)})
    assert [(each.kind, each.count) for each in recounted(count, position)] == says
