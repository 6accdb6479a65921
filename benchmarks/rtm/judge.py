"""What came of a run: whether its results are those of a plain loop over its records, and how late they were.

A record's latency is from when it was due to the first result that has it: its id, or a count that it is in.
So a result that covers several records is counted for each of them.

Keeps: a record without a result is lost, and never left out in silence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.results import percentile

from rtm.records import Group, Job, Schedule


class Result(NamedTuple):
    """A record of the sink's topic. Times are seconds since 1970."""

    received: float
    appended: float
    """The broker's, in whole milliseconds."""
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Faults:
    """Results beside those of a plain loop."""

    lost: int
    """Records that no result has."""
    doubled: int
    """Results that say nothing new."""
    wrong: int
    """Groups that are not there, or whose last result is not that of all their records."""


@dataclass(frozen=True, slots=True)
class Judged:
    faults: Faults
    first: dict[int, Result]
    """By number of a record, the first result that has it."""


def grouped(job: Job, schedule: Schedule, count: int) -> dict[Group, list[int]]:
    """The plain loop: the numbers of each group's records that are to have a result, in order."""
    groups: dict[Group, list[int]] = {}
    for number in range(count):
        its = groups.setdefault(job.of_record(schedule.fields(number)), [])
        if not (job.once and its):
            its.append(number)
    return groups


def judged(job: Job, schedule: Schedule, count: int, results: Iterable[Result]) -> Judged:
    """Of `count` records that were sent; results are in the order of their topic."""
    groups, last, first, doubled = grouped(job, schedule, count), dict[Group, int](), dict[int, Result](), 0
    for result in results:
        group, has = job.of_result(result.value)
        before = last.get(group, 0)
        doubled += has <= before
        for number in groups.get(group, [])[before:has]:
            first[number] = result
        last[group] = has
    wrong = sum(last.get(group) != len(its) for group, its in groups.items())
    unknown = len(last.keys() - groups.keys())
    lost = sum(map(len, groups.values())) - len(first)
    return Judged(Faults(lost, doubled, wrong + unknown), first)


def latencies(judged: Judged, schedule: Schedule, begin: float, end: float) -> dict[str, float]:
    """p50 and p99 in milliseconds, of records that were due from `begin` to `end`: to the append of their
    result, and to its receipt."""
    its = {number: each for number, each in judged.first.items() if begin <= schedule.due(number) < end}
    found: dict[str, float] = {"measured": len(its)}
    for name in ("appended", "received"):
        late = [(getattr(each, name) - schedule.due(number)) * 1000 for number, each in its.items()]
        found |= {f"{name}_p{q}_ms": round(percentile(late, q), 1) for q in (50, 99) if late}
    return found
