"""The picture of latencies around a recovery is to scale, and the rows behind it are those of the hour."""

from xml.etree import ElementTree

import pytest

from flamestream.job.status import JobStatus, LastRecovery
from flamestream.live.latency_picture import AROUND, around, latencies
from flamestream.live.notebook import Shown
from flamestream.node.samples import Sample

SECOND = 1_000_000
MS = 1000
NAME = "{http://www.w3.org/2000/svg}"
BEGAN = 1_700_000_000 * SECOND
CAUSE = BEGAN + 100 * SECOND
ENDED = CAUSE + 2_500 * MS
KILL = LastRecovery(cause="lost w0", duration_ms=2500.0, steps_ms={"decide": 2500.0}, ended=ENDED)
GAP = (101, 102)
"""Seconds in which nothing came."""


def status(last: LastRecovery | None = KILL) -> JobStatus:
    return JobStatus(job="j", pid=1, updated=BEGAN, phase="running", last_recovery=last)


def sample(second: int) -> Sample:
    at = BEGAN + second * SECOND
    if second in GAP:
        return Sample(at=at, items_in=0.0)
    return Sample(at=at, p50_ms=2.0, p99_ms=2000.0 if second == 103 else 20.0, items_in=5.0)


HOUR = [sample(second) for second in range(200)]


def drawn(picture: str) -> tuple[dict[str, str], ElementTree.Element]:
    """The paths of the lines by what they are called, and the band of the recovery."""
    root = ElementTree.fromstring(picture)
    lines = {
        str(title.text)[:3]: path.attrib["d"]
        for path in root.iter(f"{NAME}path")
        for title in path.iter(f"{NAME}title")
    }
    (band,) = root.iter(f"{NAME}rect")
    return lines, band


def test_the_recovery_is_marked_where_its_seconds_without_results_are() -> None:
    lines, band = drawn(latencies(HOUR, status()))
    begins, ends = float(band.attrib["x"]), float(band.attrib["x"]) + float(band.attrib["width"])
    for name in ("p50", "p99"):
        before, behind = lines[name].split(" M")
        last = float(before.rsplit("L", 1)[1].split(",")[0])
        first = float(behind.split(",")[0])
        assert last <= begins < first, "the line ends at the cause"
        assert ends <= first
    assert float(band.attrib["width"]) == pytest.approx((first - last) * 2.5 / 3, abs=0.1)


def test_ten_times_as_long_is_as_far_up_anywhere() -> None:
    lines, _ = drawn(latencies(HOUR, status()))
    p50, p99 = (lines[name].split(" M")[1] for name in ("p50", "p99"))
    heights = [float(point.split(",")[1]) for point in p99.split(" L")[:2]]
    assert float(p50.split(" L")[0].split(",")[1]) - heights[1] == pytest.approx(
        (heights[1] - heights[0]) / 2, abs=0.05
    )


def test_of_the_hour_that_is_shown_which_is_around_the_recovery() -> None:
    seconds = [(each.at - BEGAN) // SECOND for each in around(HOUR, status(), AROUND)]
    assert seconds == list(range(70, 133))


def test_without_a_recovery_the_newest_is_shown_and_without_results_nothing() -> None:
    for none in (None, LastRecovery(cause="lost w0", duration_ms=0)):  # the second one is under way
        near = around(HOUR, status(none), AROUND)
        assert [(each.at - BEGAN) // SECOND for each in near] == list(range(139, 200))
        assert "<svg" in latencies(HOUR, status(none)) and "<rect" not in latencies(HOUR, status(none))
    assert latencies([], status()) == latencies([], status(None)) == ""
    assert latencies([sample(second) for second in GAP], status()) == ""
    assert latencies(HOUR[:50], status()) == "", "the recovery was long ago"


def test_a_row_says_whether_the_recovery_was_under_way_in_its_second() -> None:
    frame = Shown(status(), HOUR).latency(5)
    assert list(frame["at"]) == [each.at for each in HOUR[95:108]]
    assert [(at - BEGAN) // SECOND for at in frame["at"][frame["recovering"]]] == [101, 102, 103]
    assert frame["p99_ms"].max() == 2000 and frame["p50_ms"].isna().sum() == len(GAP)
    assert list(Shown(status()).latency(5).columns) == list(frame.columns)


def test_what_a_job_says_is_text() -> None:
    evil = "<script>alert(1)</script>"
    last = LastRecovery(cause=evil, duration_ms=2500.0, ended=ENDED)
    shown = Shown(status(last), HOUR)._repr_html_()
    assert "<svg" in shown and "<script>" not in shown
