"""Who may connect to a job's pods: those of the same job, and to the ports that its sources, sinks and queries listen
on whom the job names.

Policies add up, so a user who wants more (a port of a connector of his own) makes another one beside it.

Keeps: pods of other jobs and strangers reach no link, no block manager and no JVM of this job. Does not:
narrow what a job's pods connect to: where its data come from and go to is the job's business; or enforce
anything (the cluster's network does, or does not).
"""

from collections.abc import Iterator
from contextlib import suppress

from flamestream.connectors.kit.spec import address_of
from flamestream.job.manifest import Spec
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import JOB, Object, dependent


def build_network_policy(job: Object, spec: Spec) -> Object:
    """The NetworkPolicy of all pods of the job."""
    name = job["metadata"]["name"]
    rules: list[Object] = [{"from": [{"podSelector": {"matchLabels": {JOB: name}}}]}]
    if ports := sorted(set(_listened(spec))):
        # A rule without `from` lets everybody in: `pods.clients` was left out.
        clients = {"from": [dict(each) for each in spec.pods.clients]} if spec.pods.clients else {}
        rules.append({**clients, "ports": [{"protocol": "TCP", "port": port} for port in ports]})
    policy = {"podSelector": {"matchLabels": {JOB: name}}, "policyTypes": ["Ingress"], "ingress": rules}
    return dependent("NetworkPolicy", job, names.network_policy(name), spec=policy)


def _listened(spec: Spec) -> Iterator[int]:
    if spec.queries is not None:
        yield address_of(spec.queries.listen)[1]
    for written in (*spec.sources.values(), *spec.sinks.values()):
        for settings in written.values():
            listen = settings.get("listen") if isinstance(settings, dict) else None
            with suppress(ValueError):  # no address: the driver refuses it by name
                yield address_of(str(listen))[1]
