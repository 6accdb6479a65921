"""The page in the chart: off unless it is asked for, and then with no more rights and no more doors than it needs."""

from typing import Any

import pytest

from flamestream_operator.environment import read_environment
from support import helm
from unit.operator.chart.test_chart import VALUES, things


def rendered(operator: dict[str, Any] | None = None, **ui: Any) -> list[dict[str, Any]]:
    values = {name.rstrip("_"): value for name, value in ui.items()}  # `from` is a word of Python's
    return things(helm.rendered(VALUES | {"ui": values, "operator": operator or {}}))


def named(found: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (one,) = [each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return one


def rights(found: list[dict[str, Any]], kind: str, name: str) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for rule in named(found, kind, name)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def environment(found: list[dict[str, Any]]) -> dict[str, str]:
    (container,) = named(found, "Deployment", "release-operator")["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def test_without_it_there_is_nothing_of_it() -> None:
    found = rendered()
    assert not [each for each in found if each["metadata"]["name"] in ("release-ui", "release-viewer")]
    assert not [name for name in environment(found) if name.startswith("FLAMESTREAM_UI")]
    assert ("pods/log", "get") not in rights(found, "ClusterRole", "release-operator")
    assert "7878" not in helm.rendered(VALUES)


def test_to_look_it_may_read_logs_and_the_viewer_may_do_nothing() -> None:
    found, without = rendered(enabled=True), rendered()
    more = rights(found, "ClusterRole", "release-operator") - rights(
        without, "ClusterRole", "release-operator"
    )
    assert more == {("pods/log", "get")}
    assert {verb for _, verb in rights(found, "ClusterRole", "release-viewer")} == {"get", "list", "watch"}
    assert not named(found, "ServiceAccount", "release-viewer")["automountServiceAccountToken"]
    (subject,) = named(found, "ClusterRoleBinding", "release-viewer")["subjects"]
    assert (subject["name"], subject["namespace"]) == ("release-viewer", "space")
    service = named(found, "Service", "release-ui")["spec"]
    labels = named(found, "Deployment", "release-operator")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert [(each["port"], each["targetPort"]) for each in service["ports"]] == [(80, 7878)]


def test_where_namespaces_are_named_its_viewer_sees_those_alone() -> None:
    found = rendered({"watchNamespaces": ["a", "b"]}, enabled=True)
    bound = [each for each in found if each["kind"] == "RoleBinding" and "viewer" in each["metadata"]["name"]]
    assert [each["metadata"]["namespace"] for each in bound] == ["a", "b"]
    assert not [
        each
        for each in found
        if each["kind"] == "ClusterRoleBinding" and "viewer" in each["metadata"]["name"]
    ]
    assert ("pods/log", "get") in {
        (resource, verb)
        for each in found
        if each["kind"] == "Role" and each["metadata"].get("namespace") == "a"
        for rule in each["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_it_has_no_viewer_that_nobody_wants() -> None:
    assert "release-viewer" not in helm.rendered(VALUES | {"ui": {"enabled": True, "viewer": False}})


def test_actions_take_a_right_and_somebody_who_carries_them_out() -> None:
    found = rendered({"drills": True}, enabled=True, actions=True)
    assert ("flamestreamdrills", "create") in rights(found, "ClusterRole", "release-operator")
    looking = rendered({"drills": True}, enabled=True)
    assert ("flamestreamdrills", "create") not in rights(looking, "ClusterRole", "release-operator")
    with pytest.raises(helm.Refused, match=r"set operator\.drills too"):
        rendered(enabled=True, actions=True)


def test_its_port_is_for_other_replicas_and_whom_the_values_name() -> None:
    proxy = {"podSelector": {"matchLabels": {"app": "proxy"}}}

    def rule(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (one,) = [
            each
            for each in named(found, "NetworkPolicy", "release-operator")["spec"]["ingress"]
            if {"port": 7878} in each["ports"]
        ]
        assert one["ports"] == [{"port": 7878}]
        return list(one["from"])

    replicas = rule(rendered(enabled=True))
    assert [each["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for each in replicas] == [
        "operator"
    ]
    assert rule(rendered(enabled=True, from_=[proxy])) == [*replicas, proxy]


def test_each_of_its_values_has_an_effect_in_the_operator() -> None:
    own = {
        "POD_NAME": "o", "POD_NAMESPACE": "space", "POD_IP": "10.0.0.1", "FLAMESTREAM_ZOOKEEPER_LOGIN": "",
        "FLAMESTREAM_ZOOKEEPER_AUTHORITY": "",
    }  # fmt: skip

    def page(tmp: dict[str, str], found: list[dict[str, Any]]) -> Any:
        return read_environment({**environment(found), **own, **tmp}).page

    import tempfile

    with tempfile.NamedTemporaryFile("w") as login:
        login.write("operator:0123456789abcdef")
        login.flush()
        told = {"FLAMESTREAM_ZOOKEEPER_LOGIN": login.name}
        assert page(told, rendered()) is None
        looks = page(told, rendered(enabled=True))
        assert (looks.actions, looks.drills, looks.port) == (False, False, 7878)
        assert looks.namespace == "space"
        assert looks.hosts[0] == "release-ui" and "release-ui.space.svc" in looks.hosts
        acts = page(told, rendered({"drills": True}, enabled=True, actions=True, hosts=["page.example"]))
        assert (acts.actions, acts.drills, acts.hosts[0]) == (True, True, "page.example")
