"""Every guarantee through the life of a job on an API server: real coordinators, real workers, S3, ZooKeeper,
all but Spark."""

from typing import Any

import pytest

from support.operator.plain_cluster import APPLICATION, Places, PlainCluster, play, results, results_of
from support.operator.real_cluster import the_api

RARE = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("exactly-once", "strong-productions", "at-most-once", "at-least-once", "none")
]
GUARANTEES = ["exactly-once-2pc", *RARE]
"""A minute each: at each push the one that holds most, and exactly-once in test_figures_of_a_life.py."""


CODE = APPLICATION + "# the same in other words\n"


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_life_with_kill_suspend_resume_savepoint_and_edit(places: Places, guarantee: str) -> None:
    """What was delivered is judged at the end, by arithmetic."""

    async def life(cluster: PlainCluster) -> None:
        await cluster.apply(**spec_of(guarantee))
        await cluster.gives("a new job")
        await killed(cluster)
        await resumed(cluster)
        if guarantee != "none":
            await cluster.save("kept")
        await cluster.edit({"checkpoint": {"interval": "200ms"}})
        await cluster.gives("a shorter interval, with a coordinator of its own")
        await cluster.edit({"workers": {"replicas": 3}})
        await cluster.gives("one more worker", workers=3)
        await killed(cluster, workers=3)
        before = cluster.status.run.code
        await cluster.edit_code(CODE)
        await cluster.until(lambda: cluster.status.run.code != before, "other code has taken over")
        await cluster.gives("other code", workers=3)
        await cluster.edit({"suspend": True})
        await cluster.until(lambda: cluster.status.phase == "Suspended", "it is suspended")
        judge(guarantee, cluster.delivered())
        if guarantee != "none":
            await restored(cluster, guarantee)

    play(the_api, places, life)


def spec_of(guarantee: str) -> dict[str, Any]:
    """The guarantee, with a journal where it needs one for a source that can be read again."""
    journal = {"journal": {"folder": "zookeeper://"}} if guarantee == "strong-productions" else {}
    return {"guarantee": guarantee, **journal}


async def killed(cluster: PlainCluster, workers: int = 2) -> None:
    """One worker's process."""
    before = cluster.told
    assert before is not None
    cluster.kill()
    await cluster.gives("a killed worker's successor", attempt=before.attempt + 1, workers=workers)


async def resumed(cluster: PlainCluster) -> None:
    """Suspended at an epoch with nothing in flight, then resumed from it."""
    await cluster.edit({"suspend": True})
    await cluster.until(lambda: cluster.status.phase == "Suspended", "it is suspended")
    suspension = cluster.status.suspension
    assert suspension is not None and suspension.clean, suspension
    await cluster.edit({"suspend": False})
    await cluster.gives("a job that was resumed")


async def restored(cluster: PlainCluster, guarantee: str) -> None:
    """Into another job, whose consumers get what comes after the savepoint's cut, with the sums of all that
    came before."""
    before = cluster.delivered()
    cluster.name = "again"
    await cluster.apply(**spec_of(guarantee), restoreFrom={"snapshot": "kept"})
    await cluster.gives("a job that begins at a savepoint")
    # nothing is in flight then: workers need not be equally far while they run
    await cluster.edit({"suspend": True})
    await cluster.until(lambda: cluster.status.phase == "Suspended", "the restored job is suspended")
    given = once(guarantee, cluster.delivered())
    first = given[0][0]
    assert first > 0
    if guarantee == "at-most-once":
        judge(guarantee, [*(each for each in before if each[0] < first), *given])
        return
    assert given == results(first + len(given))[first:]


def once(guarantee: str, given: list[Any]) -> list[Any]:
    """Under at-least-once repeats of equal bytes are allowed."""
    return list(dict.fromkeys(given)) if guarantee == "at-least-once" else given


def judge(guarantee: str, given: list[Any]) -> None:
    """By what the guarantee promises."""
    if guarantee == "none":  # every failure and every start begins with nothing, and reads from the beginning
        assert set(given) <= set(results(max(number for number, _ in given) + 1))
        return
    if guarantee == "at-most-once":  # of some part of the numbers, in their order
        assert given == results_of(number for number, _ in given)
        return
    items = once(guarantee, given)
    assert items == results(len(items))


@pytest.mark.slow  # half a minute: what a fresh start keeps is decided in unit/operator
def test_a_fresh_start_keeps_its_attempts_because_its_sinks_refuse_older_ones(places: Places) -> None:
    """Or it would be refused as often as the old run had attempts, and fail at the fifth time."""

    async def life(cluster: PlainCluster) -> None:
        await cluster.apply()
        await cluster.gives("a new job")
        await killed(cluster)
        await killed(cluster)
        old = cluster.told
        assert old is not None
        await cluster.edit({"upgrade": {"strategy": "Fresh"}})
        await cluster.edit_code(CODE)
        await cluster.until(
            lambda: cluster.status.run.number == 2 and cluster.runs(), "other code begins anew"
        )
        fresh = cluster.told
        assert fresh is not None and fresh.last_recovery is not None
        assert (fresh.last_recovery.kind, fresh.last_recovery.replayed_from, fresh.recoveries) == (
            "start",
            0,
            1,
        )
        assert fresh.attempt > old.attempt
        await cluster.gives("a job that began anew")
        # nothing is in flight then: workers need not be equally far while they run
        await cluster.edit({"suspend": True})
        await cluster.until(lambda: cluster.status.phase == "Suspended", "it is suspended")
        judge("exactly-once", cluster.delivered())

    play(the_api, places, life)
