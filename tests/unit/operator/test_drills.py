"""FlameStreamDrills over a fake API server: what is struck, what counts as seen, and what is refused with its
reason."""

import asyncio
import dataclasses
import json
from typing import Any

import msgspec
import pytest

from flamestream.job.drill_status import OVER, AuditResult
from flamestream.job.moments import precise
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.api.drill import ACTIONS, ELSEWHERE, REFUSALS, DrillSpec, DrillStatus, Fault
from flamestream_operator.crd import definitions
from flamestream_operator.drills.plan import cannot_audit
from flamestream_operator.drills.reconciler import DrillReconciler
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object, pod_labels
from flamestream_operator.site import Allowed, Site
from support.operator.fake_kubernetes import FakeKubernetes
from support.operator.whole_job import Coordinators

KEY = ("n", "d")
SITE = Site(
    coordinator="operator:7700", zookeeper=ZooKeeperAccess("zk:2181", "operator:secret"), image="flamestream:1", pull_policy="Never",
    allowed=Allowed(drill_namespaces=("system",)),
)  # fmt: skip
CLEAN = {
    "clean": True,
    "records": 5,
    "delivered": 5,
    "lost": 0,
    "doubled": 0,
    "reordered": 0,
    "foreign": 0,
    "firstDifference": "",
    "complete": True,
}
SELECTED = {"targetSelector": {"app": "zk"}, "targetNamespace": "system"}


class Pods:
    """The fake API server, with commands in pods, containers beside them, and logs."""

    def __init__(self) -> None:
        self.fake = FakeKubernetes()
        self.commands: list[tuple[str, list[str]]] = []
        self.graces: list[tuple[str, int | None]] = []
        self.answer = ""
        """Of a command; "": what a strike that worked says."""
        self.cutter: Object = {"running": {"startedAt": "now"}}
        self.said = "cut eth0"
        self.problem: ApiProblem | None = None
        """Of the next strike."""
        self.heeds_deletions = True
        self.comes_back = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fake, name)

    def _strike(self) -> None:
        if self.problem is not None:
            raise self.problem

    async def execute(self, namespace: str, pod: str, container: str, command: list[str]) -> str:
        self._strike()
        self.commands.append((pod, command[3:]))
        return self.answer or json.dumps({"pids": [7], "seen": "paused" if "pause" in command else "gone"})

    async def attach(self, namespace: str, pod: str, container: Object) -> None:
        self._strike()
        self.commands.append((pod, [container["image"], *container["command"][2:]]))
        status = {"ephemeralContainerStatuses": [{"name": container["name"], "state": self.cutter}]}
        self.merge(("Pod", namespace, pod), {"status": status})

    async def log(self, namespace: str, pod: str, container: str | None = None) -> str:
        return self.said

    async def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> None:
        self._strike()
        self.graces.append((name, grace))
        if self.heeds_deletions:
            gone = self.things[(kind, namespace, name)]
            await self.fake.delete(kind, namespace, name, grace=grace)
            if self.comes_back:  # as a StatefulSet's: another life of the same name
                self.make({**gone, "metadata": {**gone["metadata"], "resourceVersion": ""}})


class World:
    """A job of two applications on two nodes, an operator, a ZooKeeper, and one drill."""

    def __init__(self, target: str, action: str = "kill", site: Site = SITE, **spec: Any) -> None:
        self.api: Any = Pods()
        self.site = site
        self.hosting, self.now = Coordinators(), 1_800_000_000.0
        self.audit: dict[str, Any] | None = dict(CLEAN)
        self.cluster = Cluster()
        self._job()
        for number, application in enumerate("ab", start=1):
            self._pod(f"driver-{application}", "driver", application, f"10.0.1.{number}", f"node{number}")
            self._pod(f"exec-{application}", "worker", application, f"10.0.0.{number}", f"node{number}")
        self._pod("operator-1", "operator", "", "10.0.2.1", "node1", namespace="system")
        self._pod("zk-0", "zookeeper", "", "10.0.2.2", "node1", namespace="system")
        fault = {
            "target": target,
            "action": action,
            **(SELECTED if target in ELSEWHERE else {}),
            **spec.pop("fault", {}),
        }
        whole = {"job": "j", "fault": fault, "after": "200ms", "timeout": "60s", **spec}
        meta = {"name": "d", "namespace": "n", "creationTimestamp": "2027-01-15T08:00:00Z"}
        self.drill = self.api.make(
            {
                "apiVersion": "flamestream.dev/v1alpha1",
                "kind": "FlameStreamDrill",
                "metadata": meta,
                "spec": whole,
            }
        )
        self.leader = ("system", "operator-1")

    def _job(self) -> None:
        spec = {
            "workers": {"replicas": 2},
            "sinks": {"out": {"files": {"path": "/out"}}},
            "guarantee": "exactly-once",
        }
        thing = {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamJob",
            "metadata": {"name": "j", "namespace": "n"},
            "spec": spec,
        }
        self.api.make({**thing, "status": {"phase": "Running", "attempt": 1}})

    def _pod(self, name: str, role: str, application: str, ip: str, node: str, namespace: str = "n") -> None:
        meta = {"name": name, "namespace": namespace, "labels": pod_labels("j", application, 1, role)}
        spec = {
            "nodeName": node,
            "containers": [{"name": "executor" if role == "worker" else role, "image": "app:1"}],
        }
        status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.make({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status})

    def operator(self) -> DrillReconciler:
        tools = Tools(
            api=self.api, cluster=self.cluster, hosting=self.hosting, check=lambda: None, again=lambda _: None, clock=lambda: self.now,  # type: ignore[arg-type]  # what a drill asks of them
        )  # fmt: skip
        return DrillReconciler(None, self.site, tools, self.api, self.leader)  # type: ignore[arg-type]  # its audits' pods are made here

    def status(self) -> DrillStatus:
        return msgspec.convert(self.api.things[("FlameStreamDrill", *KEY)].get("status") or {}, DrillStatus)

    def look(self, operator: DrillReconciler) -> None:
        """One look by that operator, of the cluster as it is."""
        self.cluster.jobs.replace_all(list(self.api.of("FlameStreamJob")), None)
        self.cluster.drills.replace_all(list(self.api.of("FlameStreamDrill")), None)
        self.cluster.replace_pods(
            [pod for pod in self.api.of("Pod") if pod["metadata"]["namespace"] == "n"], None
        )
        before = self.status()
        pause = asyncio.run(operator.reconcile(KEY))
        after = self.status()
        if after.struck_at and not before.struck_at:
            self.hosting.attempt += 1
        if (
            after.phase == "Auditing"
            and self.audit is not None
            and ("Pod", "n", names.audit("d")) not in self.api.things
        ):
            ended = [{"state": {"terminated": {"exitCode": 0, "message": json.dumps(self.audit)}}}]
            meta = {"name": names.audit("d"), "namespace": "n", "labels": {}}
            status = {"phase": "Succeeded", "containerStatuses": ended}
            self.api.make({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}, "status": status})
        self.now += pause or 0.5

    def over(self, until: str = "", most: int = 3000) -> DrillStatus:
        """Go on to its end, or until there is something in this field of its status."""
        operator = self.operator()
        for _ in range(most):
            status = self.status()
            if status.phase in OVER or (until and getattr(status, until)):
                return status
            self.look(operator)
        raise AssertionError(f"never over: {self.status()}")


# --- what is offered works ----------------------------------------------------------------------------------

OFFERED = [(target, action) for target, actions in ACTIONS.items() for action in actions]


@pytest.mark.parametrize(("target", "action"), OFFERED, ids=lambda word: word)
def test_every_fault_that_is_offered_is_made_seen_and_audited(target: str, action: str) -> None:
    world = World(target, action, fault={"pauseFor": "6s"})
    if target == "operator":  # it goes with its pod; the other one finds the drill
        world.over("struck_at")
        world.leader = ("system", "operator-2")
    status = world.over()
    assert (status.phase, status.reason, status.done) == ("Passed", "Clean", 1), status.message
    assert (
        status.faults[0].seen == {"kill": "gone", "delete": "gone", "pause": "paused", "cut": "cut"}[action]
    )
    processes = action in ("pause", "cut") or target in ("worker", "daemon")
    assert bool(world.api.commands) == processes and bool(world.api.graces) != processes
    assert {grace for _, grace in world.api.graces} <= {0 if action == "kill" else None}


def test_the_process_in_the_pod_is_told_what_to_do() -> None:
    told = {}
    for target, action in [
        ("worker", "kill"),
        ("daemon", "kill"),
        ("worker", "pause"),
        ("executor", "pause"),
        ("zookeeper", "pause"),
    ]:
        world = World(target, action, fault={"pauseFor": "6s"})
        world.over()
        told[target, action] = world.api.commands[0][1]
    assert told == {
        ("worker", "kill"): ["worker", "kill"],
        ("daemon", "kill"): ["daemon", "kill"],
        ("worker", "pause"): ["worker", "pause", "6.0"],
        ("executor", "pause"): ["pod", "pause", "6.0"],
        ("zookeeper", "pause"): ["pod", "pause", "6.0"],
    }


@pytest.mark.parametrize("target", ["node", "application"])
@pytest.mark.parametrize("action", ["kill", "pause", "cut"])
def test_a_node_and_an_application_are_all_its_pods(target: str, action: str) -> None:
    world = World(target, action)
    world.over("faults")
    victim = world.status().faults[0].victim
    letter = {"node1": "a", "node2": "b"}.get(victim, victim)
    struck = {name for name, _ in (*world.api.commands, *world.api.graces)}
    assert struck == {f"driver-{letter}", f"exec-{letter}"}


def test_a_cut_is_made_by_the_operators_image_whatever_the_pods_is() -> None:
    """It has NET_ADMIN, which the pod has not: a job's author chooses the job's image."""
    images = []
    for target in ("store", "network"):
        world = World(target, "cut")
        world.over()
        images.append(world.api.commands[0][1][0])
    assert images == ["flamestream:1", "flamestream:1"]


# --- what is not allowed is not done ------------------------------------------------------------------------

STRICT = dataclasses.replace(SITE, allowed=Allowed())
TOO_MUCH: dict[str, tuple[str, str, dict[str, Any], Site, str]] = {
    "the operator": ("operator", "kill", {}, STRICT, "'system' in the chart's allow.drillNamespaces"),
    "another namespace": ("zookeeper", "kill", {}, STRICT, "'system' in the chart's allow.drillNamespaces"),
    "another namespace's network": (
        "store",
        "cut",
        {},
        STRICT,
        "'system' in the chart's allow.drillNamespaces",
    ),
    "another namespace than those allowed": (
        "pod",
        "kill",
        {"targetNamespace": "other"},
        SITE,
        "'other' in the chart's",
    ),
    "whatever there is": (
        "pod",
        "kill",
        {"targetSelector": {}, "targetNamespace": "n"},
        STRICT,
        "targetSelector, which is empty",
    ),
    "whatever there is, where it may": (
        "pod",
        "kill",
        {"targetSelector": {}},
        SITE,
        "targetSelector, which is empty",
    ),
    "an hour of silence": ("network", "cut", {"pauseFor": "1h"}, SITE, "at most 600 s"),
}


@pytest.mark.parametrize(("target", "action", "fault", "site", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_drill_that_reaches_too_far_is_refused_whatever_rights_the_operator_has(
    target: str, action: str, fault: dict[str, Any], site: Site, words: str
) -> None:
    world = World(target, action, fault=fault, site=site)
    status = world.over()
    assert (status.phase, status.reason) == ("Inconclusive", "Refused"), status.message
    assert words in status.message
    assert (world.api.commands, world.api.graces) == ([], [])


def test_in_its_own_namespace_a_drill_needs_nobodys_leave() -> None:
    world = World("pod", fault={"targetNamespace": None}, site=STRICT)
    world.api.list_all = _only(world.api, "exec-a")
    assert world.over().phase == "Passed"


def test_a_strike_that_was_announced_when_more_was_allowed_is_not_made() -> None:
    world = World("zookeeper")
    world.over("started_at")
    world.over("next_at")
    operator, narrower = world.operator(), dataclasses.replace(SITE, allowed=Allowed())
    spec = msgspec.convert({"job": "j", "fault": {"target": "zookeeper", **SELECTED}}, DrillSpec)
    operator._strikes._site = narrower
    blow = asyncio.run(
        operator._strikes.strike(
            "n", spec, DrillStatus(victim="zk-0", lives=["uid-9"], struck_at="2026-01-01T00:00:00Z")
        )
    )
    assert "allow.drillNamespaces" in blow.refused
    assert world.api.graces == []


def test_one_drill_of_a_job_at_a_time() -> None:
    """Two would each take the other's fault for its own."""
    world = World("worker")
    second = {
        **world.drill,
        "metadata": {
            **world.drill["metadata"],
            "name": "a-second",
            "creationTimestamp": "2027-01-15T08:00:01Z",
        },
    }
    world.api.make({key: value for key, value in second.items() if key != "status"})
    world.cluster.drills.replace_all(list(world.api.of("FlameStreamDrill")), None)
    operator = world.operator()

    def told() -> DrillStatus:
        return msgspec.convert(
            world.api.things[("FlameStreamDrill", "n", "a-second")].get("status") or {}, DrillStatus
        )

    assert asyncio.run(operator.reconcile(("n", "a-second"))) == 5.0
    assert (told().phase, told().message) == ("Pending", "waits for drill 'd': one drill of a job at a time")
    assert world.over().phase == "Passed"
    world.cluster.drills.replace_all(list(world.api.of("FlameStreamDrill")), None)
    asyncio.run(operator.reconcile(("n", "a-second")))
    assert (told().phase, told().message) == ("Running", "")


# --- what did not take place does not count -----------------------------------------------------------------


def damaged(target: str, action: str = "kill", **wrong: Any) -> DrillStatus:
    """A drill in a cluster where something is wrong with the strike."""
    world = World(target, action, fault={"pauseFor": "6s"})
    for name, value in wrong.items():
        setattr(world.api, name, value)
    return world.over()


FORBIDDEN = ApiProblem(403, "Forbidden", "pods is forbidden")
LOST = ApiProblem(0, "ReadTimeout", "no answer")
NOT_STRUCK: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "an api server that refuses": ("executor", "kill", {"problem": FORBIDDEN}, "Refused", "forbidden"),
    "a cut that is refused says which right": ("network", "cut", {"problem": FORBIDDEN}, "Refused", "operator.drills"),
    "an exec that is refused": ("worker", "kill", {"problem": FORBIDDEN}, "Refused", "forbidden"),
    "an answer that was lost": ("worker", "kill", {"problem": LOST}, "NotStruck", "nobody saw"),
    "a pod that stays": ("executor", "kill", {"heeds_deletions": False}, "NotStruck", "nobody saw"),
    "a pod elsewhere that stays": ("zookeeper", "kill", {"heeds_deletions": False}, "NotStruck", "nobody saw"),
    "a deletion that nobody heeds": ("driver", "delete", {"heeds_deletions": False}, "NotStruck", "nobody saw"),
    "no such process": ("worker", "kill", {"answer": '{"problem": "there is no worker"}'}, "Refused", "there is no worker"),
    "a signal without effect": ("worker", "pause", {"answer": '{"problem": "nothing was seen"}'}, "Refused", "nothing was seen"),
    "an image without python": ("zookeeper", "pause", {"answer": "sh: python3: not found"}, "Refused", "not found"),
    "a kernel that refuses a cut": (
        "network", "cut", {"cutter": {"terminated": {"exitCode": 1, "message": "Operation not permitted"}}}, "Refused", "not permitted",
    ),
    "a cutter that cannot start": (
        "store", "cut", {"cutter": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}, "Refused", "no such image",
    ),
    "a cutter that has said nothing": ("network", "cut", {"said": "starting"}, "NotStruck", "nobody saw"),
    "a cutter that was removed before": (
        "network", "cut", {"cutter": {"terminated": {"exitCode": 137}}, "said": ""}, "NotStruck", "nobody saw",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "action", "wrong", "reason", "words"), NOT_STRUCK.values(), ids=NOT_STRUCK
)
def test_a_fault_that_did_not_take_place_proves_nothing(
    target: str, action: str, wrong: dict[str, Any], reason: str, words: str
) -> None:  # fmt: skip
    status = damaged(target, action, **wrong)
    assert (status.phase, status.reason, status.done) == ("Inconclusive", reason, 0), status.message
    assert words in status.message


def test_a_cut_whose_pod_was_removed_after_the_kernel_had_cut_took_place() -> None:
    assert damaged("network", "cut", cutter={"terminated": {"exitCode": 137}}).phase == "Passed"


def test_a_pod_that_nobody_replaces_is_a_job_that_is_not_whole() -> None:
    status = damaged("zookeeper", comes_back=False)
    assert (status.phase, status.reason) == ("Failed", "NotWhole")


def test_another_pod_of_the_selector_does_not_stand_for_the_one_that_was_struck() -> None:
    world = World("zookeeper")
    world._pod("zk-1", "zookeeper", "", "10.0.2.3", "node2", namespace="system")
    world.api.heeds_deletions = False
    world.api.list_all = _only(world.api, "zk-0", "zk-1")  # labels are not this fake's
    assert world.over().reason == "NotStruck"


def _only(api: Pods, *names_: str) -> Any:
    async def list_all(
        kind: str, namespace: str | None, labels: dict[str, str] | None = None
    ) -> list[Object]:
        return [thing for thing in api.of(kind) if thing["metadata"]["name"] in names_]

    return list_all


def test_a_drill_of_the_operator_is_not_over_while_it_leads() -> None:
    assert damaged("operator").reason == "NotWhole"


# --- the object ---------------------------------------------------------------------------------------------


def test_a_status_that_cannot_be_read_is_not_a_drill_that_has_not_begun() -> None:
    world = World("worker")
    world.api.merge(("FlameStreamDrill", *KEY), {"status": {"phase": "Error", "done": 2}})
    for _ in range(50):
        world.cluster.drills.replace_all(list(world.api.of("FlameStreamDrill")), None)
        assert asyncio.run(world.operator().reconcile(KEY)) is None
    assert world.api.commands == []


def test_a_drill_that_is_over_asks_for_nothing_more() -> None:
    world = World("worker")
    world.over()
    requests, operator = world.api.requests, world.operator()
    world.look(operator)
    assert world.api.requests == requests


def test_conditions_have_the_verdicts_reason() -> None:
    def conditions(world: World) -> dict[str, tuple[str, str]]:
        status = world.over()
        return {each.type: (each.status, each.reason) for each in status.conditions}

    assert conditions(World("worker")) == {"Completed": ("True", "Clean"), "Failed": ("False", "Clean")}
    idle = World("worker")
    idle.hosting.flows = False
    assert conditions(idle) == {"Completed": ("True", "Idle"), "Failed": ("True", "Idle")}


def test_a_job_that_is_deleted_and_made_again_meanwhile_is_another() -> None:
    world = World("worker")
    world.over("started_at")
    world.api.remove(("FlameStreamJob", "n", "j"))
    world._job()
    assert world.over().reason == "JobDeleted"


def test_a_drill_that_waited_for_somebody_too_long_strikes_nobody() -> None:
    world = World("worker")
    world.now += 3600
    assert (world.over().reason, world.api.commands) == ("Expired", [])


@pytest.mark.parametrize(
    ("audit", "phase", "reason"),
    [
        ({**CLEAN, "clean": False, "lost": 1, "firstDifference": "4 is missing"}, "Failed", "NotClean"),
        ({"error": "a socket sink", "category": "user"}, "Inconclusive", "NotAudited"),
        ({"clean": "maybe"}, "Inconclusive", "NotAudited"),
        ({**CLEAN, "records": 0, "delivered": 0}, "Inconclusive", "NotAudited"),
        (None, "Inconclusive", "AuditTimedOut"),
    ],
)
def test_only_a_clean_audit_of_something_passes(
    audit: dict[str, Any] | None, phase: str, reason: str
) -> None:
    world = World("worker")
    world.audit = audit
    if audit is None:
        world.over("struck_at")
        world.api.make(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": names.audit("d"), "namespace": "n", "labels": {}},
                "spec": {},
            }
        )
    status = world.over()
    assert (status.phase, status.reason) == (phase, reason), status.message


@pytest.mark.parametrize("kind", ["socket", "http", "callback", "discard", "connector"])
def test_output_that_cannot_be_read_back_is_known_before_anything_is_broken(kind: str) -> None:
    assert kind in cannot_audit({"sinks": {"out": {kind: {}}}})
    world = World("worker")
    world.api.merge(("FlameStreamJob", "n", "j"), {"spec": {"sinks": {"out": {"files": None, kind: {}}}}})
    assert (world.over().reason, world.api.commands) == ("NotAudited", [])


def test_the_definition_refuses_what_is_not_offered_and_says_what_to_choose() -> None:
    (version,) = definitions.drill()["spec"]["versions"]
    fault = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["fault"]
    rules = {rule["rule"]: rule["message"] for rule in fault["x-kubernetes-validations"]}
    everything = set(fault["properties"]["action"]["enum"])
    for target in fault["properties"]["target"]["enum"]:
        offered = set(ACTIONS[target])
        assert (target in REFUSALS) == (offered != everything), target
        if target in REFUSALS:
            assert rules[f"self.target != '{target}' || self.action in {sorted(offered)}"] == REFUSALS[target]


def test_a_plan_takes_what_the_spec_says() -> None:
    from flamestream.job.manifest_parts import Seconds
    from flamestream_operator.drills.plan import plan_of

    spec = DrillSpec(
        job="j",
        fault=Fault(target="node", action="cut", pause_for=Seconds(7)),
        times=4,
        after=Seconds(1),
        seed=5,
        audit=False,
    )
    plan = plan_of(spec, "none")
    assert (plan.job, plan.target, plan.times, plan.hits, plan.lasting, plan.after) == (
        "j",
        "node",
        4,
        True,
        7.0,
        1.0,
    )
    assert (plan.seed, plan.timeout, plan.audit, plan.saves) == (5, 300.0, False, False)
    assert plan_of(DrillSpec(job="j", fault=Fault(target="store", action="delete"))).lasting == 0.0
    assert not plan_of(DrillSpec(job="j", fault=Fault(target="operator"))).hits


def test_an_audit_has_a_pod_and_a_configuration_of_its_own_also_when_the_job_has_no_driver_any_more() -> None:
    """By the reconciler of jobs that it has in an operator, over a job that has completed."""
    from support.operator.operator_world import World as Whole

    whole = Whole()

    async def play() -> None:
        whole.apply()
        await whole.calm(12)
        whole.fleet.records["default.job"].completed = True
        await whole.calm(6)

    asyncio.run(play())
    operator = whole.operators[0]
    job = operator.cluster.jobs.get(("default", "job"))
    assert job is not None
    status = job["status"]
    assert (status["phase"], status.get("drivers", [])) == ("Completed", [])
    meta = {"name": "d", "namespace": "default", "creationTimestamp": "1970-01-12T13:46:40Z"}
    auditing = {
        "phase": "Auditing",
        "done": 1,
        "jobUid": job["metadata"]["uid"],
    }
    spec = {"job": "job", "fault": {"target": "worker"}}
    made = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamDrill",
        "metadata": meta,
        "spec": spec,
    }
    drill = whole.kubernetes.make({**made, "status": {**auditing, "since": precise(whole.now)}})
    operator.cluster.drills.put(drill)
    tools = Tools(
        api=whole.kubernetes, cluster=operator.cluster, hosting=operator.hosting, check=lambda: None, again=lambda _: None,
        clock=lambda: whole.now,
    )  # fmt: skip
    asyncio.run(
        DrillReconciler(
            operator.jobs,
            SITE,
            tools,
            whole.kubernetes,  # type: ignore[arg-type]  # an audit strikes no pod
            ("system", "one"),
        ).reconcile(("default", "d"))
    )
    pod, config = (whole.kubernetes.things[(kind, "default", "d-audit")] for kind in ("Pod", "ConfigMap"))
    assert {"name": "config", "configMap": {"name": "d-audit"}} in pod["spec"]["volumes"]
    assert set(config["data"]) == {"job.json", "driver-a.json", "executor.json"}
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in (pod, config)} == {
        drill["metadata"]["uid"]
    }


@pytest.mark.parametrize("letter", ["a", "\u00e4", "\U0001f600", '"'])
def test_a_long_verdict_is_cut_in_its_words_and_can_still_be_read(letter: str) -> None:
    """Kubernetes cuts a termination message, and half a document is none."""
    from flamestream_operator.tools.audit_main import message

    words = {"firstDifference": letter * 1000, "bounds": letter * 500, "input": letter * 500}
    text = message({**CLEAN, "clean": False, "lost": 3, **words})
    assert len(text.encode()) <= 4096
    found = msgspec.convert(json.loads(text), AuditResult)
    assert (found.clean, found.lost, found.first_difference[:50]) == (False, 3, letter * 50)
    assert len(message({"error": letter * 4000, "category": "user"}).encode()) <= 4096
