"""The picture of a recovery is to scale, and says no more than the coordinator."""

from xml.etree import ElementTree

import pytest

from flamestream.job.status import JobStatus, LastRecovery
from flamestream.live.notebook import Shown
from flamestream.live.recovery_picture import gap_around, picture

SECOND = 1_000_000
MS = 1000
NAME = "{http://www.w3.org/2000/svg}"
ENDED = 50 * SECOND
STEPS = {"decide": 10.0, "record": 20.0, "open": 30.0, "seal": 40.0}
GAP = (ENDED + 50 * MS, 200 * MS)
"""From 150 ms before the recovery's end to 50 ms behind it."""


def told(gaps: list[tuple[int, int]], cause: str = "lost w0", ended: int = ENDED) -> JobStatus:
    last = LastRecovery(cause=cause, duration_ms=100.0, steps_ms=STEPS, ended=ended)
    return JobStatus(job="j", pid=1, updated=ENDED + SECOND, phase="running", last_recovery=last, gaps=gaps)


def bars(status: JobStatus) -> dict[str, tuple[float, float]]:
    """By their titles: where each begins, and how wide it is."""
    found = {}
    for rect in ElementTree.fromstring(picture(status)).iter(f"{NAME}rect"):
        (title,) = rect.iter(f"{NAME}title")
        found[str(title.text)] = float(rect.attrib["x"]), float(rect.attrib["width"])
    return found


def test_each_bar_is_as_wide_as_its_step_took_and_begins_where_the_one_before_ends() -> None:
    steps = {title.partition(":")[0]: bar for title, bar in bars(told([GAP])).items() if ":" in title}
    pixel = steps["decide"][1] / 10
    end = steps["decide"][0]
    for name, took in STEPS.items():
        begins, wide = steps[name]
        assert begins == pytest.approx(end, abs=0.1) and wide == pytest.approx(took * pixel, abs=0.3)
        end = begins + wide


def test_the_gap_that_the_recovery_made_is_on_the_same_axis() -> None:
    assert "nothing for 200 ms" in picture(told([GAP]))
    assert gap_around(told([GAP]), ENDED - 100 * MS) == (ENDED - 150 * MS, ENDED + 50 * MS)


def test_an_older_or_a_later_gap_is_none_of_it() -> None:
    older, later = (ENDED - 5 * SECOND, 3 * SECOND), (ENDED + 9 * SECOND, SECOND)
    assert "nothing for 200 ms" in picture(told([older, GAP]))
    for gaps in ([], [older], [later]):
        assert "the gap is not known" in picture(told(gaps))


def test_without_a_recovery_that_was_seen_there_is_no_picture() -> None:
    assert picture(told([GAP], ended=0)) == ""
    assert picture(JobStatus(job="j", pid=1, updated=0, phase="running")) == ""


def test_a_cause_is_text() -> None:
    evil = "<script>alert(1)</script>"
    shown = Shown(told([GAP], cause=evil))._repr_html_()
    assert "<svg" in shown and "<script>" not in shown
