"""The objects that the operator builds: what must be in each, whatever the user adds."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from flamestream.cli.kubectl.beside import as_launched, pod_beside
from flamestream.model.errors import ManifestError
from flamestream.spark.streaming.driver_config import ZOOKEEPER, DriverConfig, read_zookeeper
from flamestream.spark.streaming.kubernetes import KubernetesSettings, kubernetes_conf
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.jobs.spec import confined, planned, read
from flamestream_operator.objects import names
from flamestream_operator.objects.logins import login_of
from flamestream_operator.objects.meta import identity
from flamestream_operator.objects.network import build_network_policy
from flamestream_operator.objects.pods import (
    Launch,
    build_driver_config,
    build_driver_pod,
    build_executor_template,
    build_preflight_pod,
    build_reading_pod,
    build_trial_pod,
)
from flamestream_operator.objects.rights import build_role
from flamestream_operator.objects.small import build_budget, build_config, build_token, build_zookeeper
from flamestream_operator.site import Allowed, Site

SITE = Site(
    coordinator="operator:7700",
    zookeeper=ZooKeeperAccess("zk:2181", "operator:secret"),
    image="flamestream:1",
    allowed=Allowed(priority_classes=("high",)),
)
SPEC: dict[str, Any] = {
    "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
    "sources": {"numbers": {"generator": {"count": 10}}},
    "sinks": {"out": {"files": {"path": "/out"}}},
    "workers": {
        "replicas": 3,
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi", "cpu": 2}},
    },
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
        job=JOB, spec=plan.spec, application="a", number=3, tasks=2, run=1, image=plan.image,
        pull_policy="Never", coordinator=SITE.coordinator, app_config_map="j-app-1",
    )  # fmt: skip


def all_pods(launch: Launch) -> list[dict[str, Any]]:
    drill = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamDrill",
        "metadata": {"name": "d", "uid": "v"},
    }
    audit = build_reading_pod(launch, drill, "d-audit", "audit", copies=["j-app-0123456789ab"])
    trace = build_reading_pod(launch, JOB, "j-trace-1", "trace", ["--", "text"], seconds=60)
    return [build_driver_pod(launch), build_executor_template(launch), build_trial_pod(launch), audit, trace]


@pytest.mark.parametrize("number", range(5), ids=["driver", "executor", "trial", "audit", "trace"])
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
    seen = {
        pod["metadata"]["labels"]["flamestream.dev/role"]: secrets_in(pod) for pod in all_pods(a_launch())
    }
    assert seen == {"driver": ["token", "spark"], "worker": ["spark"], "audit": [], "trace": []}
    assert set(build_token(JOB, 1, "")["stringData"]) == {"token", "spark"}


def test_workers_see_no_login_and_pods_beside_the_job_see_that_alone() -> None:
    """A worker gets it inside its task, as it gets the token; of the run's secrets its pod has Spark's."""
    pods = [*all_pods(a_launch()), build_preflight_pod(a_launch(), "p")]
    seen = {
        pod["metadata"]["labels"]["flamestream.dev/role"]: {
            volume["name"] for volume in pod["spec"]["volumes"]
        }
        for pod in pods
    }
    private = {role: volumes & {"secret", "zookeeper"} for role, volumes in seen.items()}
    assert private == {
        "driver": {"secret", "zookeeper"}, "worker": {"secret"}, "audit": {"zookeeper"},
        "trace": {"zookeeper"}, "preflight": {"zookeeper"},
    }  # fmt: skip
    mounts = build_driver_pod(a_launch())["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "zookeeper", "mountPath": str(ZOOKEEPER), "readOnly": True} in mounts


def test_no_login_is_another_s_or_shows_where_things_are_printed() -> None:
    logins = {
        login_of(job, operators) for job in ("n.j", "n.k") for operators in ("operator:one", "operator:two")
    }
    assert len(logins) == 4 and all("one" not in login and "two" not in login for login in logins)
    assert SITE.zookeeper.login not in repr(SITE)


def test_what_a_driver_reads_is_the_operators_access_with_the_jobs_own_login(tmp_path: Path) -> None:
    access = replace(SITE.zookeeper, authority="an authority")
    for name, value in build_zookeeper(JOB, access)["data"].items():
        (tmp_path / name).write_bytes(base64.b64decode(value))
    assert read_zookeeper(tmp_path) == replace(access, login=login_of(identity(JOB), access.login))
    (tmp_path / "authority").unlink()
    with pytest.raises(ManifestError, match="authority: cannot read the way to ZooKeeper"):
        read_zookeeper(tmp_path)


@pytest.mark.parametrize(
    "changed", [{"login": "operator:another"}, {"authority": "another"}, {"hosts": "other:2181"}], ids=str
)
def test_another_way_to_zookeeper_replaces_the_pods_of_jobs_whose_journal_is_there_and_no_others(
    changed: dict[str, str],
) -> None:
    def revision(site: Site, **spec: Any) -> str:
        return planned(JOB, {**SPEC, **spec}, site, "digest").revision

    other = replace(SITE, zookeeper=replace(SITE.zookeeper, **changed))
    sources = {"lines": {"socket": {"address": "x:1"}}}
    in_zookeeper = {"sources": sources, "journal": {"folder": "zookeeper://"}}
    assert revision(SITE, **in_zookeeper) != revision(other, **in_zookeeper)
    assert revision(SITE) == revision(other)


@pytest.mark.parametrize(
    ("spec", "clients"),
    [
        ({}, None),
        ({"sources": {"docs": {"http": {"listen": "0.0.0.0:8080", "path": "/docs"}}}}, {"ports": [8080]}),
        (
            {
                "sources": {"docs": {"http": {"listen": "[::]:8081", "path": "/docs"}}},
                "sinks": {"out": {"events": {"listen": "0.0.0.0:8082", "path": "/out"}}},
                "pods": {"clients": [{"namespaceSelector": {"matchLabels": {"team": "x"}}}]},
            },
            {"ports": [8081, 8082], "from": [{"namespaceSelector": {"matchLabels": {"team": "x"}}}]},
        ),
    ],
    ids=["nothing listens", "anybody", "whom the job names"],
)
def test_a_jobs_pods_are_reached_by_its_own_and_where_it_listens_by_its_clients(
    spec: Any, clients: Any
) -> None:
    made = build_network_policy(JOB, read(JOB, {**SPEC, "highAvailability": False, **spec}).spec)
    assert made["spec"]["podSelector"] == {"matchLabels": {"flamestream.dev/job": "j"}}
    assert made["spec"]["policyTypes"] == ["Ingress"]
    own, *others = made["spec"]["ingress"]
    assert own == {"from": [{"podSelector": {"matchLabels": {"flamestream.dev/job": "j"}}}]}, (
        "of the same namespace"
    )
    told = [{**rule, "ports": [port["port"] for port in rule["ports"]]} for rule in others]
    assert told == ([] if clients is None else [clients])


def test_the_drivers_configuration_is_what_the_driver_reads() -> None:
    config = convert(json.loads(json.dumps(build_driver_config(a_launch()))), DriverConfig)
    assert (config.job, config.tasks, config.pod_name_prefix) == ("n.j", 2, "j-a-3")
    assert (config.executor_memory, config.executor_memory_overhead) == ("512m", "1536m")
    assert (config.request_cores, config.limit_cores) == ("500m", "2")


def test_a_config_map_fits_what_the_driver_mounts() -> None:
    made = build_config(JOB, "j-driver-a-3", {"driver-a.json": build_driver_config(a_launch())})
    assert made["immutable"] is True
    assert json.loads(made["data"]["driver-a.json"])["tasks"] == 2
    assert {"name": "config", "configMap": {"name": "j-driver-a-3"}} in build_driver_pod(a_launch())["spec"][
        "volumes"
    ]


def test_two_applications_keep_together_and_apart() -> None:
    affinity = build_driver_pod(a_launch())["spec"]["affinity"]
    assert set(affinity) == {"podAffinity", "podAntiAffinity"}
    far = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0][
        "podAffinityTerm"
    ]["labelSelector"]
    assert far["matchExpressions"] == [
        {"key": "flamestream.dev/application", "operator": "NotIn", "values": ["a"]}
    ]


def test_a_driver_may_touch_pods_and_nothing_else() -> None:
    assert {resource for rule in build_role(JOB)["rules"] for resource in rule["resources"]} == {"pods"}


def test_spark_asks_for_nothing_else_and_a_user_cannot_have_it_ask() -> None:
    """What it would remove at its end, each by a setting of its own
    (KubernetesClusterSchedulerBackend.stop)."""
    settings = KubernetesSettings(
        namespace="n",
        driver_pod="d",
        driver_ip="i",
        image="i",
        pod_name_prefix="p",
        executors=1,
        template="t",
        api="https://a:1",
    )
    asks = {
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.executor.disableConfigMap": "true",
    }  # fmt: skip
    conf = kubernetes_conf(settings)
    assert {name: conf[name] for name in asks} == asks
    for name, value in asks.items():
        with pytest.raises(ManifestError, match="FlameStream sets it"):
            kubernetes_conf(settings, {name: "true" if value == "false" else "false"})


def test_planned_stops_take_one_worker_at_a_time() -> None:
    assert build_budget(JOB, 3)["spec"]["minAvailable"] == 2
    assert build_budget(JOB, 1)["spec"]["minAvailable"] == 0


NAMES: list[Callable[[str], str]] = [
    lambda job: names.driver_pod(job, "a", 1),
    lambda job: names.driver_pod(job, "a", 12),
    lambda job: names.driver_pod(job, "b", 1),
    lambda job: names.executor_prefix(job, "a", 1),
    names.service_account,
    names.service,
    lambda job: names.token(job, 1),
    names.zookeeper,
    names.network_policy,
    names.queries,
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


def test_calls_reach_what_the_job_names_and_without_a_word_what_the_site_allows() -> None:
    open_site = replace(SITE, allowed=Allowed(egress="any"))
    assert confined(SPEC, SITE)["egress"] == []
    assert "egress" not in confined(SPEC, open_site)
    named = {**SPEC, "egress": ["api.example.com"]}
    assert confined(named, SITE) == confined(named, open_site) == named


def test_another_egress_replaces_the_pods() -> None:
    said: tuple[dict[str, Any], ...] = (
        {"egress": []},
        {"egress": ["api.example.com"]},
        {"egress": ["api.example.com", "b"]},
        {},
    )
    revisions = [
        planned(JOB, {**SPEC, **more}, site, "digest").revision
        for site in (SITE, replace(SITE, allowed=Allowed(priority_classes=("high",), egress="any")))
        for more in said
    ]
    nothing, one, two, left_out, *in_open_site = revisions
    assert left_out == nothing
    assert in_open_site[:3] == [nothing, one, two]
    assert len({nothing, one, two, in_open_site[3]}) == 4


@given(LABELS, LABELS)
def test_names_of_two_jobs_differ(one: str, other: str) -> None:
    if one != other:
        for make in NAMES:
            assert make(one) != make(other)


def test_what_is_left_out_has_no_part_in_a_fingerprint() -> None:
    """So a field that a new version brings neither restarts a job nor replaces its pods."""
    said, silent = (
        planned(JOB, {**SPEC, **more}, SITE, "digest")
        for more in ({"image": None, "upgrade": None, "onError": "fail"}, {})
    )
    assert (said.code, said.revision) == (silent.code, silent.revision)
    empty = planned(
        JOB,
        {
            **SPEC,
            "pods": {**SPEC["pods"], "annotations": {}},
            "application": {**SPEC["application"], "pyFiles": []},
        },
        SITE,
        "digest",
    )
    assert (empty.code, empty.revision) == (silent.code, silent.revision)
    other = planned(JOB, {**SPEC, "pods": {**SPEC["pods"], "annotations": {"a": ""}}}, SITE, "digest")
    assert other.revision != silent.revision


def test_another_tracing_replaces_pods_and_no_code() -> None:
    collector = {"endpoint": "http://c:4318"}
    none, some, more = (
        planned(JOB, {**SPEC, **tracing}, SITE, "digest")
        for tracing in ({}, {"tracing": collector}, {"tracing": {**collector, "sample": "1/2"}})
    )
    assert len({none.revision, some.revision, more.revision}) == 3
    assert none.code == some.code == more.code


def test_pods_ask_a_name_service_that_does_not_answer_again_after_a_second() -> None:
    """One of its replicas may be on the node that was just lost; by default each question that meets it costs
    five seconds."""
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
    assert sorted(mount["name"] for mount in one["volumeMounts"]) == sorted(
        mount["name"] for mount in other["volumeMounts"]
    )
    assert {each["name"]: each for each in running["volumes"]} == {
        each["name"]: each for each in standing["volumes"]
    }
    assert standing["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    "change",
    [
        {"calls": {"asked": {"timeout": "1s"}}},
        {"clients": {"cache": {"redis": {"url": "redis://cache"}}}},
        {"egress": ["api.example.com"]},
    ],
    ids=str,
)
def test_what_calls_are_made_with_comes_with_new_pods(change: dict[str, Any]) -> None:
    """And the run goes on: answers are in its journal."""
    before, after = (planned(JOB, spec, SITE, "digest") for spec in (SPEC, {**SPEC, **change}))
    assert before.revision != after.revision
    assert before.code == after.code
