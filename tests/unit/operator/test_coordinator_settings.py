"""A hosted coordinator is told what a local one is told: both from one function, whatever the manifest
says."""

import uuid
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol.messages import Hello
from flamestream.job.manifest import GUARANTEES, STRONG, parse_job
from flamestream.job.settings import fronts_of, local_coordinator
from flamestream.job.validation import checked_job
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.coordination.hosting import JobToCoordinate
from flamestream_operator.jobs.effects import SILENCE, settings_of
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import planned
from flamestream_operator.jobs.stream_effects import with_secrets
from flamestream_operator.site import Site

SITE = Site(coordinator="o:1", zookeeper=ZooKeeperAccess("z:1", "o:s"), image="i")
CHANGES: list[dict[str, Any]] = [
    *({"guarantee": guarantee} for guarantee in GUARANTEES if guarantee != STRONG),
    {"guarantee": STRONG, "journal": {"folder": "zookeeper://"}},
    {"workers": {"replicas": 5, "slots": 32, "standby": 2}},
    {"checkpoint": {"interval": "20ms", "store": "s3://b/p", "secret": "store"}},
    {
        "sources": {"numbers": {"kafka": {"brokers": "b:1", "topic": "t", "readers": 3}}},
        "journal": {"kafka": {"topic": "j"}},
    },
]


def both(tmp_path: Path, change: dict[str, Any]) -> tuple[Settings, Settings]:
    """Of one manifest: what a launcher's coordinator is told, and what the operator's is once its first
    worker has come."""
    file = f"application_{uuid.uuid4().hex}.py"  # a name can be loaded once in a process
    (tmp_path / file).write_text(
        'import flamestream as fs\ngraph = fs.Graph("g")\ngraph.source("numbers").map(str).sink("out")\n'
    )
    spec = {
        "application": {"file": file, "graph": "graph"}, "sources": {"numbers": {"generator": {}}},
        "sinks": {"out": {"files": {"path": "/out"}}}, "workers": {"replicas": 2},
        "checkpoint": {"interval": "1s", "store": "s3://b/p", "secret": "store"},
        **change,
    }  # fmt: skip
    job = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": {"name": "j", "namespace": "n"},
        "spec": spec,
    }
    described = {**job, "metadata": {"name": "j"}}
    checked = checked_job(parse_job(msgspec.json.encode(described).decode(), str(tmp_path / "job.json")))
    local, of_calls = local_coordinator(checked), sum(front.of_call for front in fronts_of(checked))
    seen = Observed(now=0, job=job, site=SITE)
    told = with_secrets(settings_of(seen, planned(job, spec, SITE, "")), Memory("uid"))
    hello = Hello(
        WorkerId("w"), "h:1", NO_FENCE, False, local.python, local.graph, code=local.code, clocks=of_calls,
        inventory=local.inventory,
    )  # fmt: skip
    return local, told.settings_with(hello)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_hosted_coordinator_is_told_what_a_local_one_is_told(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    local, hosted = both(tmp_path, change)
    # a trial has judged new code before it runs
    assert hosted == replace(local, job="n.j", heartbeat_us=SILENCE, code_changed=True)


def test_the_guarantee_reaches_both(tmp_path: Path) -> None:
    said = {}
    for change in CHANGES:
        if (guarantee := change.get("guarantee")) is not None:
            hosted = both(tmp_path, change)[1]
            said[guarantee] = (hosted.exactly_once, hosted.two_phase, hosted.durable)
    assert said == {
        "exactly-once": (True, False, True), "exactly-once-2pc": (True, True, True),
        "at-most-once": (True, True, True), STRONG: (True, False, True),
        "at-least-once": (False, False, True), "none": (False, False, False),
        "micro-batch": (True, False, True),
    }  # fmt: skip


def all_different() -> Settings:
    """Each field has a value of its own."""
    values: dict[str, Any] = {
        each.name: f"a {each.name}" if each.type is str else index
        for index, each in enumerate(fields(Settings))
    }
    return Settings(**values)


def test_nothing_stands_between_the_core_s_settings_and_the_coordinator() -> None:
    """A new setting cannot be forgotten on the way: what the operator's core says travels whole."""
    settings = all_different()
    told = JobToCoordinate(settings=settings, token="t", store="s")
    hello = Hello(WorkerId("w"), "h:1", NO_FENCE, False, "p", "g", code="c")
    # Which code runs is known: a record with another one was written by somebody who knows more.
    assert told.settings_with(hello) == replace(settings, code="c", code_changed=False, code_told=True)


def test_the_clocks_of_a_graph_are_fronts_too_though_only_workers_know_them() -> None:
    settings = all_different()
    told = JobToCoordinate(settings=settings, token="t", store="s")
    hello = Hello(WorkerId("w"), "h:1", NO_FENCE, False, "p", "g", code="c", clocks=2)
    assert told.settings_with(hello).fronts == settings.fronts + 2
