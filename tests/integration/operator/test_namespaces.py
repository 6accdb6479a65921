"""Namespaces that are chosen by a label, by a process of the operator with the rights that the chart gives: what one
has is looked after from when it gets the label until it loses it."""

import json

import pytest

from flamestream_operator.objects.meta import part
from support.operator.operator_process import Process
from support.operator.plain_cluster import Places
from support.operator.processes import Cluster, give_rights, play

pytestmark = pytest.mark.usefixtures("own_api_server")
SELECTOR = {"matchLabels": {"streams": "yes"}}


@pytest.fixture
def rights(places: Places) -> None:
    """The chart's, for such a choice."""
    give_rights(places, namespaceSelector=SELECTOR)


async def labelled(cluster: Cluster, value: str | None) -> None:
    await cluster.api.patch(
        "Namespace", "", cluster.places.namespace, {"metadata": {"labels": {"streams": value}}}
    )


async def says(cluster: Cluster, process: Process, words: str, count: int = 1) -> None:
    async def said() -> bool:
        return process.said().count(words) >= count

    await cluster.until(said, f"{words} ({count})")


@pytest.mark.slow  # a minute: of a fake API at each push
@pytest.mark.usefixtures("rights")
def test_a_namespace_is_taken_up_by_its_label_and_let_go_without_and_neither_costs_its_jobs_anything(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.begin_all()
        one = cluster.start(1, FLAMESTREAM_NAMESPACE_SELECTOR=json.dumps(SELECTOR))
        await says(cluster, one, "leads")
        await labelled(cluster, "yes")

        async def all_commit() -> bool:
            jobs = await cluster.api.list_all("FlameStreamJob", places.namespace)
            return all(part(job, "status", "epoch", "number") for job in jobs)

        await cluster.until(all_commit, "each job commits epochs")
        before = await cluster.coordinated(lambda _: [one, one])
        await labelled(cluster, None)

        async def none() -> bool:
            return not any((await cluster.attempts()).values())

        await cluster.until(none, "nobody coordinates its jobs")
        await labelled(cluster, "yes")
        assert await cluster.coordinated(lambda _: [one, one]) == before, "streams that ran on are adopted"
        await cluster.completed()

    play(places, monkeypatch, body)
