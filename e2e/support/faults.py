"""Deliberate faults, one function each. What they do is what happens to users; none asks the job for
permission."""

import os
import shlex
import subprocess
import time

from e2e.support.installation import RELEASE, Installation
from e2e.support.kube import Kube, condition_of, kubectl, until
from e2e.support.stream import Stream

_KILL = """
import os, signal, sys
role = sys.argv[1]
def cmdline(pid):
    try: return open(f"/proc/{pid}/cmdline").read()
    except OSError: return ""
def parent(pid): return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
pids = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != os.getpid()]
daemons = [pid for pid in pids if "flamestream.spark.streaming.daemon" in cmdline(pid)]
chosen = {
    "worker": [pid for pid in daemons if parent(pid) in daemons],
    "daemon": [pid for pid in daemons if parent(pid) not in daemons],
    "operator": [pid for pid in pids if cmdline(pid).startswith("python3\\0-m\\0flamestream_operator")],
}[role]
for pid in chosen: os.kill(pid, getattr(signal, sys.argv[2]))
print(len(chosen))
"""


def signal_process(kube: Kube, pod: str, role: str, name: str = "SIGKILL") -> None:
    """To the worker, its daemon, or the operator, in `pod`."""
    count = kube.execute(pod, "python3", "-c", _KILL, role, name).strip()
    assert count not in ("", "0"), f"there is no {role} in {pod}"


def kill_worker(stream: Stream) -> None:
    signal_process(stream.kube, stream.active_workers()[0], "worker")


def kill_daemon(stream: Stream) -> None:
    signal_process(stream.kube, stream.active_workers()[0], "daemon")


def pause_worker(stream: Stream) -> None:
    """A zombie: it comes back when others have its slots."""
    pod = stream.active_workers()[0]
    signal_process(stream.kube, pod, "worker", "SIGSTOP")
    time.sleep(6)
    signal_process(stream.kube, pod, "worker", "SIGCONT")


def delete_executor(stream: Stream) -> None:
    """As a drain does: with its grace period."""
    stream.kube.delete("Pod", stream.active_workers()[0], within=0)


def force_delete_executor(stream: Stream) -> None:
    stream.kube.delete("Pod", stream.active_workers()[0], grace=0, within=0)


def delete_driver(stream: Stream) -> None:
    """The whole application goes with it."""
    stream.kube.delete("Pod", stream.drivers()[0]["metadata"]["name"], grace=0, within=0)


def kill_leader(stream: Stream) -> None:
    signal_process(stream.installation.system, stream.installation.leader(), "operator")


def kill_leader_and_executor(stream: Stream) -> None:
    """Nobody leads when the executor goes."""
    victim = stream.active_workers()[0]
    kill_leader(stream)
    stream.kube.delete("Pod", victim, grace=0, within=0)


def lead_from(installation: Installation, node: str) -> None:
    """Until the operator that leads is on `node`: there is one on each."""
    system = installation.system

    def leads() -> bool:
        pod = installation.leader_pod()
        if pod and pod["spec"]["nodeName"] != node and "deletionTimestamp" not in pod["metadata"]:
            system.delete("Pod", pod["metadata"]["name"], grace=1)
        return bool(pod) and pod["spec"]["nodeName"] == node

    until(f"the leader is on {node}", leads, 120, 2)
    system.wait_rollout("Deployment", f"{RELEASE}-operator")


def away(installation: Installation, what: str, seconds: float) -> None:
    """ZooKeeper, or S3, is not there for so long."""
    system, name = installation.system, f"{RELEASE}-{what}"
    system.patch("StatefulSet", name, {"spec": {"replicas": 0}})
    system.delete("Pod", f"{name}-0", grace=0, within=0)
    time.sleep(seconds)
    system.patch("StatefulSet", name, {"spec": {"replicas": 1}})
    system.wait_rollout("StatefulSet", name)


def other_node(installation: Installation) -> str:
    """One without ZooKeeper and S3; "" if there is none."""
    names = [node["metadata"]["name"] for node in Kube("").list("Node")]
    return next((name for name in names if name != installation.node), "")


def hold(node: str, held: bool) -> None:
    """Whether new pods stay away from it."""
    Kube("").patch("Node", node, {"spec": {"unschedulable": held}})


def drain(node: str) -> None:
    """As whoever maintains it does."""
    kubectl(
        "drain",
        node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--force",
        "--timeout=400s",
        within=420,
    )


def names_elsewhere(node: str) -> None:
    """The cluster's name service off this node, as far as it has but one replica: losing that is another
    fault than losing a node. Its pods tolerate whatever a node is marked with, so it is told itself."""
    kube = Kube("kube-system")
    away = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [away]}]
        }
    }
    for each in kube.list("Deployment"):
        if each["spec"]["selector"].get("matchLabels", {}).get("k8s-app") == "kube-dns":
            name = each["metadata"]["name"]
            kube.patch(
                "Deployment", name, {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}}
            )
            kube.wait_rollout("Deployment", name)


def can_break_nodes() -> bool:
    """Whether the cluster's owner has said how."""
    return bool(os.environ.get("E2E_NODE_COMMAND"))


def break_node(verb: str, node: str) -> None:
    """crash, start, cut or heal, by the command that the cluster's owner named in E2E_NODE_COMMAND."""
    command = [*shlex.split(os.environ["E2E_NODE_COMMAND"]), verb, node]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-500:]}"


def wait_node(node: str, ready: bool, within: float = 120) -> None:
    """Until Kubernetes has noticed."""
    Kube("").wait(
        "Node", node, lambda it: (condition_of(it, "Ready").get("status") == "True") is ready, within
    )
