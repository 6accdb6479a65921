"""Several of the operator's processes, each with the rights that the chart gives, lead a shard of the jobs each: one
that dies takes no other with it, and their number may change while jobs run.

Workers are processes, and find their leaders by name. What the jobs deliver is compared with arithmetic.
"""

import pytest

from support.operator.plain_cluster import Places
from support.operator.processes import Cluster, give_rights, play

pytestmark = pytest.mark.usefixtures("own_api_server")


@pytest.fixture
def rights(places: Places) -> None:
    """The chart's."""
    give_rights(places)


@pytest.mark.usefixtures("rights")
def test_a_leader_that_dies_takes_its_own_shard_with_it_and_a_spare_takes_that(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.begin_all()
        for _ in range(3):
            cluster.start(2)
        before = await cluster.coordinated(cluster.by_lease)
        dead, stays = cluster.by_lease(await cluster.holders())
        dead.kill()
        after = await cluster.coordinated(
            lambda holders: [each for each in cluster.by_lease(holders) if each is not dead], but=dead
        )
        assert after == before, "no job has recovered: none was disturbed"
        assert cluster.by_lease(await cluster.holders())[1] is stays
        await cluster.completed()

    play(places, monkeypatch, body)


@pytest.mark.slow
@pytest.mark.usefixtures("rights")
def test_jobs_are_divided_anew_while_they_run_and_nobody_leads_one_twice(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one shard to two, and back."""

    async def body(cluster: Cluster) -> None:
        await cluster.begin_all()
        one = cluster.start(1)
        before = await cluster.coordinated(lambda _: [one, one])
        two = [cluster.start(2), cluster.start(2)]

        async def waits() -> bool:
            return all("divides the jobs otherwise" in each.said() for each in two)

        await cluster.until(waits, "the new ones wait for the old one")
        assert await cluster.holders() == ["operator-1", ""]
        one.stop()
        # Workers of the second shard know the first one's address alone.
        assert await cluster.coordinated(cluster.by_lease, but=one) == before
        again = cluster.start(1)
        for each in two:
            each.stop()
        assert await cluster.coordinated(lambda _: [again, again]) == before
        await cluster.completed()

    play(places, monkeypatch, body)


@pytest.mark.slow
@pytest.mark.usefixtures("rights")
def test_a_job_goes_on_where_one_of_another_shard_ends(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called after the other, it is in that one's shard, and before in its own: leaders give it to each other."""

    async def body(cluster: Cluster) -> None:
        await cluster.prepare()
        (blue, *_), (green, *_) = cluster.jobs
        await cluster.begin(blue)
        for _ in range(2):
            cluster.start(2)
        await cluster.phases(**{blue.replace("-", "_"): "Running"})
        await cluster.begin(green, takeOver={"job": blue})
        leave = {"spec": {"handOver": {"to": green}}}
        await cluster.api.patch("FlameStreamJob", places.namespace, blue, leave)
        over = {blue.replace("-", "_"): "HandedOver", green.replace("-", "_"): "Completed"}
        await cluster.phases(**over)
        cluster.delivered(blue)

    play(places, monkeypatch, body)
