"""The verdict of a FlameStreamDrill: of which job it is, how it stands in the status, and how an audit is
made and read."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from flamestream.job.drills.status import AuditResult
from flamestream.job.moments import precise
from flamestream_operator.api.drill import DrillSpec, Fault
from flamestream_operator.drills.plan import forbidden
from flamestream_operator.drills.reconciler import DrillReconciler
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.reading_pods import ReadingPods
from flamestream_operator.objects import names
from flamestream_operator.site import Allowed
from support.operator.drill_world import CLEAN, KEY, SITE, World


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
        found = {each.type: (each.status, each.reason) for each in world.over().conditions}
        return {kind: found[kind] for kind in ("Completed", "Failed")}

    assert conditions(World("worker")) == {"Completed": ("True", "Clean"), "Failed": ("False", "Clean")}
    idle = World("worker")
    idle.hosting.flows = False
    assert conditions(idle) == {"Completed": ("True", "Idle"), "Failed": ("True", "Idle")}


def test_the_newest_audit_of_a_job_is_a_figure_until_its_drill_is_removed() -> None:
    def figure() -> float | None:
        operator.observe()
        return REGISTRY.get_sample_value("flamestream_job_audit_clean", {"job": "n.j"})

    world = World("worker")
    operator, drills = world.operator(), world.cluster.drills
    assert figure() is None, "there was no audit yet"
    for made, reason in (("2026-01-02", "NotClean"), ("2026-01-01", "Clean"), ("2026-01-03", "Idle")):
        meta = {
            "namespace": "n",
            "name": reason.lower(),
            "creationTimestamp": f"{made}T00:00:00Z",
            "uid": reason,
        }
        drills.put({"metadata": meta, "spec": {"job": "j"}, "status": {"reason": reason}})
    assert figure() == 0, "a drill without an audit says nothing of it"
    for name, left in (("notclean", 1), ("clean", None)):
        drills.forget(("n", name))
        assert figure() == left


def test_a_job_that_is_deleted_and_made_again_meanwhile_is_another() -> None:
    world = World("worker")
    world.over("started_at")
    world.api.remove(("FlameStreamJob", "n", "j"))
    world._job()
    assert world.over().reason == "JobDeleted"


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
    auditing = {"phase": "Auditing", "done": 1, "jobUid": job["metadata"]["uid"]}
    spec = {"job": "job", "fault": {"target": "worker"}, "definitions": True}
    made = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamDrill",
        "metadata": meta,
        "spec": spec,
    }
    drill = whole.kubernetes.make({**made, "status": {**auditing, "since": precise(whole.now)}})
    operator.cluster.drills.put(drill)
    tools = Tools(
        api=whole.kubernetes, cluster=operator.cluster, hosting=operator.hosting,
        check=lambda: None, again=lambda _: None, clock=lambda: whole.now,
    )  # fmt: skip
    asyncio.run(
        DrillReconciler(
            ReadingPods(operator.jobs, SITE, tools),
            SITE,
            tools,
            whole.kubernetes,  # type: ignore[arg-type]  # an audit strikes no pod
            ("system", "one"),
        ).reconcile(("default", "d"))
    )
    pod, config = (whole.kubernetes.things[(kind, "default", "d-audit")] for kind in ("Pod", "ConfigMap"))
    assert {"name": "config", "configMap": {"name": "d-audit"}} in pod["spec"]["volumes"]
    assert pod["spec"]["containers"][0]["args"][-1] == "--definitions"
    assert set(config["data"]) == {"job.json", "driver-a.json", "executor.json"}
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in (pod, config)} == {
        drill["metadata"]["uid"]
    }


def test_definitions_of_no_audit_are_refused() -> None:
    spec = DrillSpec(job="j", fault=Fault(target="worker"), audit=False, definitions=True)
    assert "the audit judges them" in forbidden(spec, "n", "system", Allowed())


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
