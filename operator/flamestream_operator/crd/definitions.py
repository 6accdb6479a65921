"""The three CRDs: schemas with their rules, columns, names. `python -m flamestream_operator.crd.definitions
FOLDER` writes them.

Rules (CEL) stand in for webhooks: what one object says of itself is checked at `kubectl apply` and names its
field; what needs the application, a Secret or a server is checked by the operator and becomes a condition.

Keeps: the files in crds/ are what this makes (a test compares them). Does not: validate
(flamestream.job.manifest).
"""

import sys
from pathlib import Path
from typing import Final

import yaml

from flamestream.job.manifest import EXACT, GUARANTEES, Spec
from flamestream_operator.api.drill import ACTIONS, ELSEWHERE, REFUSALS, DrillSpec, DrillStatus
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.api.snapshot import SnapshotSpec, SnapshotStatus
from flamestream_operator.crd.kinds import clients_schema, sinks_schema, sources_schema, unfenced_kinds
from flamestream_operator.crd.schema import Schema, schema_of

GROUP: Final = "flamestream.dev"
VERSION: Final = "v1alpha1"
HEADER: Final = (
    "# Generated from the structs that validate manifests: "
    "python -m flamestream_operator.crd.definitions crds\n"
)


def job() -> Schema:
    """FlameStreamJob."""
    spec = schema_of(Spec)
    properties = spec["properties"]
    properties["sources"] |= sources_schema()
    properties["sinks"] |= sinks_schema()
    properties["clients"] |= clients_schema()
    properties["guarantee"]["enum"] = [*GUARANTEES]
    spec["x-kubernetes-validations"] = _job_rules()
    for path, rules in _PART_RULES.items():
        part = spec
        for name in path.split("."):
            part = part["properties"][name]
        part["x-kubernetes-validations"] = [_rule(*each) for each in rules]
    columns = {
        "Phase": "string .status.phase", "Guarantee": "string .spec.guarantee",
        "Workers": "string .status.workers.summary", "Attempt": "integer .status.attempt",
        # a number would be old: it is written seldom
        "Epochs": "string .status.conditions[?(@.type=='Checkpointing')].reason",
    }  # fmt: skip
    text = "A streaming job: a graph of pure functions, exactly once."
    definition = _definition("FlameStreamJob", "fsj", text, spec, schema_of(JobResourceStatus), columns)
    (version,) = definition["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [
        _rule(
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
            "metadata.name is a DNS label: up to 63 lower-case letters, digits and '-', not at an end",
        )
    ]
    version["subresources"]["scale"] = {
        "specReplicasPath": ".spec.workers.replicas", "statusReplicasPath": ".status.workers.ready",
        "labelSelectorPath": ".status.workers.selector",
    }  # fmt: skip
    return definition


_PART_RULES: Final[dict[str, list[tuple[str, ...]]]] = {
    "application": [
        (
            "!has(self.pyFiles) || self.pyFiles.all(f, !(f.startsWith('/') || f.contains('://')) || "
            "f.contains('#sha256='))",
            "what is not in the application's folder could change while the job runs: pin it, "
            "s3://bucket/name.zip#sha256=HEX",
            ".pyFiles",
        ),
        ("self.file.endsWith('.py')", "the application is a Python file, NAME.py", ".file"),
    ],
    "checkpoint": [
        (
            "self.store.startsWith('s3://') && self.store.size() > 5",
            "in a cluster the store is s3://bucket/prefix: a folder is on one node, "
            "and the operator could not read it",
            ".store",
        ),
        (
            "!self.store.contains('@')",
            "no keys in a URL: put them into a Secret and name it in checkpoint.secret",
            ".store",
        ),
    ],
    "journal": [
        (
            "has(self.folder) != has(self.kafka)",
            "the journal is either in a folder (or zookeeper://) or in a topic: folder or kafka",
        ),
        (
            "(has(self.folder) && self.folder != 'zookeeper://') || (self.fsync && !self.shared)",
            "fsync and shared are of a folder: remove the lines (ZooKeeper's and the brokers' own settings "
            "decide when they write)",
        ),
    ],
    "workers.resources": [
        (
            "!has(self.requests) || !('memory' in self.requests) || !has(self.limits) || !('memory' in "
            "self.limits)"
            " || self.requests['memory'] == self.limits['memory']",
            "Spark gives a worker one amount of memory, as request and limit: remove requests.memory, "
            "limits.memory counts",
            ".requests",
        ),
    ],
    "workers": [
        (
            "self.slots == oldSelf.slots",
            "slots are fixed for the life of a job: make a new job to change them",
            ".slots",
        ),
        (
            "has(self.replicas) != has(self.max) && has(self.min) == has(self.max)",
            "say how many: replicas: 2, or min: 1 and max: 8 for as many as there is work for",
        ),
        (
            "!has(self.replicas) || self.replicas <= self.slots",
            "a worker without slots would be idle: at most as many replicas as slots",
            ".replicas",
        ),
        (
            "!has(self.max) || (self.max <= self.slots && has(self.min) && self.min <= self.max)",
            "min is at most max, and max at most as many as there are slots",
            ".max",
        ),
    ],
}
"""The rules of parts of a job's spec, by their path: CEL, what a refusal says, and the field."""


def _job_rules() -> list[Schema]:
    kinds = unfenced_kinds()
    unfenced = " || ".join(f"has(self.sinks[name].{kind})" for kind in kinds)
    same = " && ".join(
        f"self.application.{field} == oldSelf.application.{field}" for field in ("file", "graph")
    )
    return [
        _rule(
            f"!(self.guarantee in {list(EXACT)}) || !self.sinks.exists(name, {unfenced})",
            f"exactly-once and at-most-once need sinks that can fence; {' and '.join(kinds)} cannot: choose another "
            "sink, or guarantee at-least-once",
            ".sinks",
        ),
        _rule(
            f"has(self.upgrade) || ({same})",
            "another file or graph may not fit the state: set upgrade.strategy to Restore (keep it, checked) "
            "or Fresh (drop it)",
            ".application",
        ),
        _rule(
            "self.guarantee == oldSelf.guarantee || has(self.upgrade)",
            "another guarantee changes what has been promised: set upgrade.strategy as well",
            ".guarantee",
        ),
        _rule(
            "!self.highAvailability || (has(self.workers.replicas) ? self.workers.replicas : self.workers.min) >= 2",
            "highAvailability runs two applications, so it needs at least two workers: workers.replicas: 2",
            ".highAvailability",
        ),
        _rule(
            "self.checkpoint.store == oldSelf.checkpoint.store",
            "the store holds the state: take a FlameStreamSnapshot and restore it into a new job to move it",
            ".checkpoint",
        ),
    ]


def snapshot() -> Schema:
    """FlameStreamSnapshot."""
    spec = schema_of(SnapshotSpec)
    spec["x-kubernetes-validations"] = [
        _rule("self.job == oldSelf.job", "a snapshot is of one job for ever: make another one", ".job")
    ]
    columns = {
        "Job": "string .spec.job", "Phase": "string .status.phase", "Epoch": "integer .status.epoch",
        "Size": "integer .status.size",
    }  # fmt: skip
    return _definition(
        "FlameStreamSnapshot",
        "fss",
        "A savepoint of a FlameStreamJob.",
        spec,
        schema_of(SnapshotStatus),
        columns,
    )


def drill() -> Schema:
    """FlameStreamDrill."""
    spec = schema_of(DrillSpec)
    spec["x-kubernetes-validations"] = [
        _rule("self == oldSelf", "a drill is carried out once: make another one")
    ]
    spec["properties"]["fault"]["x-kubernetes-validations"] = [
        _rule(
            f"!(self.target in {[*ELSEWHERE]}) || (has(self.targetSelector) && size(self.targetSelector) > "
            "0)",
            "say which pods: targetSelector, like {app: zookeeper}",
            ".targetSelector",
        ),
        _rule(
            f"self.target in {[*ELSEWHERE]} || (!has(self.targetSelector) && !has(self.targetNamespace))",
            "targetSelector and targetNamespace are for zookeeper, store and pod: other targets are the "
            "job's own, or the operator's",
        ),
        _rule(
            "!has(self.pauseFor) || self.action in ['pause', 'cut']",
            "pauseFor is of a pause or a cut: what is killed or deleted is gone at once",
            ".pauseFor",
        ),
        *(
            _rule(f"self.target != '{target}' || self.action in {sorted(ACTIONS[target])}", reason, ".action")
            for target, reason in REFUSALS.items()
        ),
    ]
    columns = {
        "Job": "string .spec.job", "Target": "string .spec.fault.target", "Phase": "string .status.phase",
        "Reason": "string .status.reason", "Faults": "integer .status.done",
        "Lost": "integer .status.audit.lost", "Doubled": "integer .status.audit.doubled",
        "Longest ms": "number .status.longestRecoveryMs", "Gap ms": "number .status.longestOutputGapMs",
    }  # fmt: skip
    text = "A deliberate fault against a FlameStreamJob, with an audited verdict."
    return _definition("FlameStreamDrill", "fsd", text, spec, schema_of(DrillStatus), columns)


def _optional(status: Schema) -> Schema:
    """A status has no defaults: what the operator has not written is not there."""
    return {
        key: _optional(value) if isinstance(value, dict) else value
        for key, value in status.items()
        if key != "default"
    }


def _definition(
    kind: str, short: str, text: str, spec: Schema, status: Schema, columns: dict[str, str]
) -> Schema:
    """The definition of `kind`. `columns`: what `kubectl get` shows before age and message, each a type and a
    path."""
    plural = f"{kind.lower()}s"
    properties = {
        "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}."},
        "kind": {"type": "string", "description": "What this object is."},
        "metadata": {"type": "object"},
        "spec": {"description": "What is wanted.", **spec},
        "status": {
            "description": "What is. Written by the operator.",
            **_optional(status),
            # Who waits by kstatus would take what nobody has looked at yet for what is as it should be.
            "default": {"observedGeneration": -1},
        },
    }
    shown = columns | {"Age": "date .metadata.creationTimestamp", "Message": "string .status.message"}
    printed: list[Schema] = [
        dict(zip(("name", "type", "jsonPath"), (name, *told.split()), strict=True))
        for name, told in shown.items()
    ]
    printed[-1]["priority"] = 1  # only with -o wide
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": text,
                "properties": properties,
                "required": ["spec"],
            }
        },
        "subresources": {"status": {}},
        "additionalPrinterColumns": printed,
    }
    names = {
        "kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower(),
        "shortNames": [short], "categories": ["all", "flamestream"],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"app.kubernetes.io/name": "flamestream"}},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _rule(rule: str, message: str, field: str = "") -> Schema:
    return {"rule": rule, "message": message, **({"fieldPath": field} if field else {})}


def files() -> dict[str, str]:
    """Name and text of each file."""
    made = {"flamestreamjobs": job(), "flamestreamsnapshots": snapshot(), "flamestreamdrills": drill()}
    return {
        f"{name}.yaml": HEADER + yaml.safe_dump(definition, sort_keys=False, width=140)
        for name, definition in made.items()
    }


def main(arguments: list[str]) -> int:
    """Write the files into a folder."""
    folder = Path(arguments[0] if arguments else "crds")
    for name, text in files().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
