"""A job on an API server and a ZooKeeper that others reach too: its pods' login, a neighbour's attacks, a
Secret made anew, and TLS."""

import asyncio
import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from kazoo.exceptions import NoAuthError

from flamestream.model.errors import UserError
from flamestream.store.zookeeper import ZooKeeperJobRecords
from flamestream_operator.kube.readers import NO_LOGIN, NO_RIGHT, OK, Readers
from support.api_server import STRANGER, TOKEN
from support.operator.plain_cluster import Places, PlainCluster, play
from support.operator.real_cluster import the_api
from support.zookeeper.pod import LOGIN, SharedZooKeeper

OTHER_LOGIN = f"operator:{'q' * 32}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SharedZooKeeper]:
    with SharedZooKeeper(tmp_path) as made:
        yield made


def with_a_journal(cluster: PlainCluster) -> tuple[dict[str, object], Path]:
    """A job whose order decisions are in ZooKeeper, and the file that it follows."""
    folder = cluster.places.folder / "in"
    folder.mkdir()
    file = folder / "numbers.txt"
    file.write_text("".join(f"{number}\n" for number in range(100)))
    source = {"files": {"path": str(folder), "follow": True, "records": "lines"}}
    return {"sources": {"numbers": source}, "journal": {"folder": "zookeeper://"}}, file


async def access_of_pods(cluster: PlainCluster) -> dict[str, str]:
    secret = await cluster.api.get("Secret", cluster.namespace, f"{cluster.name}-zookeeper")
    assert secret is not None
    return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}


def test_with_its_pods_login_a_job_is_neither_ended_nor_deleted(
    places: Places, server: SharedZooKeeper
) -> None:
    async def life(cluster: PlainCluster) -> None:
        spec, file = with_a_journal(cluster)
        await cluster.apply(**spec)
        await cluster.until(lambda: cluster.runs() and len(cluster.delivered()) == 100, "it gives results")
        job, before = f"{cluster.namespace}.{cluster.name}", cluster.told
        assert before is not None
        with server.session((await access_of_pods(cluster))["login"]) as state:
            records = ZooKeeperJobRecords(state, job)
            found = records.read()
            assert found is not None
            with pytest.raises(UserError, match="another login"):
                records.compare_and_set(msgspec.structs.replace(found[0], outcome="completed"), found[1])
            with pytest.raises(NoAuthError):
                state.client.delete(f"/flamestream/{job}/record")
        with file.open("a") as more:
            more.writelines(f"{number}\n" for number in range(100, 200))
        await cluster.until(lambda: cluster.runs() and len(cluster.delivered()) == 200, "it goes on")
        assert cluster.told is not None and cluster.told.attempt == before.attempt

    play(the_api, replace(places, zookeeper=server.place(room=1 << 24)), life)


def gets_another_login(server: SharedZooKeeper) -> str:
    server.start(OTHER_LOGIN)
    return OTHER_LOGIN


def gets_tls(server: SharedZooKeeper) -> str:
    server.seal()
    return LOGIN


@pytest.mark.parametrize("changes", [gets_another_login, gets_tls], ids=lambda changes: changes.__name__)
def test_another_way_to_zookeeper_replaces_the_pods_and_costs_no_result(
    places: Places, server: SharedZooKeeper, changes: Callable[[SharedZooKeeper], str]
) -> None:
    async def life(cluster: PlainCluster) -> None:
        spec, file = with_a_journal(cluster)
        await cluster.apply(**spec)
        await cluster.until(lambda: cluster.runs() and len(cluster.delivered()) == 100, "it gives results")
        before, old = await access_of_pods(cluster), {pod.name for pod in cluster.kubelet.workers()}
        cluster.lose_leader()
        cluster.places = replace(cluster.places, zookeeper=server.place(changes(server), room=1 << 24))
        cluster.new_leader()
        with file.open("a") as more:
            more.writelines(f"{number}\n" for number in range(100, 200))

        def gone() -> bool:
            there = {pod.name for pod in cluster.kubelet.workers()}
            return bool(there) and not old & there

        await cluster.until(
            lambda: gone() and cluster.runs() and len(cluster.delivered()) == 200,
            "pods with the new access go on",
            120,
        )
        assert await access_of_pods(cluster) != before

    play(the_api, replace(places, zookeeper=server.place(room=1 << 24)), life)


def test_the_api_server_says_who_may_read_the_figures(own_api_server: None) -> None:
    async def ask() -> None:
        async with the_api() as api:
            readers = Readers(api, time.monotonic)
            assert await readers.status(f"Bearer {TOKEN}", "/metrics") == OK
            assert await readers.status(f"Bearer {STRANGER}", "/metrics") == NO_RIGHT
            assert await readers.status("Bearer made-up", "/metrics") == NO_LOGIN

    asyncio.run(ask())
