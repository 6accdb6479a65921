"""What `kubectl flamestream` shows and builds."""

from datetime import UTC, datetime
from typing import Any

from flamestream.cli.kubectl.beside import pod_beside
from flamestream.cli.kubectl.screen import lines, row, table
from flamestream.job.object_names import MOST_COPIES, copies_among

NOW = datetime(2026, 1, 1, 0, 1, 0, tzinfo=UTC)
JOB: dict[str, Any] = {
    "apiVersion": "flamestream.dev/v1alpha1",
    "kind": "FlameStreamJob",
    "metadata": {"name": "j", "namespace": "n", "uid": "u"},
    "spec": {
        "application": {"file": "j.py", "graph": "graph"}, "guarantee": "exactly-once",
        "sources": {"docs": {"files": {}}}, "sinks": {"index": {"socket": {}}},
    },
    "status": {
        "phase": "Running", "attempt": 3, "epoch": {"number": 7, "time": "2026-01-01T00:00:30Z"},
        "workers": {"summary": "2/2", "standby": 1, "desired": 2}, "message": "",
        "conditions": [{"type": "Ready", "status": "True"}],
        "eventTimes": {"docs": "2026-01-01T00:00:20.000Z"}, "late": {"docs": 1200},
        "recovery": {"cause": "lost w0", "durationMs": 120.4, "time": "2026-01-01T00:00:00Z", "count": 2},
    },
}  # fmt: skip
POD = {
    "metadata": {"name": "j-a-1-exec-1", "labels": {"flamestream.dev/role": "worker"}},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running", "podIP": "10.0.0.1"},
}


def test_status_has_graph_stream_recovery_and_pods_on_one_screen() -> None:
    shown = list(lines(JOB, [POD], NOW))
    assert shown[0] == "n/j: Running (ready)"
    assert "sources    docs (files)" in shown
    assert "stream     attempt 3, epoch 7, 30 s ago" in shown
    assert "event time docs: 2026-01-01T00:00:20.000Z, 1,200 late" in shown
    assert "recovery   lost w0: 120 ms, 60 s ago, 2 in this run" in shown
    assert "worker     j-a-1-exec-1  Running  n1  10.0.0.1" in shown
    assert len(shown) < 25


def test_a_job_without_a_status_is_shown_as_pending() -> None:
    fresh = {**JOB, "status": {}}
    assert row(fresh)["phase"] == "Pending"
    assert next(lines(fresh, [], NOW)) == "n/j: Pending (not ready)"


def test_a_pod_beside_a_job_has_its_volumes_and_its_login_but_not_its_token() -> None:
    names = ("config", "secret", "zookeeper", "kube-api-access-x")
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    container = {"name": "driver", "image": "i", "args": ["driver", "a"], "env": [], "volumeMounts": mounts}
    driver = {
        "spec": {
            "containers": [container],
            "volumes": [{"name": name} for name in names],
            "serviceAccountName": "j-driver",
        }
    }
    pod = pod_beside(driver, JOB, ["cat"])
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["config", "zookeeper"]
    assert [mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]] == [
        "config",
        "zookeeper",
    ]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert "args" not in pod["spec"]["containers"][0]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "u"


def config_map(name: str, second: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}}


def test_a_pod_that_audits_has_the_newest_copies_of_what_the_job_has_run() -> None:
    digests = [f"{number:012x}" for number in range(MOST_COPIES + 2)]
    there = [config_map(f"j-app-{digest}", second) for second, digest in enumerate(digests)]
    others = [config_map(name, 59) for name in ("j-driver-a-3", "j-app", "j-app-0123456789ag")]
    copies = copies_among([*there, *others])
    assert copies == [f"j-app-{digest}" for digest in reversed(digests[2:])]
    driver = {"spec": {"containers": [{"name": "driver", "image": "i", "volumeMounts": []}], "volumes": []}}
    spec = pod_beside(driver, JOB, ["audit"], copies)["spec"]
    (container,) = spec["containers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    found = {places[volume["name"]]: volume["configMap"]["name"] for volume in spec["volumes"]}
    assert found == {f"/opt/flamestream/earlier/{name}": name for name in copies}


def test_a_list_cuts_no_name() -> None:
    long = {**JOB, "metadata": {**JOB["metadata"], "name": "a-name-of-some-length-" * 3}}
    head, first, second = table([row(JOB), row(long)])
    assert head.split()[:3] == ["NAMESPACE", "JOB", "PHASE"]
    assert second.split()[1] == long["metadata"]["name"]
    assert first.index("Running") == second.index("Running") == head.index("PHASE")
