"""Sources, sinks and clients in the schema: one property a kind, taken from the connectors, so a new kind is
in the CRD by itself.

Does not: know any kind.
"""

import json
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, inspect

from flamestream.connectors import sinks
from flamestream.connectors.installed import client_kinds, sink_kinds, source_kinds
from flamestream.model.errors import FlameStreamError
from flamestream_operator.crd.schema import Schema, schema_of

_RESERVED: Final = {
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
    "namespace", "null", "package", "return", "true", "var", "void", "while",
}  # fmt: skip
"""Words of CEL: a property of such a name needs another spelling."""
_SOME: Final[Schema] = {"minProperties": 1}


def sources_schema() -> Schema:
    """`spec.sources`: one kind for each source."""
    return _mapping(source_kinds(), "source", _SOME)


def sinks_schema() -> Schema:
    """`spec.sinks`: one kind for each sink."""
    return _mapping(sink_kinds(), "sink", _SOME)


def clients_schema() -> Schema:
    """`spec.clients`: one kind for each client of calls."""
    return _mapping(client_kinds(), "client", {})


def _mapping(kinds: Mapping[str, type[Struct]], what: str, least: Schema) -> Schema:
    text = f"Settings of the {what}, see docs/reference/manifest.md."
    has = ", ".join(f"has(self.{_escaped(name)})" for name in sorted(kinds))
    message = f"a {what} has exactly one kind with its settings: one of {', '.join(sorted(kinds))}"
    entry: Schema = {
        "type": "object", "properties": {name: _kind(kind, text) for name, kind in sorted(kinds.items())},
        "x-kubernetes-validations": [{"rule": f"[{has}].filter(x, x).size() == 1", "message": message}],
    }  # fmt: skip
    # The bound is needed: without one the API server refuses the rule for what it might cost.
    return {"type": "object", **least, "maxProperties": 16, "additionalProperties": entry}


def _kind(kind: type[Struct], text: str) -> Schema:
    """The schema of a kind, with every field of the connector's struct.

    Defaults are told and not filled in: what a user has not written is not in the object, so a job is not
    changed by a new version's defaults. A field that is not there is kept, for the operator to refuse with
    the names that are.
    """
    schema = _told(schema_of(kind))
    first = (kind.__doc__ or text).strip().partition("\n\n")[0]
    return {**schema, "description": " ".join(first.split()), "x-kubernetes-preserve-unknown-fields": True}


def _told(schema: Schema) -> Schema:
    """The schema with each default in its field's text."""
    told: Schema = {
        key: _told(value) if isinstance(value, dict) else value
        for key, value in schema.items()
        if key != "default"
    }
    if "default" in schema and isinstance(schema.get("description"), str):
        told["description"] = f"{schema['description']} Default: {json.dumps(schema['default'])}."
    return told


def unfenced_kinds() -> list[str]:
    """Kinds of sinks that cannot fence, whatever their settings: refused under exactly-once."""
    found = []
    for name, kind in sorted(sink_kinds().items()):
        try:
            traits = sinks.describe({name: _least(kind)})
        except FlameStreamError:
            continue  # a kind that cannot be judged without its settings is judged by the operator
        if not traits.fences:
            found.append(name)
    return found


def _least(kind: type[Struct]) -> Schema:
    """The required fields, with something in them."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType), f"{kind} is a struct"
    return {
        field.encode_name: "a:1" if isinstance(field.type, inspect.StrType) else 1
        for field in described.fields
        if field.required
    }


def _escaped(name: str) -> str:
    """CEL's spelling of a property's name."""
    if name in _RESERVED:
        return f"__{name}__"
    return name.replace("__", "__underscores__").replace("-", "__dash__")
