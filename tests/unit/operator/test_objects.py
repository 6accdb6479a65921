"""The objects that the operator builds: what must be in each, whatever the user adds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from flamestream.cli.driver_config import DriverConfig
from flamestream.cli.kubectl.beside import as_launched, pod_beside
from flamestream_operator.core.plan import planned
from flamestream_operator.core.seen import Site
from flamestream_operator.objects import names
from flamestream_operator.objects.pods import (
    Launch,
    build_audit_pod,
    build_driver_config,
    build_driver_pod,
    build_executor_template,
    build_trial_pod,
)
from flamestream_operator.objects.rights import build_role
from flamestream_operator.objects.small import build_budget, build_config, build_token

SITE = Site(coordinator="operator:7700", zookeeper="zk:2181", image="flamestream:1")
SPEC: dict[str, Any] = {
    "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
    "sources": {"numbers": {"generator": {"count": 10}}},
    "sinks": {"out": {"files": {"path": "/out"}}},
    "workers": {"replicas": 3, "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi", "cpu": 2}}},
    "checkpoint": {"interval": "1s", "store": "s3://bucket/j", "secret": "keys"},
    "pods": {
        "labels": {"team": "x", "flamestream.dev/role": "stolen"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "c"}}],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
        "env": [{"name": "A", "value": "b"}],
        "imagePullSecrets": ["pull"],
        "priorityClassName": "high",
    },
    "highAvailability": True,
}
JOB = {
    "apiVersion": "flamestream.dev/v1alpha1",
    "kind": "FlameStreamJob",
    "metadata": {"name": "j", "namespace": "n", "uid": "u"},
    "spec": SPEC,
}


def a_launch(**spec: Any) -> Launch:
    plan = planned(JOB, {**SPEC, **spec}, SITE, "digest")
    return Launch(
        job=JOB, spec=plan.spec, application="a", number=3, tasks=2, run=1, image=plan.image, pull_policy="Never",
        coordinator=SITE.coordinator, zookeeper=SITE.zookeeper, app_config_map="j-app-1",
    )  # fmt: skip


def all_pods(launch: Launch) -> list[dict[str, Any]]:
    drill = {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamDrill", "metadata": {"name": "d", "uid": "v"}}
    audit = build_audit_pod(launch, drill, "d-audit")
    return [build_driver_pod(launch), build_executor_template(launch), build_trial_pod(launch), audit]


@pytest.mark.parametrize("number", range(4), ids=["driver", "executor", "trial", "audit"])
def test_every_pod_is_restricted_whatever_the_user_adds(number: int) -> None:
    pod = all_pods(a_launch())[number]
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert spec["automountServiceAccountToken"] is (number == 0)
    assert {"name": "A", "value": "b"} in container["env"]
    assert spec["priorityClassName"] == "high"
    assert {"key": "spot", "operator": "Exists"} in spec["tolerations"]


def test_the_users_labels_never_replace_ours() -> None:
    labels = build_driver_pod(a_launch())["metadata"]["labels"]
    assert labels["team"] == "x"
    assert labels["flamestream.dev/role"] == "driver"


def secrets_in(pod: dict[str, Any]) -> list[str]:
    """Keys of the run's Secret that it may read."""
    mounted = [volume["secret"]["items"] for volume in pod["spec"]["volumes"] if volume["name"] == "secret"]
    return [item["key"] for items in mounted for item in items]


def test_only_the_driver_sees_the_token() -> None:
    seen = {pod["metadata"]["labels"]["flamestream.dev/role"]: secrets_in(pod) for pod in all_pods(a_launch())}
    assert seen == {"driver": ["token", "spark"], "worker": ["spark"], "audit": []}
    assert set(build_token(JOB, 1, "")["stringData"]) == {"token", "spark"}


def test_the_drivers_configuration_is_what_the_driver_reads() -> None:
    config = convert(json.loads(json.dumps(build_driver_config(a_launch()))), DriverConfig)
    assert (config.job, config.tasks, config.pod_name_prefix) == ("n.j", 2, "j-a-3")
    assert (config.executor_memory, config.executor_memory_overhead) == ("512m", "1536m")
    assert (config.request_cores, config.limit_cores) == ("500m", "2")


def test_a_config_map_fits_what_the_driver_mounts() -> None:
    made = build_config(JOB, "j-driver-a-3", {"driver-a.json": build_driver_config(a_launch())})
    assert made["immutable"] is True
    assert json.loads(made["data"]["driver-a.json"])["tasks"] == 2
    assert {"name": "config", "configMap": {"name": "j-driver-a-3"}} in build_driver_pod(a_launch())["spec"]["volumes"]


def test_two_applications_keep_together_and_apart() -> None:
    affinity = build_driver_pod(a_launch())["spec"]["affinity"]
    assert set(affinity) == {"podAffinity", "podAntiAffinity"}
    far = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]["labelSelector"]
    assert far["matchExpressions"] == [{"key": "flamestream.dev/application", "operator": "NotIn", "values": ["a"]}]


def test_a_driver_may_touch_pods_and_nothing_that_holds_secrets() -> None:
    resources = {resource for rule in build_role(JOB)["rules"] for resource in rule["resources"]}
    assert resources == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    for rule in build_role(JOB)["rules"]:
        if "pods" not in rule["resources"]:
            assert rule["verbs"] == ["deletecollection"]


def test_planned_stops_take_one_worker_at_a_time() -> None:
    assert build_budget(JOB, 3)["spec"]["minAvailable"] == 2
    assert build_budget(JOB, 1)["spec"]["minAvailable"] == 0


NAMES = [
    lambda job: names.driver_pod(job, "a", 1),
    lambda job: names.driver_pod(job, "a", 12),
    lambda job: names.driver_pod(job, "b", 1),
    lambda job: names.executor_prefix(job, "a", 1),
    names.service_account,
    names.service,
    lambda job: names.token(job, 1),
    lambda job: names.application_copy(job, "0123456789abcdef"),
    names.budget,
    lambda job: names.trial(job, 1),
    lambda job: names.scheduled(job, 1_700_000_000),
]
LABELS = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


@given(LABELS)
def test_names_fit_and_are_labels_and_differ(job: str) -> None:
    made = [make(job) for make in NAMES]
    assert len(set(made)) == len(made)
    for name in made:
        assert len(name) <= 63
        assert name.replace("-", "").isalnum() and not name.endswith("-")
    assert len(names.executor_prefix(job, "a", 123456)) <= 47


@given(LABELS, LABELS)
def test_names_of_two_jobs_differ(one: str, other: str) -> None:
    if one != other:
        for make in NAMES:
            assert make(one) != make(other)


def test_what_is_left_out_has_no_part_in_a_fingerprint() -> None:
    """So a field that a new version brings neither restarts a job nor replaces its pods."""
    said, silent = (planned(JOB, {**SPEC, **more}, SITE, "digest") for more in ({"image": None, "upgrade": None, "onError": "fail"}, {}))
    assert (said.code, said.revision) == (silent.code, silent.revision)
    empty = planned(
        JOB, {**SPEC, "pods": {**SPEC["pods"], "annotations": {}}, "application": {**SPEC["application"], "pyFiles": []}}, SITE, "digest"
    )
    assert (empty.code, empty.revision) == (silent.code, silent.revision)
    other = planned(JOB, {**SPEC, "pods": {**SPEC["pods"], "annotations": {"a": ""}}}, SITE, "digest")
    assert other.revision != silent.revision


def test_pods_ask_a_name_service_that_does_not_answer_again_after_a_second() -> None:
    """One of its replicas may be on the node that was just lost; by default each question that meets it costs five seconds."""
    for pod in (build_driver_pod(a_launch()), build_executor_template(a_launch())):
        options = {option["name"]: option["value"] for option in pod["spec"]["dnsConfig"]["options"]}
        assert options == {"timeout": "1", "attempts": "4"}


def test_a_job_without_a_driver_is_looked_at_with_what_its_last_one_was_launched_with() -> None:
    """As beside a driver that runs: the same image, application, volumes and keys, and no token."""
    launch = a_launch()
    files = {"driver-a.json": build_driver_config(launch), "executor.json": build_executor_template(launch)}
    driver, launched = build_driver_pod(launch), as_launched(build_config(JOB, launch.pod, files))
    running, standing = (pod_beside(each, JOB, ["audit"])["spec"] for each in (driver, launched))
    (one,), (other,) = running["containers"], standing["containers"]
    assert {**one, "env": [], "volumeMounts": []} == {**other, "env": [], "volumeMounts": []}
    assert sorted(mount["name"] for mount in one["volumeMounts"]) == sorted(mount["name"] for mount in other["volumeMounts"])
    assert {each["name"]: each for each in running["volumes"]} == {each["name"]: each for each in standing["volumes"]}
    assert standing["automountServiceAccountToken"] is False
