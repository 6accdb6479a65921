"""The chart by helm alone, without a cluster: it lints, renders every choice, and refuses values that it does
not know."""

import json
import re
import subprocess
from typing import Any

import pytest
import yaml

from e2e.support.installation import CHART

CHOICES: list[dict[str, Any]] = [
    {},
    {"s3": {"enabled": True}, "operator": {"drills": True}, "metrics": {"serviceMonitor": True}},
    {
        "operator": {"watchNamespaces": ["one", "two"], "shards": 1, "replicas": 1},
        "zookeeper": {"servers": "a:2181,b:2181", "tls": {"secret": "authority"}},
    },
    {
        "networkPolicy": {"enabled": False},
        "zookeeper": {"storageClass": "none", "tls": {"enabled": False}},
        "s3": {"enabled": True, "storageClass": "none"},
    },
]


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    command = ["helm", "template", "flamestream", str(CHART), "--kube-version", "1.34.0", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return [thing for thing in yaml.safe_load_all(done.stdout) if thing]


@pytest.mark.parametrize("values", CHOICES, ids=range(len(CHOICES)))
def test_every_choice_renders_and_every_pod_is_restricted(values: dict[str, Any]) -> None:
    things = rendered(values)
    pods = [
        thing["spec"]["template"]["spec"]
        for thing in things
        if thing["kind"] in ("Deployment", "StatefulSet")
    ]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {
            "type": "RuntimeDefault"
        }
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
            assert security["capabilities"] == {"drop": ["ALL"]}
        for container in pod["containers"]:
            assert container["resources"]["limits"]["memory"]


def test_only_what_gives_claims_to_our_user_runs_as_root_and_only_if_asked() -> None:
    things = rendered({"s3": {"enabled": True}, "volumePermissions": True})
    pods = [thing["spec"]["template"]["spec"] for thing in things if thing["kind"] == "StatefulSet"]
    first = [pod["initContainers"][0] for pod in pods]
    assert len(first) == 2
    assert all(
        each["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]} for each in first
    )
    assert all(each["command"] == ["chown", "185:185", "/data"] for each in first)


def test_a_namespaced_operator_may_write_nowhere_else() -> None:
    things = rendered({"operator": {"watchNamespaces": ["one"]}})
    rules = [rule for thing in things if thing["kind"] == "ClusterRole" for rule in thing["rules"]]
    asks = {"tokenreviews", "subjectaccessreviews"}  # questions: nothing is written
    assert {
        verb for rule in rules if not asks & set(rule.get("resources", [])) for verb in rule["verbs"]
    } <= {"get", "list", "watch"}


def test_drills_are_off_unless_asked_for() -> None:
    rules = [rule for thing in rendered({}) if "Role" in thing["kind"] for rule in thing.get("rules", [])]
    assert not any("pods/exec" in rule.get("resources", []) for rule in rules)


def test_every_right_has_its_reason() -> None:
    lines = (CHART / "templates" / "rbac.yaml").read_text().splitlines()
    for place, line in enumerate(lines):
        if re.match(r"\s*- apiGroups:", line):
            assert lines[place - 1].lstrip().startswith("#"), (
                f"rbac.yaml:{place + 1}: a rule without a comment"
            )


@pytest.mark.parametrize(
    "values",
    [{"operater": {}}, {"operator": {"replicas": 21}}, {"zookeeper": {"servers": "no-port"}}],
    ids=str,
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError,
        match=r"values don't meet|does not match|Additional property|additional properties|maximum",
    ):
        rendered(values)


def test_a_chart_without_zookeeper_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"zookeeper\.servers"):
        rendered({"zookeeper": {"enabled": False}})


def test_it_lints() -> None:
    done = subprocess.run(
        ["helm", "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
