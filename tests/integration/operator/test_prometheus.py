"""Every query of the chart's dashboards and alerts, asked of a real Prometheus that reads the operator's port while
a job runs and loses a worker."""

import asyncio
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import yaml

from flamestream.model.ids import SourceName
from flamestream_operator import metrics
from flamestream_operator.http import Health
from flamestream_operator.kube.readers import Readers
from support import helm
from support.eventually import eventually
from support.operator.accounts import Accounts
from support.operator.figures import Looked
from support.operator.journalled_life import Input, killed, spec_of, started
from support.operator.plain_cluster import APPLICATION, Places, PlainCluster, play
from support.operator.prometheus import Prometheus, prometheus
from support.operator.real_cluster import the_api
from support.ports import free_port

SCALING = Path(__file__).parents[3] / "charts" / "flamestream" / "scaling"
SINCE_THE_BEGINNING = "30m"
"""A recovery that is over has no rate in a shorter time, on a machine that is slow to ask for all the others."""
EMPTY = re.compile(
    "flamestream_job_(late_items_total|waiting_requests|skipped_records|event_time_lag_seconds|audit_clean)"
)
"""What a plain job has none of: event time, calls, at-most-once, drills. Those queries give nothing there, and are
asked of jobs that have it below."""
TIMED = """
import asyncio
import flamestream as fs

graph = fs.Graph("timed")
numbers = graph.source("numbers", str, at=int, unit="s", late="1s")
numbers.window(fs.tumbling("10s"), key=lambda line: int(line) % 5).count().sink("out", key=lambda found: found.key)
totals = graph.table("totals", initial=int)

def add(state: fs.State, line: str) -> int:
    if line == "7":
        raise fs.Abort("a seven")
    state[totals, int(line) % 5] += int(line)
    return int(line)

numbers.transact(add).committed.sink("added", key=lambda number: number)

@fs.call(timeout="1h")
async def never(line: str) -> int:
    await asyncio.sleep(3600)
    return int(line)

numbers.filter(lambda line: int(line) < 2).call(never).sink("answers", key=lambda number: number)
"""
"""Event time with what comes late, transactions of which one is aborted, and a call that is never answered."""
CALL = SourceName("never()")
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


def test_queries_of_event_time_calls_transactions_and_skipping_are_answered_where_there_is_that(
    places: Places,
) -> None:
    """Of two jobs, for no guarantee has it all; and of a verdict, as the drills' reconciler tells it."""
    source, port = Input(places.folder / "in-time"), free_port()

    async def life(cluster: PlainCluster) -> None:
        health = Health(lambda: "", lambda: "", Readers(Accounts()), cluster.jobs.observe)
        runner = await health.serve(port)
        try:
            cluster.name = "timed"
            job = f"{cluster.namespace}.{cluster.name}"
            source.feed(200)
            await timed(cluster, source)
            metrics.audited({job: False})
            known = [query for query in queries() if EMPTY.search(query) or "transaction" in query]
            of_time = [query for query in known if "skipped" not in query]
            assert len(of_time) > 5
            asking = asyncio.create_task(asyncio.to_thread(all_answered, of_time, job))
            while not asking.done():
                source.feed(5)
                source.late(1)
                await cluster.look()
                await asyncio.sleep(0.05)
            await asking
            await cluster.api.delete("FlameStreamJob", cluster.namespace, cluster.name)
            await cluster.until(lambda: cluster.job is None, "it is gone", may_fail=True)
            cluster.name = "skips"
            await skipping(cluster)
            of_skipped = [query for query in known if "skipped" in query]
            asking = asyncio.create_task(
                asyncio.to_thread(all_answered, of_skipped, f"{cluster.namespace}.skips")
            )
            while not asking.done():
                await cluster.look()
                await asyncio.sleep(0.05)
            await asking
        finally:
            metrics.audited({})
            await runner.cleanup()

    def all_answered(asked: list[str], job: str) -> None:
        for query in asked:
            answered(server, query.replace("THE JOB", job), job)

    with prometheus(port, "prometheus") as server:
        play(the_api, places, life)


def queries() -> list[str]:
    """All of the dashboards, and the figures that alerts are of."""
    files = installed()
    found = [query for name in ("fleet.json", "job.json") for query in shown(files[name], "THE JOB")]
    rules = [rule for group in yaml.safe_load(files["alerts.yaml"])["groups"] for rule in group["rules"]]
    return [
        *found,
        *(f"count({name})" for rule in rules for name in re.findall(r"flamestream_\w+", rule["expr"])),
    ]


async def timed(cluster: PlainCluster, source: Input) -> None:
    """The job of TIMED runs, has had late items, and asks."""
    sinks = {
        name: {"files": {"path": str(cluster.places.folder / f"timed-{name}"), "fsync": False}}
        for name in ("out", "added", "answers")
    }
    await cluster.apply(TIMED, **spec_of(source), sinks=sinks)

    def has_it() -> bool:
        told = cluster.told
        return (
            told is not None
            and bool(told.event_times)
            and any(each.waiting.get(CALL) for each in told.workers)
        )

    await cluster.until(has_it, "it knows its time, and waits for an answer")
    source.late(20)
    await cluster.until(lambda: sum((cluster.told or never()).late.values()) > 0, "there were late items")


async def skipping(cluster: PlainCluster) -> None:
    """A job at most once has lost a worker, and skipped what that one had."""
    await cluster.edit_code(APPLICATION)
    await cluster.apply(guarantee="at-most-once")
    await cluster.gives("a job at most once")
    attempt = (cluster.told or never()).attempt
    cluster.kill()
    await cluster.gives("a killed worker's successor", attempt=attempt + 1)
    await cluster.until(lambda: bool((cluster.told or never()).skipped), "it has skipped records")


def never() -> NoReturn:
    raise AssertionError("no coordinator speaks")


def answered(server: Prometheus, query: str, job: str) -> None:
    """There are samples, and numbers in them. Jobs of tests before this one stand still, and have no rates."""

    def numbers() -> bool:
        found = [
            sample for sample in server.samples(query) if sample["metric"].get("exported_job", job) == job
        ]
        return bool(found) and all(math.isfinite(float(sample["value"][1])) for sample in found)

    deadline_of = f"Prometheus has numbers for {query}"
    eventually(numbers, deadline_of)
