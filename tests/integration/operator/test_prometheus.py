"""Every query of the chart's dashboards and alerts, asked of a real Prometheus that reads the operator's port while
a job runs and loses a worker."""

import asyncio
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from flamestream_operator import metrics
from flamestream_operator.http import Health
from flamestream_operator.kube.readers import Readers
from support import helm
from support.eventually import eventually
from support.operator.accounts import Accounts
from support.operator.figures import Looked
from support.operator.journalled_life import Input, killed, started
from support.operator.plain_cluster import Places, PlainCluster, play
from support.operator.prometheus import Prometheus, prometheus
from support.operator.real_cluster import the_api
from support.ports import free_port

SCALING = Path(__file__).parents[3] / "charts" / "flamestream" / "scaling"
SINCE_THE_BEGINNING = "30m"
"""A recovery that is over has no rate in a shorter time, on a machine that is slow to ask for all the others."""
EMPTY = re.compile(
    "flamestream_job_(late_items_total|waiting_requests|skipped_records|event_time_lag_seconds|audit_clean)"
)
"""What this job has none of: event time, calls, at-most-once, drills. Those queries are asked and give nothing."""
VALUES = {
    "zookeeper": {"loginSecret": "login", "tls": {"secret": "tls"}},
    "metrics": {"dashboards": True, "alerts": True},
}


def installed() -> dict[str, str]:
    """The files of the ConfigMaps that the chart makes."""
    things = [each for each in yaml.safe_load_all(helm.rendered(VALUES)) if each is not None]
    maps = [each for each in things if each["kind"] == "ConfigMap"]
    return {name: text for each in maps for name, text in each["data"].items()}


def shown(dashboard: str, job: str) -> Iterator[str]:
    """The queries of a dashboard's panels and marks, as Grafana fills them in for a job."""
    found = json.loads(dashboard)
    asked = [target["expr"] for panel in found["panels"] for target in panel["targets"]]
    for expr in (*asked, *(mark["expr"] for mark in found["annotations"]["list"])):
        yield (
            expr.replace("$__rate_interval", SINCE_THE_BEGINNING)
            .replace("$__interval", "1m")
            .replace("$job", job)
        )


def scaling(job: str) -> Iterator[str]:
    """The queries of the examples by which others decide how many workers there are, for this job."""
    keda = yaml.safe_load((SCALING / "keda.yaml").read_text())
    (asked,) = [
        each["metadata"]["query"] for each in keda["spec"]["triggers"] if each["type"] == "prometheus"
    ]
    yield asked.replace("default.inverted-index", job)
    hpa = yaml.safe_load((SCALING / "hpa.yaml").read_text())
    (metric,) = [each["external"]["metric"] for each in hpa["spec"]["metrics"]]
    matchers = ", ".join(f'{label}="{job}"' for label in metric["selector"]["matchLabels"])
    rules = yaml.safe_load((SCALING / "prometheus-adapter.yaml").read_text())["rules"]["external"]
    (rule,) = [rule for rule in rules if rule["name"]["as"] == metric["name"]]
    yield rule["seriesQuery"]
    yield rule["metricsQuery"].replace("<<.LabelMatchers>>", matchers)


def test_every_query_has_an_answer(places: Places) -> None:
    source, port = Input(places.folder / "in"), free_port()

    async def life(cluster: PlainCluster) -> None:
        health = Health(lambda: "", lambda: "", Readers(Accounts()), cluster.jobs.observe)
        runner = await health.serve(port)
        metrics.count_phases(["Running"])  # the operator's own loop does
        try:
            job = f"{cluster.namespace}.{cluster.name}"
            await started(cluster, source, Looked())
            await cluster.until(lambda: has_read_a_start(job), "Prometheus has read that it started")
            await killed(cluster, source, Looked())
            asking = asyncio.create_task(asyncio.to_thread(all_answered, job))
            while not asking.done():  # the stream flows meanwhile
                source.feed(5)
                await cluster.look()
                await asyncio.sleep(0.05)
            await asking
        finally:
            metrics.count_phases([])
            await runner.cleanup()

    def has_read_a_start(job: str) -> bool:
        """A recovery has a rate only beside what was read before it."""
        return bool(server.samples(f'flamestream_job_recovery_seconds_count{{exported_job="{job}"}} == 1'))

    def all_answered(job: str) -> None:
        files = installed()
        queries = [query for name in ("fleet.json", "job.json") for query in shown(files[name], job)]
        assert len(queries) > 40
        for query in queries:
            if EMPTY.search(query):
                assert server.samples(query) == []
            else:
                answered(server, query, job)
        for query in scaling(job):
            answered(server, query, job)
        for group in yaml.safe_load(files["alerts.yaml"])["groups"]:
            for rule in group["rules"]:
                server.samples(rule["expr"])
                for name in re.findall(r"flamestream_\w+", rule["expr"]):
                    if not EMPTY.search(name):
                        answered(server, f"count({name})", job)

    with prometheus(port, "prometheus") as server:
        play(the_api, places, life)


def answered(server: Prometheus, query: str, job: str) -> None:
    """There are samples, and numbers in them. Jobs of tests before this one stand still, and have no rates."""

    def numbers() -> bool:
        found = [
            sample for sample in server.samples(query) if sample["metric"].get("exported_job", job) == job
        ]
        return bool(found) and all(math.isfinite(float(sample["value"][1])) for sample in found)

    deadline_of = f"Prometheus has numbers for {query}"
    eventually(numbers, deadline_of)
