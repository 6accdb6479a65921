"""What a job of a cluster is asked by: the Service, the token, and who sees it."""

from typing import Any

import pytest

from flamestream.cli.kubectl import cluster
from flamestream.cli.kubectl.beside import as_launched, pod_beside
from flamestream.job.manifest_queries import Queries
from flamestream.model.errors import ManifestError
from flamestream_operator.jobs.spec import confined, planned
from flamestream_operator.objects import meta
from flamestream_operator.objects.pods import (
    build_driver_config,
    build_driver_pod,
    build_executor_template,
    build_preflight_pod,
    build_trial_pod,
)
from flamestream_operator.objects.queries import build_query_service, build_query_token
from flamestream_operator.objects.small import build_config
from unit.operator.test_objects import JOB, SITE, SPEC, a_launch

OPEN = {"listen": "0.0.0.0:7070"}
OWN = {"listen": "0.0.0.0:7070", "tokenFile": "/etc/mine/token"}


def mounted(pod: dict[str, Any]) -> list[tuple[str, str]]:
    """The Secrets that a pod has, with the places of their volumes."""
    (container,) = pod["spec"]["containers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    secrets = {
        each["name"]: each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each
    }
    return [(secret, places[name]) for name, secret in secrets.items()]


def test_the_service_leads_to_the_workers_of_this_job_that_take_part() -> None:
    made = build_query_service(JOB, Queries("[::]:7071"))
    assert made["metadata"]["name"] == "j-queries"
    assert made["spec"]["selector"] == {
        "flamestream.dev/job": "j",
        "flamestream.dev/role": "worker",
        "flamestream.dev/answers": "true",
    }
    assert [port["port"] for port in made["spec"]["ports"]] == [7071]
    assert cluster.ANSWERS == meta.ANSWERS


def test_workers_alone_see_the_token_of_the_port() -> None:
    launch = a_launch(queries=OPEN)
    place = ("j-queries", "/etc/flamestream/queries")
    assert build_query_token(JOB)["metadata"]["name"] == "j-queries"
    assert place in mounted(build_executor_template(launch))
    assert place in mounted(build_trial_pod(launch))
    files = {"driver-a.json": build_driver_config(launch), "executor.json": build_executor_template(launch)}
    for pod in (
        build_driver_pod(launch),
        build_preflight_pod(launch, "p"),
        pod_beside(build_driver_pod(launch), JOB, ["query"]),
        pod_beside(as_launched(build_config(JOB, launch.pod, files)), JOB, ["query"]),
    ):
        assert "j-queries" not in dict(mounted(pod))


def test_nobody_asks_without_a_token() -> None:
    """The port's is the job's own, where it names none."""
    assert confined({**SPEC, "queries": OPEN}, SITE)["queries"] == {
        **OPEN,
        "tokenFile": "/etc/flamestream/queries/token",
    }
    assert confined({**SPEC, "queries": OWN}, SITE)["queries"] == OWN
    assert "j-queries" not in dict(mounted(build_executor_template(a_launch(queries=OWN))))


def test_workers_see_a_certificate_of_a_secret_and_clients_find_it_at_its_place() -> None:
    sealed = {**OPEN, "tls": {"secret": "bank-tls"}}
    launch = a_launch(queries=sealed)
    place = ("bank-tls", "/etc/flamestream/queries-tls")
    assert place in mounted(build_executor_template(launch))
    assert "bank-tls" not in dict(mounted(build_driver_pod(launch)))
    assert confined({**SPEC, "queries": sealed}, SITE)["queries"]["tls"] == {
        "certFile": f"{place[1]}/tls.crt",
        "keyFile": f"{place[1]}/tls.key",
    }
    own = {**OPEN, "tls": {"certFile": "/mine/a.crt", "keyFile": "/mine/a.key"}}
    assert confined({**SPEC, "queries": own}, SITE)["queries"]["tls"] == own["tls"]


@pytest.mark.parametrize("other", [{"listen": "0.0.0.0:7071"}, OWN, {**OPEN, "share": 0.5}, None], ids=str)
def test_another_port_comes_with_new_pods_and_the_run_goes_on(other: Any) -> None:
    before, after = (planned(JOB, {**SPEC, "queries": each}, SITE, "digest") for each in (OPEN, other))
    assert before.revision != after.revision
    assert before.code == after.code


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_a_port_that_no_other_pod_reaches_is_refused(host: str) -> None:
    with pytest.raises(ManifestError, match=r'spec\.queries\.listen.*write listen: "0\.0\.0\.0:7070"'):
        planned(JOB, {**SPEC, "queries": {"listen": f"{host}:7070"}}, SITE, "digest")
