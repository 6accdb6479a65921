"""The chart as a registry has it, and its own test: what `helm test` runs says whether an operator leads."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from typing import Any

import pytest
import yaml

from support import helm

VALUES: dict[str, Any] = {"zookeeper": {"loginSecret": "login", "tls": {"secret": "tls"}}}


def things(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


def test_the_packed_chart_installs_what_its_folder_does(tmp_path: Path) -> None:
    command = [str(helm.binary()), "package", str(helm.CHART), "--destination", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (packed,) = tmp_path.glob("flamestream-*.tgz")
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES | {"metrics": {"dashboards": True, "alerts": True}}))

    def rendered(chart: Path) -> list[dict[str, Any]]:
        command = [str(helm.binary()), "template", "release", str(chart), "--values", str(values)]
        done = subprocess.run(
            [*command, "--kube-version", helm.KUBERNETES],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return things(done.stdout)

    installed = rendered(packed)
    assert installed == rendered(helm.CHART)
    kinds = [each["kind"] for each in installed]
    assert kinds.count("CustomResourceDefinition") == 3 and kinds.count("ConfigMap") == 3


def the_test(leader: int, probe: int, patience: int) -> subprocess.CompletedProcess[str]:
    """What the chart's test runs, against ports of this machine."""
    (pod,) = [each for each in things(helm.rendered(VALUES)) if each["kind"] == "Pod"]
    (container,) = pod["spec"]["containers"]
    python, flag, script, url, *coordinators = container["command"]
    assert (python, flag) == ("python3", "-c")
    assert coordinators == ["release-coordinators.space.svc", "release-coordinators-1.space.svc"]
    assert url == "http://release-metrics.space.svc:8080/readyz"
    script = script.replace("7700", str(leader)).replace("+ 60", f"+ {patience}")
    command = [sys.executable, "-c", script, f"http://127.0.0.1:{probe}/readyz", "127.0.0.1", "127.0.0.2"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class Probe(BaseHTTPRequestHandler):
    """Ready."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def serving(server: TCPServer) -> Iterator[int]:
    """The port of a server that serves in the block."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_its_test_passes_where_each_shard_has_a_leader_and_fails_where_one_has_none() -> None:
    with serving(HTTPServer(("127.0.0.1", 0), Probe)) as probe:
        with serving(TCPServer(("0.0.0.0", 0), BaseRequestHandler)) as leaders:
            passed = the_test(leaders, probe, 60)
            assert (passed.returncode, passed.stdout) == (0, "an operator leads, and watches\n")
        with serving(TCPServer(("127.0.0.1", 0), BaseRequestHandler)) as leader:
            failed = the_test(leader, probe, 0)
    assert failed.returncode == 1 and "no operator leads" in failed.stderr


def _deployed(**operator: int) -> tuple[int, list[str], str]:
    """Replicas, Services of coordinators, and what the operator is told of shards."""
    found = things(helm.rendered(VALUES | {"operator": operator}))
    (deployment,) = [
        each for each in found if each["kind"] == "Deployment" and "operator" in str(each["metadata"])
    ][:1]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each.get("value", "") for each in container["env"]}
    services = [each["metadata"]["name"] for each in found if each["kind"] == "Service"]
    return (
        deployment["spec"]["replicas"],
        [name for name in services if "coordinators" in name],
        told["FLAMESTREAM_SHARDS"],
    )


def test_each_shard_has_a_service_and_one_pod_more_than_shards_waits() -> None:
    three = [f"release-coordinators{number}" for number in ("", "-1", "-2")]
    assert _deployed(shards=3) == (4, three, "3")
    assert _deployed(shards=1) == (2, three[:1], "1")
    assert _deployed(shards=2, replicas=2) == (2, three[:2], "2")


def test_fewer_pods_than_shards_are_refused_with_what_to_do() -> None:
    with pytest.raises(helm.Refused, match="2 pods cannot lead 3 shards"):
        helm.rendered(VALUES | {"operator": {"shards": 3, "replicas": 2}})


def test_its_pod_is_restricted_and_let_in_by_the_operators_policy() -> None:
    found = things(helm.rendered(VALUES))
    (pod,) = [each for each in found if each["kind"] == "Pod"]
    (policy,) = [
        each
        for each in found
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "release-operator"
    ]
    (rule,) = [
        each
        for each in policy["spec"]["ingress"]
        if "podSelector" in (each.get("from") or [{}])[0] and len(each["ports"]) == 2
    ]
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert {each["port"] for each in rule["ports"]} == {7700, 8080}
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"] and not pod["spec"]["automountServiceAccountToken"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "operator" not in pod["metadata"]["labels"]["app.kubernetes.io/component"]
