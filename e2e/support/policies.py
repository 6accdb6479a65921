"""NetworkPolicies enforced where the network ignores them (a plain bridge): nftables rules on every node,
made again as pods change.

    python3 -m e2e.support.policies NETWORK_NAMESPACE...    # one a node, "-" is this machine's own; needs root, nft

What a policy says of ports, pods and namespaces is enforced for packets that a node forwards: towards a pod
that an Ingress policy selects, from one that an Egress policy selects; answers always pass, and so does the
node itself (probes). As Kubernetes has it: policies add up.

Does not: ipBlock with exceptions, named ports, endPort (none is used here: it raises).
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

from e2e.support.kube import POLL, Kube, Object


def matches(selector: Object, labels: dict[str, str]) -> bool:
    """A label selector. Raises ValueError for an operator that Kubernetes does not have."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(each, labels) for each in selector.get("matchExpressions", ()))


def _holds(expression: Object, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", ())
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f"no such operator: {expression}")


class Cluster:
    """What is there, as the API server lists it."""

    def __init__(self, policies: list[Object], pods: list[Object], namespaces: list[Object]) -> None:
        self._policies = policies
        self._pods = [
            pod for pod in pods if pod.get("status", {}).get("podIP") and not pod["spec"].get("hostNetwork")
        ]
        self._labels = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in namespaces}

    def rules(self) -> str:
        """The whole table, for `nft --file -`."""
        lines = [rule for way in ("Ingress", "Egress") for rule in self._of(way)]
        chain = [
            "type filter hook forward priority 10; policy accept;",
            "ct state established,related accept",
            *lines,
        ]
        inside = "\n".join(f"    {line}" for line in chain)
        return (
            f"table ip e2e-policies\ndelete table ip e2e-policies\ntable ip e2e-policies {{\n  chain forward "
            f"{{\n{inside}\n  }}\n}}\n"
        )

    def _of(self, way: str) -> Iterator[str]:
        mine, theirs = ("ip daddr", "ip saddr") if way == "Ingress" else ("ip saddr", "ip daddr")
        for pod in self._pods:
            its = [
                policy
                for policy in self._policies
                if way in policy["spec"]["policyTypes"] and self._selects(policy, pod)
            ]
            address = f"{mine} {pod['status']['podIP']}"
            for policy in its:
                for rule in policy["spec"].get(way.lower(), ()):
                    peers = rule.get("from" if way == "Ingress" else "to")
                    for ports in self._ports(rule):
                        yield " ".join(
                            filter(None, [address, self._addresses(policy, peers, theirs), ports, "accept"])
                        )
            if its:
                yield f"{address} drop"

    def _selects(self, policy: Object, pod: Object) -> bool:
        at_home = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
        return at_home and matches(policy["spec"]["podSelector"], pod["metadata"].get("labels", {}))

    def _addresses(self, policy: Object, peers: list[Object] | None, theirs: str) -> str:
        """Who may be at the other end; "" for anybody."""
        if peers is None:
            return ""
        blocks = [peer["ipBlock"]["cidr"] for peer in peers if "ipBlock" in peer]
        assert not any(peer["ipBlock"].get("except") for peer in peers if "ipBlock" in peer), (
            "exceptions of blocks are not enforced here"
        )
        found = [
            pod["status"]["podIP"] for pod in self._pods if any(self._is(peer, policy, pod) for peer in peers)
        ]
        return f"{theirs} {{ {', '.join(sorted({*blocks, *found})) or '255.255.255.255'} }}"

    def _is(self, peer: Object, policy: Object, pod: Object) -> bool:
        if "ipBlock" in peer:
            return False
        namespace = pod["metadata"]["namespace"]
        selector = peer.get("namespaceSelector")
        near = (
            namespace == policy["metadata"]["namespace"]
            if selector is None
            else matches(selector, self._labels[namespace])
        )
        return near and matches(peer.get("podSelector", {}), pod["metadata"].get("labels", {}))

    def _ports(self, rule: Object) -> Iterable[str]:
        if "ports" not in rule:
            return [""]
        assert all(isinstance(each["port"], int) and "endPort" not in each for each in rule["ports"]), (
            f"only numbers here: {rule}"
        )
        return [f"{each.get('protocol', 'TCP').lower()} dport {each['port']}" for each in rule["ports"]]


KINDS = ("/apis/networking.k8s.io/v1/networkpolicies", "/api/v1/pods", "/api/v1/namespaces")


def enforce(nodes: list[str]) -> None:
    """Until it is ended. The rules stay."""
    before = ""
    while True:
        rules = Cluster(*(json.loads(Kube("").raw(path, within=30))["items"] for path in KINDS)).rules()
        if rules != before:
            _tell(nodes, rules)
        before = rules
        time.sleep(POLL)


def _tell(nodes: list[str], rules: str) -> None:
    for node in nodes:
        inside = [] if node == "-" else ["nsenter", f"--net=/run/netns/{node}"]
        subprocess.run([*inside, "nft", "--file", "-"], input=rules.encode(), check=True, timeout=30)
    sys.stdout.write(f"{rules.count('drop')} pods are kept to their policies\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    enforce(sys.argv[1:])
