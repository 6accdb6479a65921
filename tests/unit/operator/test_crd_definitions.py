"""The CRDs: files as generated, a text for every field, defaults that the manifest's reader takes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from flamestream.connectors.files.connector import FILES
from flamestream.job.located import Document
from flamestream.job.manifest import job_of
from flamestream_operator.crd import definitions, kinds
from flamestream_operator.crd.kinds import unfenced_kinds

ROOT = Path(__file__).parents[3]
LEAST = {
    "apiVersion": "flamestream.dev/v1alpha1",
    "kind": "FlameStreamJob",
    "metadata": {"name": "j"},
    "spec": {
        "application": {"file": "j.py", "graph": "graph"},
        "sources": {"numbers": {"generator": {"count": 10}}},
        "sinks": {"out": {"files": {"path": "/out"}}},
        "workers": {"replicas": 2},
        "checkpoint": {"interval": "1s", "store": "s3://bucket/j"},
    },
}


def test_the_files_are_what_the_structs_make() -> None:
    written = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
    assert written == definitions.files(), "run: python -m flamestream_operator.crd.definitions crds"


@pytest.mark.parametrize(
    "definition",
    [definitions.job(), definitions.snapshot(), definitions.drill()],
    ids=lambda d: d["spec"]["names"]["kind"],
)
def test_every_field_has_a_text_and_a_type(definition: dict[str, Any]) -> None:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    bare = [
        path
        for path, field in _fields(schema, "")
        if path not in (".metadata",) and not field.get("description")
    ]
    untyped = [
        path
        for path, field in _fields(schema, "")
        if "type" not in field and not any(key.startswith("x-kub") for key in field)
    ]
    assert (bare, untyped) == ([], [])


def test_the_readers_defaults_are_the_schemas() -> None:
    """A job as kubectl shows it, all defaults filled in, reads as the short one does."""
    schema = definitions.job()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    filled = _defaulted(schema, LEAST["spec"])
    assert filled != LEAST["spec"]
    assert job_of(Document({**LEAST, "spec": filled}, "x", {})).spec == job_of(Document(LEAST, "x", {})).spec


def test_what_cannot_fence_is_in_the_rule() -> None:
    assert {"callback", "discard"} <= set(unfenced_kinds())
    assert not {"files", "socket"} & set(unfenced_kinds())


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("files", "files"),
        ("two-words", "two__dash__words"),
        ("two__words", "two__underscores__words"),
        ("function", "__function__"),
    ],
)
def test_a_rule_spells_a_kind_as_cel_does(monkeypatch: pytest.MonkeyPatch, name: str, spelt: str) -> None:
    monkeypatch.setattr(kinds, "source_kinds", lambda: {name: FILES.source})
    (rule,) = kinds.sources_schema()["additionalProperties"]["x-kubernetes-validations"]
    assert rule["rule"] == f"[has(self.{spelt})].filter(x, x).size() == 1"


def test_a_status_has_no_defaults() -> None:
    """A default in a status would show what nobody has written."""
    schema = definitions.job()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert [path for path, field in _fields(schema, "") if "default" in field] == []


def test_examples_in_the_docs_are_jobs() -> None:
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == "FlameStreamJob":
                job_of(Document(document, str(path), {}))


def _fields(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, field in schema.get("properties", {}).items():
        found += [(f"{path}.{name}", field), *_fields(field, f"{path}.{name}")]
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found += _fields(schema[key], f"{path}.*")
    return found


def _defaulted(schema: dict[str, Any], value: Any) -> Any:
    """As the API server does it."""
    if isinstance(value, dict):
        filled = dict(value)
        for name, field in schema.get("properties", {}).items():
            if name not in filled and "default" in field:
                filled[name] = field["default"]
            if name in filled:
                filled[name] = _defaulted(field, filled[name])
        return filled
    return value
