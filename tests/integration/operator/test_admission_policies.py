"""The chart's admission policies on a real API server: what a hostile author, and a driver that runs users'
code, are refused.

Whoever asks here has every right of RBAC: what is refused, the policies refuse.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.jobs.spec import planned
from flamestream_operator.objects import names
from flamestream_operator.objects.pods import Launch, build_driver_pod, build_preflight_pod, build_trial_pod
from flamestream_operator.site import Allowed, Site
from support import helm
from support.eventually import eventually
from support.fields import put
from support.operator.raw_api import ANYBODY, As, apply, places, refusal, remove
from support.operator.real_cluster import namespace

pytestmark = pytest.mark.usefixtures("own_api_server")
IMAGE = "registry.example/flamestream:1"
ALLOW = {
    "images": ["registry.example/team/"], "serviceAccounts": ["loader"], "priorityClasses": [],
    "hostPaths": ["/data/shared"], "volumes": ["nfs"], "storeEndpoints": ["aws", "http://s3.example:9000"],
    "drillNamespaces": [],
}  # fmt: skip
VALUES = {"image": {"repository": "registry.example/flamestream", "tag": "1"}, "allow": ALLOW}
OPERATOR = As("system:serviceaccount:space:release-operator")
DRIVER = As("system:serviceaccount:team:flamestream-j-driver", "j-driver-a-1")


@pytest.fixture(scope="module")
def place(api_server: None) -> Iterator[str]:
    """A team's namespace, with the policies in force."""
    things = [
        thing
        for thing in yaml.safe_load_all(helm.rendered(VALUES))
        if thing and "ValidatingAdmission" in thing["kind"]
    ]
    assert len(things) == 6
    with namespace() as name:
        try:
            apply(of_before(name))
            apply(bare_of_before(name))
            for thing in things:
                apply(thing)
            bad = {**a_job(name), "spec": {**a_job(name)["spec"], "image": "evil:1"}}
            eventually(
                lambda: "spec.image" in refusal("POST", places(bad), bad),
                "the policies are in force",
                within=60,
            )
            pod = driver_pod(name)
            pod["spec"]["hostNetwork"] = True
            eventually(
                lambda: "of its node" in refusal("POST", places(pod), pod, OPERATOR),
                "that of pods too",
                within=60,
            )
            eventually(
                lambda: "own job" in refusal("POST", places(stranger(name)), stranger(name), DRIVER),
                "that of drivers",
                within=60,
            )
            yield name
        finally:
            for thing in reversed(things):
                remove(thing)


def a_job(place: str) -> dict[str, Any]:
    spec = {
        "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
        "sources": {"numbers": {"generator": {"count": 10}}},
        "sinks": {"out": {"files": {"path": "/out"}}},
        "workers": {"replicas": 2},
        "checkpoint": {
            "interval": "1s",
            "store": "s3://bucket/j?endpoint=http://s3.example:9000",
            "secret": "keys",
        },
    }
    meta = {"name": "j", "namespace": place}
    return {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": meta,
        "spec": spec,
    }


def of_before(place: str) -> dict[str, Any]:
    """A job that would be refused now."""
    job = a_job(place)
    return {
        **job,
        "metadata": {**job["metadata"], "name": "before"},
        "spec": {**job["spec"], "image": "evil:1"},
    }


def bare_of_before(place: str) -> dict[str, Any]:
    """A pod of it that would be refused too."""
    pod = stranger(place)
    return {
        **pod,
        "metadata": {**pod["metadata"], "name": "before", "labels": {"flamestream.dev/job": "before"}},
    }


def stranger(place: str) -> dict[str, Any]:
    """A pod of somebody else's in the same namespace."""
    spec = {"containers": [{"name": "c", "image": "other:1"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": place},
        "spec": spec,
    }


def launch(place: str) -> Launch:
    job = a_job(place)
    job["metadata"]["uid"] = "u"
    allowed = Allowed(store_endpoints=("http://s3.example:9000",))
    site = Site(coordinator="o:1", zookeeper=ZooKeeperAccess("z:1", "o:s"), image=IMAGE, allowed=allowed)
    plan = planned(job, job["spec"], site, "digest")
    return Launch(
        job=job, spec=plan.spec, application="a", number=1, tasks=2, run=1, image=plan.image,
        pull_policy="Never", coordinator="o:1", app_config_map="app",
    )  # fmt: skip


def with_account(pod: dict[str, Any]) -> dict[str, Any]:
    """Accounts are looked for by another plugin, which would be first: `default` is there."""
    return {**pod, "spec": {**pod["spec"], "serviceAccountName": "default"}}


def driver_pod(place: str) -> dict[str, Any]:
    return with_account(build_driver_pod(launch(place)))


def worker_pod(place: str) -> dict[str, Any]:
    return build_trial_pod(launch(place))


def with_field(thing: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(thing)
    if path.startswith("container."):
        put(changed["spec"]["containers"][0], path.removeprefix("container."), value)
    else:
        put(changed, path, value)
    return changed


JOBS: list[tuple[str, Any, str]] = [
    ("spec.image", "evil:1", "spec.image"),
    ("spec.image", "registry.example/teams/evil:1", "spec.image"),
    ("spec.checkpoint.secret", None, "spec.checkpoint.secret"),
    ("spec.checkpoint.store", "s3://b/p?endpoint=http://169.254.169.254", "spec.checkpoint.store"),
    ("spec.checkpoint.store", "s3://b/p?endpoint=http%3A%2F%2F169.254.169.254", "spec.checkpoint.store"),
    ("spec.pods.serviceAccountName", "admin", "spec.pods.serviceAccountName"),
    ("spec.pods.priorityClassName", "system-node-critical", "spec.pods.priorityClassName"),
    ("spec.pods.volumes", [{"name": "v", "hostPath": {"path": "/"}}], "spec.pods.volumes"),
    ("spec.pods.volumes", [{"name": "v", "hostPath": {"path": "/data/sharedx"}}], "spec.pods.volumes"),
    ("spec.pods.volumes", [{"name": "v", "cephfs": {"monitors": ["m"]}}], "spec.pods.volumes"),
]


@pytest.mark.parametrize(("path", "value", "words"), JOBS, ids=str)
def test_a_job_that_asks_for_more_is_refused_when_it_is_applied(
    place: str, path: str, value: Any, words: str
) -> None:
    job = with_field(a_job(place), path, value)
    assert words in refusal("POST", places(job), job)


FINE: list[tuple[str, Any]] = [
    ("spec.image", IMAGE),
    ("spec.image", "registry.example/team/app:1"),
    ("spec.checkpoint.store", "s3://b/p"),
    ("spec.checkpoint.store", "s3://b/p?endpoint=http://s3.example:9000&region=eu-1"),
    ("spec.pods.serviceAccountName", "loader"),
    (
        "spec.pods.volumes",
        [
            {"name": "v", "hostPath": {"path": "/data/shared/in"}},
            {"name": "w", "nfs": {"server": "s", "path": "/"}},
        ],
    ),
    ("spec.pods.volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
    ("metadata.labels", {"team": "x"}),
]


@pytest.mark.parametrize(("path", "value"), FINE, ids=str)
def test_what_is_allowed_passes(place: str, path: str, value: Any) -> None:
    job = with_field(a_job(place), path, value)
    assert refusal("POST", places(job), job) == ""


def test_a_job_of_before_keeps_what_it_had_and_can_be_deleted(place: str) -> None:
    """Its finalizer is an update, whatever its spec says; another edit is judged."""
    job = of_before(place)
    meta = {**job["metadata"], "finalizers": ["flamestream.dev/cleanup"]}
    apply({**job, "metadata": meta})
    edited = {**job, "metadata": meta, "spec": {**job["spec"], "suspend": True}}
    with pytest.raises(AssertionError, match=r"spec\.image"):
        apply(edited)
    apply({**job, "metadata": {**job["metadata"], "finalizers": []}})
    remove(job)


def test_a_pod_of_before_is_labelled_and_not_changed(place: str) -> None:
    """Whoever writes finalizers, labels or annotations of a pod that runs is not stopped by what it once
    was."""
    pod = bare_of_before(place)
    apply(with_field(pod, "metadata.annotations", {"seen": "yes"}))
    other = {**pod, "spec": {"containers": [{"name": "c", "image": "other:2"}]}}
    with pytest.raises(AssertionError, match="not root"):
        apply(other)


PODS: list[tuple[str, Any, str]] = [
    ("spec.hostNetwork", True, "of its node"),
    ("spec.hostPID", True, "of its node"),
    ("spec.hostIPC", True, "of its node"),
    ("container.ports", [{"containerPort": 1, "hostPort": 1}], "of its node"),
    ("spec.securityContext.runAsNonRoot", False, "not root"),
    ("spec.securityContext.runAsUser", 0, "not root"),
    ("spec.securityContext.seccompProfile", {"type": "Unconfined"}, "seccomp"),
    ("spec.securityContext.sysctls", [{"name": "net.ipv4.ip_local_port_range", "value": "1 2"}], "not root"),
    ("container.securityContext.privileged", True, "privilege"),
    ("container.securityContext.allowPrivilegeEscalation", True, "restricted"),
    ("container.securityContext.capabilities", {"drop": ["ALL"], "add": ["NET_ADMIN"]}, "restricted"),
    ("container.securityContext.capabilities", {}, "restricted"),
    ("container.securityContext.runAsUser", 0, "restricted"),
    ("container.securityContext.seccompProfile", {"type": "Unconfined"}, "restricted"),
    ("container.securityContext", None, "restricted"),
    ("spec.initContainers", [{"name": "i", "image": IMAGE}], "restricted"),
    ("spec.volumes", [{"name": "tmp", "hostPath": {"path": "/"}}], "volumes"),
    ("spec.volumes", [{"name": "tmp", "gitRepo": {"repository": "x"}}], "volumes"),
    ("container.image", "evil:1", "image"),
    ("spec.priorityClassName", "system-node-critical", "priority"),
    (
        "metadata.annotations",
        {"container.apparmor.security.beta.kubernetes.io/executor": "runtime/default"},
        "confined",
    ),
]


@pytest.mark.parametrize(("path", "value", "words"), PODS, ids=str)
@pytest.mark.parametrize("who", [OPERATOR, DRIVER], ids=["the operator", "a driver"])
def test_a_pod_of_a_job_is_restricted_whoever_makes_it(
    place: str, who: As, path: str, value: Any, words: str
) -> None:
    pod = with_field(worker_pod(place), path, value)
    if path == "spec.volumes":
        pod["spec"]["containers"][0]["volumeMounts"] = []
    assert words in refusal("POST", places(pod), pod, who)


@pytest.mark.parametrize("account", ["admin", "flamestream-operator", "flamestream-driver-x"])
def test_a_pod_of_a_job_has_no_account_but_its_own(place: str, account: str) -> None:
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": place}}
    apply(made)
    pod = with_field(worker_pod(place), "spec.serviceAccountName", account)
    assert "account" in refusal("POST", places(pod), pod, DRIVER)


def test_a_worker_has_no_token_of_the_api_server(place: str) -> None:
    pod = with_field(worker_pod(place), "spec.automountServiceAccountToken", True)
    assert "only drivers have a token" in refusal("POST", places(pod), pod, DRIVER)


def test_what_the_operator_and_spark_make_passes(place: str) -> None:
    made = launch(place)
    for pod in (driver_pod(place), with_account(build_preflight_pod(made, "j-preflight")), worker_pod(place)):
        assert refusal("POST", places(pod), pod, OPERATOR) == ""
    assert refusal("POST", places(worker_pod(place)), worker_pod(place), DRIVER) == ""


def test_no_pod_of_a_job_is_beside_the_operator(place: str) -> None:
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "space"}}
    apply(own)
    apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "space"}}
    )
    pod, job = worker_pod("space"), a_job("space")
    assert "own namespace" in refusal("POST", places(pod), pod, OPERATOR)
    assert "own namespace" in refusal("POST", places(job), job)


# --- a driver, whose pod runs the author's code -------------------------------------------------------------

BORROWED = As("system:serviceaccount:team:loader", "j-driver-a-1")
"""An account that the chart allows, from a driver's pod."""
TAKEN = As("system:serviceaccount:team:flamestream-j-driver")
"""The driver's account by a token that somebody has made for it, which names no pod."""


@pytest.mark.parametrize(
    "who", [DRIVER, BORROWED, TAKEN], ids=["a driver", "an account of the cluster's", "a token made by hand"]
)
def test_a_driver_makes_workers_of_its_job_and_nothing_else(place: str, who: As) -> None:
    bare = stranger(place)
    assert "own job" in refusal("POST", places(bare), bare, who)
    driver = with_field(driver_pod(place), "metadata.name", "second")
    assert "workers only" in refusal("POST", places(driver), driver, who)


LONG = "a-job-whose-name-is-as-long-as-a-label-of-a-pod-of-it-may-ever-"[:62] + "x"


def test_a_name_that_is_too_long_for_its_accounts_name_is_known_nevertheless(place: str) -> None:
    pod = with_field(
        worker_pod(place),
        "metadata.labels",
        {**worker_pod(place)["metadata"]["labels"], "flamestream.dev/job": LONG},
    )
    its_own = As(f"system:serviceaccount:{place}:{names.service_account(LONG)}")
    borrowed = As(f"system:serviceaccount:{place}:loader", names.driver_pod(LONG, "a", 12))
    for who in (its_own, borrowed):
        assert refusal("POST", places(pod), pod, who) == ""
    for who in (DRIVER, BORROWED, TAKEN):
        assert "own job" in refusal("POST", places(pod), pod, who)
    mine = worker_pod(place)
    for who in (its_own, borrowed):
        assert "own job" in refusal("POST", places(mine), mine, who)


def test_a_driver_touches_no_pod_of_anybody_else(place: str) -> None:
    other = with_field(
        worker_pod(place),
        "metadata.labels",
        {**worker_pod(place)["metadata"]["labels"], "flamestream.dev/job": "other"},
    )
    other["metadata"]["name"] = "other"
    mine = with_field(worker_pod(place), "metadata.name", "mine")
    for pod in (stranger(place), other, mine):
        apply(pod)
    try:
        for pod in (stranger(place), other):
            path = f"{places(pod)}/{pod['metadata']['name']}"
            for who in (DRIVER, BORROWED, TAKEN):
                assert "own job" in refusal("DELETE", path, None, who)
        assert "own job" in refusal("DELETE", places(mine), None, DRIVER), "all at once"
        for who in (DRIVER, BORROWED, TAKEN):
            assert refusal("DELETE", f"{places(mine)}/mine", None, who) == ""
        assert refusal("DELETE", f"{places(mine)}/stranger", None, ANYBODY) == ""
    finally:
        for pod in (stranger(place), other, mine):
            remove(pod)
