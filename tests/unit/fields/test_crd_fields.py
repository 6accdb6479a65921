"""The CRDs have every field that the structs have, and nothing else: what is written is known to `kubectl
explain`."""

from collections.abc import Iterator
from typing import Any

import pytest

from flamestream.connectors.installed import client_kinds, sink_kinds, source_kinds
from flamestream.job.manifest import MANIFEST
from flamestream_operator.api.drill import DrillSpec
from flamestream_operator.api.snapshot import SnapshotSpec
from flamestream_operator.crd import definitions
from support.fields import leaves


def schema_of(definition: dict[str, Any], *path: str) -> dict[str, Any]:
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        found = found["additionalProperties"] if name == "*" else found["properties"][name]
    return found


def properties(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Paths of what holds a value."""
    for name, inner in schema.get("properties", {}).items():
        if inner.get("properties"):
            yield from properties(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@pytest.mark.parametrize(
    ("struct", "definition"),
    [(DrillSpec, definitions.drill()), (SnapshotSpec, definitions.snapshot())],
    ids=["drill", "snapshot"],
)
def test_a_crd_has_the_fields_of_its_struct(struct: type[Any], definition: dict[str, Any]) -> None:
    assert set(properties(schema_of(definition, "spec"))) == {leaf.path for leaf in leaves(struct)}


def test_the_jobs_crd_has_the_fields_of_the_manifest() -> None:
    """But `onError`, a word or a mapping, which a schema can only leave open."""
    of_structs = {
        leaf.path.removeprefix("spec.") for leaf in leaves(MANIFEST) if leaf.path.startswith("spec.")
    }
    assert set(properties(schema_of(definitions.job(), "spec"))) == of_structs - {"onError.deadLetter"}


@pytest.mark.parametrize(
    ("part", "kinds"),
    [("sources", source_kinds()), ("sinks", sink_kinds()), ("clients", client_kinds())],
)
def test_kubectl_explain_knows_every_setting_of_every_source_sink_and_client(
    part: str, kinds: dict[str, type[Any]]
) -> None:
    schema = schema_of(definitions.job(), "spec", part, "*")
    assert set(schema["properties"]) == set(kinds)
    for name, kind in kinds.items():
        told = schema["properties"][name]
        # a format is a word or a mapping: left open
        wanted = {leaf.path for leaf in leaves(kind) if ".avro." not in leaf.path}
        assert set(properties(told)) == wanted, name
        assert all(each["description"] for each in told["properties"].values()), name
        assert told["x-kubernetes-preserve-unknown-fields"], (
            "else the API server drops a misspelt setting without a word"
        )
        assert not filled_in(told), "a job would be changed by a new version's defaults"


def filled_in(schema: Any) -> bool:
    """Whether the API server puts something in that nobody has written."""
    return isinstance(schema, dict) and ("default" in schema or any(map(filled_in, schema.values())))
