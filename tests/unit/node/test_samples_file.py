"""The last hour in a run folder: whoever looks later, or again, sees the same."""

from pathlib import Path

import pytest

from flamestream.node import samples_file
from flamestream.node.samples import HOUR, Sample
from flamestream.node.samples_file import NEW, OLD, SamplesFile, SamplesTail

SECOND = 1_000_000
BEGAN = 1_700_000_000 * SECOND


def sample(second: int) -> Sample:
    return Sample(
        at=BEGAN + second * SECOND, p50_ms=1.25, items_in=float(second), items_out=2.0, epoch=second
    )


def seconds(found: list[Sample]) -> list[int]:
    return [each.epoch for each in found]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """An hour of ten samples."""
    monkeypatch.setattr(samples_file, "MOST", 10)
    return 10


def test_coordinators_that_follow_each_other_write_one_hour(tmp_path: Path) -> None:
    for life in range(3):
        file = SamplesFile(tmp_path)
        for step in range(2):
            file.add(sample(2 * life + step))
    assert SamplesTail(tmp_path).behind() == [sample(second) for second in range(6)]


def test_an_hour_at_least_and_two_at_most_are_kept(tmp_path: Path, short: int) -> None:
    for second in range(7 * short + 3):
        if second % 4 == 0:
            file = SamplesFile(tmp_path)  # it does not begin to count anew
        file.add(sample(second))
        there = seconds(SamplesTail(tmp_path).behind())
        assert there == list(range(max(0, second + 1 - short), second + 1))
    assert [len((tmp_path / name).read_bytes().splitlines()) for name in (OLD, NEW)] == [short, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == [NEW, OLD]


def test_what_is_read_on_is_what_came_behind_whichever_file_it_is_in(tmp_path: Path, short: int) -> None:
    file, tail, known = SamplesFile(tmp_path), SamplesTail(tmp_path), 0
    for second in range(3 * short):
        file.add(sample(second))
        if second % 4 == 0:
            found = seconds(tail.behind(known))
            assert found == list(range(max(0, second - 3), second + 1))
            known = sample(second).at


def test_a_line_that_was_torn_costs_itself(tmp_path: Path) -> None:
    file = SamplesFile(tmp_path)
    for second in range(3):
        file.add(sample(second))
    whole = (tmp_path / NEW).read_bytes()
    for cut in range(len(whole) - 40, len(whole)):
        (tmp_path / NEW).write_bytes(whole[:cut])
        SamplesFile(tmp_path).add(sample(7))
        assert seconds(SamplesTail(tmp_path).behind()) in ([0, 1, 7], [0, 1, 2, 7])
    (tmp_path / NEW).write_bytes(whole + b"\0\xff{]\n[1,2]\n")
    SamplesFile(tmp_path).add(sample(7))
    assert seconds(SamplesTail(tmp_path).behind()) == [0, 1, 2, 7]


def test_what_is_older_than_an_hour_is_not_shown(tmp_path: Path) -> None:
    file = SamplesFile(tmp_path)
    for second in (0, 100, HOUR // SECOND + 50):  # a job that was stopped meanwhile
        file.add(sample(second))
    assert seconds(SamplesTail(tmp_path).behind()) == [100, HOUR // SECOND + 50]


def test_a_folder_without_samples_has_none(tmp_path: Path) -> None:
    assert SamplesTail(tmp_path).behind() == []


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    SamplesFile(tmp_path).add(sample(0))
    assert (tmp_path / NEW).stat().st_mode & 0o777 == 0o600
