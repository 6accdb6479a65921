"""A job that is asked: its Service leads to the workers that take part, as long as its spec has a port."""

import base64
from dataclasses import replace

import pytest

from flamestream_operator.coordination.hosting import ConnectedWorker
from flamestream_operator.jobs import actions as do
from flamestream_operator.objects.meta import ANSWERS, Object
from support.operator.operator_world import KEY, OneOperator, World
from support.operator.plays import played, started
from support.operator.watched import Watched
from support.operator.watched import played as played_watched

OPEN = {"listen": "0.0.0.0:7070"}
WORKERS = {"replicas": 2, "standby": 1}
QUERIES = (KEY[0], "job-queries")


def taking_part(world: World) -> set[str]:
    """Addresses of the workers that have slots."""
    return set(world.operators[0].hosting.jobs["default.job"].layout)


def led_to(world: World) -> set[str]:
    """Addresses of the pods that the Service leads to."""
    return {
        pod["status"]["podIP"]
        for pod in world.kubernetes.of("Pod")
        if pod["metadata"]["labels"].get(ANSWERS) == "true"
    }


def service(world: World) -> Object | None:
    return world.kubernetes.things.get(("Service", *QUERIES))


def open_ports(world: World) -> list[int]:
    """Ports of the Service, and those that the job's NetworkPolicy opens."""
    policy = world.kubernetes.things["NetworkPolicy", KEY[0], "job-clients"]["spec"]["ingress"]
    opened = [*(service(world) or {"spec": {"ports": []}})["spec"]["ports"]]
    opened += [port for rule in policy for port in rule.get("ports", ())]
    return [port["port"] for port in opened]


def test_clients_are_led_to_workers_that_take_part_and_not_to_a_standby() -> None:
    async def play(world: World) -> None:
        await started(world, queries=OPEN, workers=WORKERS)
        assert len(world.pods("worker")) == 3
        assert led_to(world) == taking_part(world)
        assert len(led_to(world)) == 2

    played(play)


def test_and_to_the_standby_once_it_has_taken_over() -> None:
    async def play(world: World) -> None:
        await started(world, queries=OPEN, workers=WORKERS)
        for _ in range(3):
            before = led_to(world)
            world.kill("worker")
            await world.calm()
            assert led_to(world) == taking_part(world)
            if led_to(world) != before:
                return
        raise AssertionError("no worker with slots was killed")

    played(play)


def test_a_worker_that_takes_part_no_more_is_left_out() -> None:
    async def play(world: World) -> None:
        await started(world, queries=OPEN, workers=WORKERS)
        idle = next(
            pod for pod in world.kubernetes.of("Pod")
            if pod["metadata"]["name"] in world.pods("worker") and pod["status"]["podIP"] not in taking_part(world)
        )  # fmt: skip
        world.kubernetes.merge(
            ("Pod", KEY[0], idle["metadata"]["name"]), {"metadata": {"labels": {ANSWERS: "true"}}}
        )
        await world.calm(5)
        assert led_to(world) == taking_part(world)

    played(play)


@pytest.mark.parametrize("heard", ["of nobody", "of workers, and not yet who takes part"])
def test_a_new_leader_leads_clients_where_they_were_led(heard: str) -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world, queries=OPEN, workers=WORKERS)
        before = led_to(world)
        world.operators = [OneOperator(world, "successor", len(world.kubernetes.log))]
        other = Watched(world)
        hosting = world.operators[0].hosting
        known = hosting.members

        def members(job: str) -> tuple[ConnectedWorker, ...]:
            heard_of = () if heard == "of nobody" else known(job)
            return tuple(replace(each, standby=True) for each in heard_of)

        hosting.members = members  # type: ignore[method-assign]
        await world.calm(3)
        assert other.kinds(do.MarkAnswers) == []
        assert led_to(world) == before

    played_watched(play)


def test_pods_of_a_job_that_nobody_asks_are_not_touched() -> None:
    async def play(world: World) -> None:
        await started(world, workers=WORKERS)
        assert (led_to(world), service(world)) == (set(), None)

    played(play)


def test_its_token_is_drawn_once_and_stays() -> None:
    async def play(world: World) -> None:
        await started(world, queries=OPEN)
        secret = world.kubernetes.things["Secret", *QUERIES]["data"]
        assert len(base64.b64decode(secret["token"])) == 64
        world.apply(suspend=True)
        await world.calm()
        world.apply(suspend=False)
        await world.calm(80)
        assert world.status.run.number == 2
        assert world.kubernetes.things["Secret", *QUERIES]["data"] == secret
        created = [name for kind, name, _ in world.kubernetes.created if kind in ("Secret", "Pod")]
        assert created.index("job-queries") < created.index("job-driver-a-1")

    played(play)


def test_a_token_of_the_user_s_needs_no_secret() -> None:
    async def play(world: World) -> None:
        await started(world, queries={**OPEN, "tokenFile": "/etc/mine/token"})
        assert service(world) is not None
        assert ("Secret", *QUERIES) not in world.kubernetes.things

    played(play)


def test_the_service_goes_with_the_port_and_comes_with_it() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.apply(queries=OPEN)
        await world.calm(80)
        there = service(world)
        assert there is not None and there["spec"]["ports"][0]["port"] == 7070
        world.apply(queries={"listen": "0.0.0.0:7071"})
        await world.calm(80)
        there = service(world)
        assert there is not None and there["spec"]["ports"][0]["port"] == 7071
        world.apply(queries=None)
        await world.calm(80)
        assert service(world) is None
        assert world.status.phase == "Running"

    played(play)


def test_it_is_there_again_where_its_end_was_taken_back_before_other_workers_came() -> None:
    async def play(world: World) -> None:
        await started(world, queries=OPEN)
        world.apply(queries=None)
        for _ in range(40):
            await world.calm(1)
            if len(world.pods("driver")) == 2:
                break
        assert (len(world.pods("driver")), service(world)) == (2, None)
        world.apply(queries=OPEN)
        await world.calm(80)
        assert open_ports(world) == [7070, 7070]
        assert led_to(world) == taking_part(world)

    played(play)


def test_clients_reach_the_code_that_runs_where_other_code_is_given_up_behind_its_launch() -> None:
    async def play(world: World) -> None:
        await started(world, queries=OPEN)
        world.apply(queries={"listen": "0.0.0.0:7071"})
        world.edit_code("print(2)")
        for _ in range(40):
            await world.calm(1)
            if len(world.pods("driver")) == 2:
                break
        assert len(world.pods("driver")) == 2
        world.apply(queries=OPEN)
        world.edit_code("print(1)")
        await world.calm(80)
        assert world.pods("driver") == ["job-driver-a-1"]
        assert open_ports(world) == [7070, 7070]

    played(play)


def test_a_name_that_is_taken_is_told_and_the_service_made_once_it_is_free() -> None:
    async def play(world: World) -> None:
        await started(world, queries=OPEN)
        uid = world.kubernetes.things["Service", *QUERIES]["metadata"].pop("ownerReferences")
        world.operators = [OneOperator(world, "successor", len(world.kubernetes.log))]
        await world.calm()
        told = world.condition("Degraded")
        assert (told.status, told.reason, world.status.phase) == ("True", "NameTaken", "Running"), uid
        world.kubernetes.remove(("Service", *QUERIES))
        await world.calm(80)
        assert service(world) is not None
        assert world.condition("Degraded").status == "False"

    played(play)


def test_a_service_of_somebody_else_s_stays() -> None:
    async def play(world: World) -> None:
        meta = {"namespace": QUERIES[0], "name": QUERIES[1]}
        world.kubernetes.make({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {}})
        await started(world)
        assert service(world) is not None

    played(play)
