"""What how-to/production.md shows to copy is taken by who reads it: chart, operator, metrics, the rights of a
store."""

import json
import re
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY

import flamestream_operator.metrics as shown
from flamestream.connectors import sinks, sources
from flamestream.job.manifest import parse_job
from flamestream.model.errors import ManifestError
from flamestream.store.places import parsed_s3
from flamestream_operator.jobs.admission import admit
from flamestream_operator.site import Allowed
from support import helm
from support.docs.doc_blocks import blocks
from support.installing import ROOT

PAGE = [block for block in blocks() if block.file == "production.md"]


def shows(words: str) -> Any:
    """The document that has these words."""
    (text,) = [block.text for block in PAGE if words in block.text and block.language in ("yaml", "json")]
    return json.loads(text) if text.startswith("{") else yaml.safe_load(text)


VALUES, RIGHTS = shows("watchNamespaces"), shows("2012-10-17")
RULES = yaml.safe_load((helm.CHART / "monitoring" / "alerts.yaml").read_text())
JOB = parse_job(yaml.safe_dump(shows("kind: FlameStreamJob\n")), "job.yaml")


def test_the_chart_takes_the_values() -> None:
    objects = [each for each in yaml.safe_load_all(helm.rendered(VALUES)) if each]
    (operator,) = [each for each in objects if each["kind"] == "Deployment"]
    environment = {
        each["name"]: each.get("value")
        for each in operator["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert environment["FLAMESTREAM_WATCH"] == "streams"
    assert {each["kind"] for each in objects} >= {"ServiceMonitor"} and "StatefulSet" not in {
        each["kind"] for each in objects
    }


def test_the_chart_takes_the_values_of_the_page_behind_a_proxy() -> None:
    (block,) = [each for each in blocks() if each.file == "ui.md" and each.language == "yaml"]
    text = helm.rendered(VALUES | yaml.safe_load(block.text))
    assert "flamestream.example.com" in text and "kubernetes.io/metadata.name: oauth2-proxy" in text


def test_the_operator_takes_the_job_under_these_values() -> None:
    for name in JOB.spec.sources:
        sources.describe(JOB.source(name), f"spec.sources.{name}")
    for name in JOB.spec.sinks:
        assert sinks.describe(JOB.sink(name), f"spec.sinks.{name}").fences
    allowed = VALUES["allow"]
    admit(JOB.spec, "streams", "flamestream-system", "flamestream:1", Allowed(
        images=tuple(allowed["images"]), store_endpoints=tuple(allowed["storeEndpoints"])))  # fmt: skip
    with pytest.raises(ManifestError, match="storeEndpoints"):
        admit(JOB.spec, "streams", "flamestream-system", "flamestream:1", Allowed(store_endpoints=()))


def test_the_rights_are_those_of_the_job_s_store() -> None:
    bucket, prefix, _ = parsed_s3(JOB.spec.checkpoint.store, "store")
    objects, listing = RIGHTS["Statement"]
    assert (
        sorted(objects["Action"]) == ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
        and listing["Action"] == "s3:ListBucket"
    )
    assert (
        objects["Resource"] == f"arn:aws:s3:::{bucket}/{prefix}/*"
        and listing["Resource"] == f"arn:aws:s3:::{bucket}"
    )
    assert listing["Condition"]["StringLike"]["s3:prefix"] == [prefix, f"{prefix}/*"]


def test_the_alerts_ask_for_figures_that_there_are_and_each_is_in_the_table() -> None:
    assert shown.leader
    there = {f"{family.name}{end}" for family in REGISTRY.collect() for end in ("", "_total", "_bucket")}
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in re.findall(r"flamestream_\w+", rule["expr"])}
    assert named <= there, named - there
    told = re.findall(
        r"^\| `(FlameStream\w+)`", (ROOT / "docs/how-to/production.md").read_text(), re.MULTILINE
    )
    assert told == [rule["alert"] for rule in rules]
