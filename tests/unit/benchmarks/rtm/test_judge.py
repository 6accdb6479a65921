"""A run's results are compared with a plain loop, and each record is late by the first result that has it."""

from collections.abc import Iterable
from typing import Any

import pytest
from rtm.judge import Faults, Result, grouped, judged, latencies
from rtm.records import JOBS, MINUTE, Group, Schedule

SCHEDULE = Schedule(60.0, 1000.0)
COUNT = 5000
"""So many that records are repeated, and that users come again."""


def say(job: str, group: Group, has: int) -> dict[str, Any]:
    if job == "dedup":
        return {"id": group[0]}
    return dict(zip(("user", "start"), group, strict=False)) | {"count": has}


def results(job: str, count: int = COUNT, late: float = 0.25) -> list[Result]:
    """What a system gives that tells every record at once."""
    found, seen = list[Result](), dict[Group, int]()
    for number in range(count):
        group = JOBS[job].of_record(SCHEDULE.fields(number))
        seen[group] = seen.get(group, 0) + 1
        if not JOBS[job].once or seen[group] == 1:
            when = SCHEDULE.due(number) + late
            found.append(Result(when + 0.001, when, say(job, group, seen[group])))
    return found


def faults(job: str, found: Iterable[Result]) -> Faults:
    return judged(JOBS[job], SCHEDULE, COUNT, found).faults


@pytest.mark.parametrize("job", JOBS)
def test_results_of_a_plain_loop_are_without_fault_and_late_by_their_delay(job: str) -> None:
    found = judged(JOBS[job], SCHEDULE, COUNT, results(job))
    assert found.faults == Faults(0, 0, 0)
    told = latencies(found, SCHEDULE, SCHEDULE.due(1000), SCHEDULE.due(2000))
    assert told["appended_p50_ms"] == told["appended_p99_ms"] == 250.0 and told["received_p99_ms"] == 251.0


def test_a_repeated_record_has_no_result_of_its_own_in_a_deduplication() -> None:
    assert sum(map(len, grouped(JOBS["dedup"], SCHEDULE, COUNT).values())) == len(results("dedup")) < COUNT


def test_a_window_has_the_records_of_its_minute() -> None:
    groups = grouped(JOBS["window"], Schedule(59.0, 1000.0), 3000)
    assert {start for _, start in groups} == {0, MINUTE}


@pytest.mark.parametrize("job", JOBS)
def test_a_result_that_is_missing_at_the_end_is_a_lost_record_and_a_wrong_group(job: str) -> None:
    assert faults(job, results(job)[:-1]) == Faults(lost=1, doubled=0, wrong=1)


@pytest.mark.parametrize("job", JOBS)
def test_a_result_that_is_told_twice_is_doubled(job: str) -> None:
    found = results(job)
    assert faults(job, [*found, found[-1]]) == Faults(lost=0, doubled=1, wrong=0)


def test_counts_in_the_wrong_order_are_doubled_and_leave_a_wrong_last_one() -> None:
    found = results("count")
    *_, older, newer = (place for place, each in enumerate(found) if each.value["user"] == "u0")
    found[older], found[newer] = found[newer], found[older]
    assert faults("count", found) == Faults(lost=0, doubled=1, wrong=1)


def test_a_result_of_a_group_that_nobody_sent_is_wrong() -> None:
    assert faults("count", [*results("count"), Result(99.0, 99.0, {"user": "x", "count": 1})]).wrong == 1


def test_a_count_that_covers_several_records_is_the_result_of_each() -> None:
    last = {each.value["user"]: each for each in results("count")}
    found = judged(JOBS["count"], SCHEDULE, COUNT, last.values())
    assert found.faults == Faults(0, 0, 0)
    told = latencies(found, SCHEDULE, SCHEDULE.due(0), SCHEDULE.due(COUNT))
    assert told["measured"] == COUNT and told["appended_p99_ms"] > 3000


def test_only_records_that_are_due_in_the_measured_time_count() -> None:
    found = judged(JOBS["count"], SCHEDULE, COUNT, results("count"))
    assert latencies(found, SCHEDULE, SCHEDULE.due(10), SCHEDULE.due(30))["measured"] == 20
    assert latencies(found, SCHEDULE, 0.0, 1.0) == {"measured": 0}
