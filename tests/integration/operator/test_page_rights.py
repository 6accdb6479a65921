"""The door of a cluster's page in front of a real API server: its tokens, its roles, its words about who may."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flamestream.ui.door import Caller
from flamestream.ui.source import Refused
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.page.door import ClusterDoor
from support.api_server import OPERATOR, OPERATORS, STRANGER, TOKEN
from support.operator.raw_api import apply
from support.operator.real_cluster import namespace, the_api
from support.operator.shown_cluster import job

pytestmark = pytest.mark.usefixtures("own_api_server")
RBAC = "rbac.authorization.k8s.io"


def grant(where: str, user: str, group: str, resource: str, *verbs: str, **more: Any) -> None:
    """A role of `user` in a namespace."""
    name = f"{user.rpartition(':')[2]}-{uuid.uuid4().hex[:6]}"
    meta = {"name": name, "namespace": where}
    rule = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}
    apply({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": [rule]})
    ref = {"apiGroup": RBAC, "kind": "Role", "name": name}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": user}]
    apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": ref,
            "subjects": subjects,
        }
    )


def played(steps: Callable[[ClusterDoor, str, str], Awaitable[None]]) -> None:
    async def run(one: str, other: str) -> None:
        async with the_api() as api:
            cluster = Cluster()
            for each in (one, other):
                cluster.jobs.put(job(each, "sales"))
            await steps(ClusterDoor(api, cluster, ()), one, other)

    with namespace() as one, namespace() as other:
        asyncio.run(run(one, other))


async def entered(door: ClusterDoor, token: str, **headers: str) -> Caller:
    return await door.enter({"Authorization": f"Bearer {token}", **headers}, {}, changes=False)


async def may(caller: Caller, job_: str, what: Any, *, does: bool = False) -> bool:
    try:
        await caller.check(job_, what, does=does)
    except Refused as refused:
        return refused.status != 403
    return True


async def granted(caller: Callable[[], Awaitable[bool]]) -> None:
    """A right counts a moment after it was written: the server's authorizer watches."""
    async with asyncio.timeout(30):
        while not await caller():
            await asyncio.sleep(0.05)


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flamestream_operator.kube.reviews.KEPT_FOR", 0.0)


def test_a_token_is_the_servers_or_nobodys() -> None:
    async def steps(door: ClusterDoor, one: str, other: str) -> None:
        assert (await entered(door, TOKEN)).name == "tests"
        assert (await entered(door, OPERATORS)).name == OPERATOR
        with pytest.raises(Refused) as refused:
            await entered(door, "made-up")
        assert refused.value.status == 401

    played(steps)


def test_a_role_in_a_namespace_lets_look_there_and_nowhere_else() -> None:
    async def steps(door: ClusterDoor, one: str, other: str) -> None:
        stranger = await entered(door, STRANGER)
        assert not await may(stranger, f"{one}.sales", "job")
        assert not (await stranger.listed())(f"{one}.sales")
        grant(one, "stranger", "flamestream.dev", "flamestreamjobs", "get", "list")
        await granted(lambda: may(stranger, f"{one}.sales", "job"))
        sees = await stranger.listed()
        assert sees(f"{one}.sales") and not sees(f"{other}.sales")
        assert not await may(stranger, f"{other}.sales", "job")
        for what in ("logs", "snapshots", "drill"):
            assert not await may(stranger, f"{one}.sales", what)
        grant(one, "stranger", "", "pods/log", "get")
        await granted(lambda: may(stranger, f"{one}.sales", "logs"))
        grant(one, "stranger", "flamestream.dev", "flamestreamdrills", "create")
        await granted(lambda: may(stranger, f"{one}.sales", "drill", does=True))
        assert not await may(stranger, f"{one}.sales", "drill"), "who may make one may not list them"
        everything = await (await entered(door, TOKEN)).listed()
        assert everything(f"{one}.sales") and everything(f"{other}.sales")

    played(steps)


def test_a_role_for_one_job_by_its_name_is_for_that_one() -> None:
    async def steps(door: ClusterDoor, one: str, other: str) -> None:
        stranger = await entered(door, STRANGER)
        grant(one, "stranger", "flamestream.dev", "flamestreamjobs", "get", resourceNames=["sales"])
        await granted(lambda: may(stranger, f"{one}.sales", "job"))
        assert not await may(stranger, f"{one}.ledger", "job")

    played(steps)


def test_only_who_may_impersonate_speaks_for_others() -> None:
    async def steps(door: ClusterDoor, one: str, other: str) -> None:
        grant(one, "ann", "flamestream.dev", "flamestreamjobs", "get")
        with pytest.raises(Refused) as refused:
            await entered(door, STRANGER, **{"Impersonate-User": "ann"})
        assert refused.value.status == 403
        ann = await entered(door, TOKEN, **{"Impersonate-User": "ann"})
        await granted(lambda: may(ann, f"{one}.sales", "job"))
        assert not await may(ann, f"{other}.sales", "job"), "and not by the rights of who speaks"

    played(steps)
