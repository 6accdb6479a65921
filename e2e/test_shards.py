"""Two shards, each with a leader: jobs are divided while they run, and a leader that dies takes its own alone."""

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b

import pytest

from e2e.conftest import flowing, fresh
from e2e.support import faults
from e2e.support.installation import Installation, install
from e2e.support.kube import Kube, until
from e2e.support.stream import Stream

Report = Callable[..., None]


def shard_of(identity: str) -> int:
    """Of two."""
    first, second = (blake2b(f"{shard}/{identity}".encode(), digest_size=8).digest() for shard in (0, 1))
    return int(second > first)


@pytest.fixture(scope="module")
def streams(installation: Installation, kube: Kube) -> Iterator[list[Stream]]:
    """A small job in each shard of two, all led by one leader yet."""
    made: list[Stream] = []
    for shard in (0, 1):
        name = next(name for name in iter(fresh, "") if shard_of(f"{kube.namespace}.{name}") == shard)
        made.append(
            Stream(kube, installation, name=name, words=60, replicas=1, standby=0, outside=f"outside-{shard}")
        )
    with flowing(made[0], 240), flowing(made[1], 240):
        yield made


def watched(
    streams: list[Stream], report: Report, what: str, fault: Callable[[], None], seconds: float
) -> None:
    """Do it: what each job delivered until then is right, and its longest pause is told."""
    since = [each.state()["now"] for each in streams]
    fault()
    time.sleep(seconds)
    for shard, (each, moment) in enumerate(zip(streams, since, strict=True)):
        each.wait_flowing(60)
        gap, verdict = each.ask(f"/gap?since={moment}"), each.ask("/audit")
        report(
            f"{what}: job of shard {shard}",
            gap_ms=gap["gap_ms"],
            clean=verdict["clean"],
            items=verdict["items"],
        )
        assert verdict["clean"], verdict
        assert gap["gap_ms"] < 2000, "an operator's end delays no output"


def is_coordinated(stream: Stream) -> None:
    """Whoever leads it decides on a recovery."""
    before = int(stream.status()["run"]["attempt"])
    faults.kill_worker(stream)
    recovered = lambda: int(stream.status()["run"]["attempt"]) > before  # noqa: E731
    until(f"{stream.name} has recovered", recovered, 120)
    stream.wait_flowing(120)


def led_by_two(installation: Installation) -> bool:
    leaders = {installation.leader(shard) for shard in (0, 1)}
    return len(leaders) == 2 and "" not in leaders


def test_jobs_are_divided_among_two_leaders_while_they_run(
    streams: list[Stream], installation: Installation, kube: Kube, report: Report
) -> None:
    attempts = [each.status()["run"]["attempt"] for each in streams]

    def divide() -> None:
        install(kube.namespace, shards=2)
        until("two lead", lambda: led_by_two(installation), 120)

    watched(streams, report, "jobs divided among two leaders", divide, 10)
    assert [each.status()["run"]["attempt"] for each in streams] == attempts, "no recovery"
    for each in streams:
        is_coordinated(each)


def test_a_leader_that_dies_takes_only_its_own_shard_with_it(
    streams: list[Stream], installation: Installation, report: Report
) -> None:
    other, dies = (installation.leader(shard) for shard in (0, 1))

    def kill() -> None:
        installation.system.delete("Pod", dies, grace=0, within=0)
        until("a spare leads", lambda: installation.leader(1) not in ("", dies), 60)

    watched(streams, report, "leader of shard 1 deleted by force", kill, 10)
    assert installation.leader(0) == other
    for each in streams:
        is_coordinated(each)
