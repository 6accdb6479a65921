"""Every value of the chart changes what is installed, or is refused: a row a value."""

import base64
import json
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamestream.store.zookeeper_pod import command
from flamestream.store.zookeeper_tls import trusting
from support import helm
from support.fields import Leaf, Row, leaves_of_values, uncovered

VALUES = yaml.safe_load((helm.CHART / "values.yaml").read_text())
SCHEMA = json.loads((helm.CHART / "values.schema.json").read_text())
PAGE = {"ui.enabled": True}
S3 = {"s3.enabled": True, "s3.secretKey": "x"}
ANYWHERE = [{"key": "spot", "operator": "Exists"}]
FAST = {"disk": "fast"}
SAME = {"zookeeper": {"loginSecret": "login", "tls": {"secret": "tls"}}}
"""Without it each rendering makes another login and another key, and differs by that alone."""
MORE = {"cpu": "7", "memory": "7Gi"}

ROWS = [
    Row("image.repository", "elsewhere/flamestream"),
    Row("image.tag", "2.0"),
    Row("image.pullPolicy", "Always"),
    Row("imagePullSecrets", [{"name": "pull"}]),
    Row("volumePermissions", True),
    Row("operator.shards", 3),
    Row("operator.replicas", 4),
    Row("operator.leaseSeconds", 9),
    Row("operator.watchNamespaces", ["one"]),
    Row("operator.namespaceSelector", {"matchLabels": {"team": "streams"}}),
    Row(
        "operator.namespaceSelector",
        {"matchLabels": {"team": "streams"}},
        given={"operator.watchNamespaces": ["one"]},
        refused="operator.watchNamespaces and operator.namespaceSelector exclude each other",
    ),
    Row("operator.namespaceSelector", {"labels": {}}, refused="additional properties 'labels' not allowed"),
    Row("operator.drills", True),
    Row("operator.resources.requests", MORE),
    Row("operator.resources.limits", MORE),
    Row("operator.nodeSelector", FAST),
    Row("operator.tolerations", ANYWHERE),
    Row("operator.affinity", {"nodeAffinity": {}}),
    Row("operator.podAnnotations", {"team": "x"}),
    Row("zookeeper.servers", "zk:2181"),
    Row(
        "zookeeper.enabled", False, refused="name a ZooKeeper in zookeeper.servers, or set zookeeper.enabled"
    ),
    Row("zookeeper.loginSecret", "mine"),
    Row("zookeeper.tls.enabled", False),
    Row("zookeeper.tls.secret", "mine"),
    Row(
        "zookeeper.tls.secret",
        "",
        given={"zookeeper.servers": "zk:2181"},
        refused="name the Secret with the authority of your servers'",
    ),
    Row("zookeeper.journalRoom", "7Mi"),
    Row("zookeeper.storage", "7Gi"),
    Row("zookeeper.storageClass", "fast"),
    Row("zookeeper.storageClass", "none"),
    Row("zookeeper.resources.requests", MORE),
    Row("zookeeper.resources.limits", MORE),
    Row("zookeeper.nodeSelector", FAST),
    Row("s3.enabled", True),
    Row("s3.image", "elsewhere/s3:1", given=S3),
    Row("s3.pullPolicy", "Always", given=S3),
    Row("s3.bucket", "other", given=S3),
    Row("s3.accessKey", "other", given=S3),
    Row("s3.secretKey", "other", given=S3),
    Row("s3.metadata", "attributes", given=S3),
    Row("s3.storage", "7Gi", given=S3),
    Row("s3.storageClass", "fast", given=S3),
    Row("s3.nodeSelector", FAST, given=S3),
    Row("s3.resources.requests", MORE, given=S3),
    Row("s3.resources.limits", MORE, given=S3),
    Row("allow.images", ["registry.example/team/"]),
    Row("allow.serviceAccounts", ["loader"]),
    Row("allow.priorityClasses", ["high"]),
    Row("allow.hostPaths", ["/data/shared"]),
    Row("allow.hostPaths", ["/"], refused="does not match pattern"),
    Row("allow.volumes", ["nfs"]),
    Row("allow.volumes", ["hostPath"], refused="/allow/volumes/0"),
    Row("allow.storeEndpoints", ["https://s3.example"]),
    Row("allow.drillNamespaces", ["space"], given={"operator.drills": True}),
    Row("allow.egress", "any"),
    Row("admissionPolicy.enabled", False),
    Row("networkPolicy.enabled", False),
    Row("networkPolicy.metricsFrom", [{"podSelector": {}}]),
    Row("metrics.readers", [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]),
    Row("metrics.service", False),
    Row("metrics.serviceMonitor", True),
    Row(
        "metrics.serviceMonitor",
        True,
        given={"metrics.service": False},
        refused="metrics.serviceMonitor reads the Service",
    ),
    Row("ui.enabled", True),
    Row("ui.actions", True, given={"ui.enabled": True, "operator.drills": True}),
    Row("ui.hosts", ["page.example"], given=PAGE),
    Row("ui.viewer", False, given=PAGE),
    Row("ui.from", [{"podSelector": {}}], given=PAGE),
    Row("metrics.dashboards", True),
    Row("metrics.dashboardLabels", {"team": "x"}, given={"metrics.dashboards": True}),
    Row("metrics.alerts", True),
    Row("metrics.alertLabels", {"team": "x"}, given={"metrics.alerts": True}),
    Row("operator.replica", 3, refused="additional properties 'replica' not allowed"),
]


def test_every_value_has_a_row() -> None:
    of_values = [row for row in ROWS if row.path != "operator.replica"]
    assert uncovered(leaves_of_values(VALUES), of_values) == []


@pytest.mark.parametrize("leaf", [*leaves_of_values(VALUES)], ids=lambda leaf: leaf.path)
def test_every_value_has_its_type_in_the_schema(leaf: Leaf) -> None:
    schema = SCHEMA
    for name in leaf.path.split("."):
        assert name in schema.get("properties", {}), f"values.schema.json has no {leaf.path}"
        schema = resolved(schema["properties"][name])
    assert {"type", "enum"} & set(schema), f"values.schema.json says nothing of {leaf.path}"


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "").rpartition("/")[2]
    return SCHEMA["definitions"][reference] if reference else schema


@pytest.mark.parametrize("row", [row for row in ROWS if not row.refused], ids=str)
def test_a_change_of_a_value_is_seen(row: Row) -> None:
    before, after = row.documents(SAME)
    assert helm.rendered(before) != helm.rendered(after)
    assert [
        each for each in yaml.safe_load_all(helm.rendered(after)) if each is not None and "kind" not in each
    ] == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.refused], ids=str)
def test_what_would_have_no_effect_is_refused_with_what_to_do(row: Row) -> None:
    with pytest.raises(helm.Refused) as caught:
        helm.rendered(row.documents(SAME)[1])
    assert row.refused in str(caught.value)


def test_the_chart_makes_a_login_of_its_own_unless_one_is_named() -> None:
    things = [thing for thing in yaml.safe_load_all(helm.rendered({})) if thing is not None]
    (secret,) = [thing for thing in things if thing["kind"] == "Secret" and "login" in thing["data"]]
    user, _, password = base64.b64decode(secret["data"]["login"]).decode().partition(":")
    assert (user, len(password)) == ("operator", 48)
    pods = [thing["spec"]["template"] for thing in things if thing["kind"] in ("Deployment", "StatefulSet")]
    volumes = [volume for pod in pods for volume in pod["spec"]["volumes"] if volume.get("secret")]
    names = [volume["secret"]["secretName"] for volume in volumes]
    assert names.count(secret["metadata"]["name"]) == len(pods) == 2
    assert len({pod["metadata"]["annotations"]["flamestream.dev/login"] for pod in pods}) == 1, (
        "of one rendering"
    )
    assert password not in helm.rendered({})
    named = list(yaml.safe_load_all(helm.rendered(SAME)))
    assert not [thing for thing in named if thing is not None and thing["kind"] == "Secret"]


def test_the_chart_makes_an_authority_and_the_key_of_its_server_and_shows_the_operator_that_authority_alone(
    tmp_path: Path,
) -> None:
    things = [thing for thing in yaml.safe_load_all(helm.rendered({})) if thing is not None]
    (secret,) = [thing for thing in things if thing["kind"] == "Secret" and "tls.key" in thing["data"]]
    given = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    (operator,) = [thing["spec"]["template"] for thing in things if thing["kind"] == "Deployment"]
    (zookeeper,) = [thing["spec"]["template"] for thing in things if thing["kind"] == "StatefulSet"]
    told = {each["name"]: each.get("value", "") for each in operator["spec"]["containers"][0]["env"]}
    (shown,) = [
        each["secret"]
        for each in operator["spec"]["volumes"]
        if each.get("secret", {}).get("secretName") == "release-zookeeper-tls"
    ]
    assert shown["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    (mount,) = [
        each for each in operator["spec"]["containers"][0]["volumeMounts"] if each["name"] == "authority"
    ]
    assert told["FLAMESTREAM_ZOOKEEPER_AUTHORITY"] == f"{mount['mountPath']}/ca.crt"
    assert (
        len({each["metadata"]["annotations"]["flamestream.dev/tls"] for each in (operator, zookeeper)}) == 1
    ), "of one rendering"
    for name, content in given.items():
        (tmp_path / name).write_bytes(content)
    command(tmp_path, tmp_path, "operator:secret", tls=tmp_path)  # reads the key as the chart's server does
    _shake_hands(
        trusting(given["ca.crt"].decode()), tmp_path, told["FLAMESTREAM_ZOOKEEPER"].rpartition(":")[0]
    )


def _shake_hands(client: ssl.SSLContext, server: Path, name: str) -> None:
    """Raises what a session raises whose server has the key in this folder, and is dialled by this name."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server / "tls.crt", server / "tls.key")
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(here, there, server_hostname=name),
        serving.wrap_bio(there, here, server_side=True),
    ]
    while ends:
        with suppress(ssl.SSLWantReadError):
            ends[0].do_handshake()
            del ends[0]
            continue
        ends.reverse()


def test_without_tls_nobody_is_told_of_an_authority() -> None:
    plain = helm.rendered({"zookeeper": {"loginSecret": "login", "tls": {"enabled": False}}})
    assert "AUTHORITY" not in plain and "ZOOKEEPER_TLS" not in plain and "flamestream.dev/tls" not in plain


BY_NAME = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["one", "two"]}
BY_LABEL = {"matchLabels": {"team": "streams"}}


@pytest.mark.parametrize(
    ("chosen", "only"),
    [
        ({"watchNamespaces": ["one", "two"]}, {"matchExpressions": [BY_NAME]}),
        ({"namespaceSelector": BY_LABEL}, BY_LABEL),
    ],
    ids=["by name", "by label"],
)
def test_jobs_of_other_namespaces_than_those_that_are_watched_reach_nothing(chosen: Any, only: Any) -> None:
    values = {
        **SAME,
        "operator": chosen,
        "s3": {"enabled": True, "secretKey": "x"},
    }
    policies = [
        thing
        for thing in yaml.safe_load_all(helm.rendered(values))
        if thing is not None and thing["kind"] == "NetworkPolicy"
    ]
    assert len(policies) == 3
    selectors = [
        peer["namespaceSelector"] for policy in policies for rule in policy["spec"]["ingress"] for peer
            in rule.get("from", [])
        if "namespaceSelector" in peer
    ]  # fmt: skip
    assert selectors == [only] * len(selectors) and len(selectors) == 4


def test_who_may_read_the_figures_is_bound_by_name_and_prometheus_shows_an_account_that_may_nothing_else() -> (
    None
):
    readers = [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]
    values = {**SAME, "metrics": {"readers": readers, "serviceMonitor": True}}
    things = [thing for thing in yaml.safe_load_all(helm.rendered(values)) if thing is not None]
    (role,) = [
        thing
        for thing in things
        if thing["kind"] == "ClusterRole" and thing["metadata"]["name"] == "release-metrics"
    ]
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    bindings = [thing for thing in things if "subjects" in thing]
    account = {"kind": "ServiceAccount", "name": "release-metrics", "namespace": "space"}
    (mine,) = [thing for thing in bindings if account in thing["subjects"]]
    assert mine["subjects"] == [*readers, account] and mine["roleRef"]["name"] == "release-metrics"
    (monitor,) = [thing for thing in things if thing["kind"] == "ServiceMonitor"]
    assert monitor["spec"]["endpoints"][0]["authorization"]["credentials"] == {
        "name": "release-metrics",
        "key": "token",
    }
