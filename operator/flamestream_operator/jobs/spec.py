"""The plan that a spec asks for, read once a generation: a valid job and its fingerprints, or why it is
refused here.

`code` is what cannot be mixed within a run: a change of it stops the run at an epoch. `revision` is what the
pods are made from: a change of it replaces them one application after the other while the stream goes on.
Everything else (the interval, suspend, labels, policies) restarts nothing.

Keeps: equal specs have equal fingerprints in every operator. Does not: read the application (the driver
does).
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import msgspec

from flamestream.connectors import sources
from flamestream.connectors.kit.spec import address_of
from flamestream.connectors.sources import SourceTraits
from flamestream.job import py_files
from flamestream.job.located import Document
from flamestream.job.manifest import Job, Spec, job_of
from flamestream.job.manifest_rules import UNJOURNALLED, ZOOKEEPER
from flamestream.job.settings import as_written, changed, fields_of
from flamestream.model.errors import FlameStreamError, ManifestError
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.jobs.admission import admit
from flamestream_operator.objects.logins import access_of
from flamestream_operator.objects.meta import Object, identity
from flamestream_operator.objects.pods import QUERIES, QUERIES_TLS
from flamestream_operator.objects.quantities import memory_of
from flamestream_operator.site import Site


@dataclass(frozen=True, slots=True)
class Plan:
    """A spec that can run here."""

    spec: Spec
    sources: Mapping[str, SourceTraits]
    """Traits of each source, as far as they are known without the application."""
    image: str
    code: str
    """Fingerprint of what a run cannot mix."""
    revision: str
    """Fingerprint of what the pods are made from."""
    workers: int
    """How many take part: as the spec says, or between its min and max."""

    @property
    def applications(self) -> dict[str, int]:
        """Tasks of each application."""
        total = self.workers + self.spec.workers.standby
        if not self.spec.high_availability:
            return {"a": total}
        return {"a": (total + 1) // 2, "b": total // 2}


@dataclass(frozen=True, slots=True)
class Desired:
    """The plan that should run, or why there is none."""

    plan: Plan | None
    app_digest: str
    spec: Object
    refusal: str = ""
    """Why the newest spec cannot run here."""
    waits_for: str = ""
    """The ConfigMap that must be read to know whether there is something new."""


def sized(desired: Desired, wanted: int) -> Desired:
    """With as many workers as are `wanted`, where the spec leaves their number open."""
    if desired.plan is None or desired.plan.spec.workers.max is None:
        return desired
    workers = desired.plan.spec.workers
    number = min(max(wanted, workers.least), workers.most)
    return replace(desired, plan=replace(desired.plan, workers=number))


class Specs:
    """The specs of one job that were read last: the newest, and the one that a failed upgrade goes back to.

    Keeps: the same as if each were read anew, which a decision would do two or three times.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Site, Desired]] = []

    def read(self, job: Object, spec: Object, site: Site, app_digest: str) -> Desired:
        """The plan that `spec` asks for, or why it is refused."""
        for place, known in self._known:
            if known.spec == spec and known.app_digest == app_digest and place == site:
                return known
        try:
            found = Desired(planned(job, spec, site, app_digest), app_digest, spec)
        except FlameStreamError as error:
            found = Desired(None, app_digest, spec, refusal=str(error))
        self._known = [(site, found), *self._known[:1]]  # two: the newest, and the stable one of a rollback
        return found


def manifest_of(job: Object, spec: Object) -> Object:
    """The manifest as `flamestream run` would read it."""
    meta = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {"name": meta["name"]},
        "spec": spec,
    }


def confined(spec: Object, site: Site) -> Object:
    """The spec as a driver gets it: without `egress` its calls reach nothing, where the site says so, and nobody
    asks it without a token."""
    if site.allowed.egress == "named" and spec.get("egress") is None:
        spec = {**spec, "egress": []}
    if (queries := spec.get("queries")) is not None:
        given = {"tokenFile": f"{QUERIES}/token"} | {
            key: its for key, its in queries.items() if its is not None
        }
        if (given.get("tls") or {}).get("secret") is not None:
            given["tls"] = {"certFile": f"{QUERIES_TLS}/tls.crt", "keyFile": f"{QUERIES_TLS}/tls.key"}
        spec = {**spec, "queries": given}
    return spec


def read(job: Object, spec: Object) -> Job:
    """The job as the command line reads it. Raises ManifestError."""
    meta = job["metadata"]
    return job_of(Document(manifest_of(job, spec), f"FlameStreamJob {meta['namespace']}/{meta['name']}", {}))


def planned(job: Object, spec: Object, site: Site, app_digest: str) -> Plan:
    """Raises ManifestError: the spec cannot run in this cluster, and why."""
    parsed, meta = read(job, spec).spec, job["metadata"]
    _runs_here(parsed, site)
    traits = sources_of(parsed)
    _journal_survives(parsed, traits)
    admit(parsed, str(meta["namespace"]), site.namespace, site.image, site.allowed)
    image = parsed.image or site.image
    application = parsed.application
    from_image = not application.config_map  # what is in pyFiles is in the spec, by its content
    # The image is code only where the application is in it; else another one replaces pods alone.
    code = [
        application, app_digest, image if from_image else "", parsed.sources, parsed.sinks, parsed.guarantee,
        parsed.on_error, parsed.journal, parsed.workers.slots,
    ]  # fmt: skip
    # A trial that was refused is made again when this is said; left out where nothing is, as ever.
    if parsed.upgrade is not None and parsed.upgrade.drop:
        code.append(parsed.upgrade.drop)
    pods: list[Any] = [
        image, parsed.image_pull_policy, parsed.pods, parsed.driver, parsed.workers.resources,
        parsed.high_availability, parsed.limits, _of_calls(parsed, site), parsed.debug, parsed.spark.conf,
        parsed.checkpoint.secret, _access_of_journal(parsed, job, site),
    ]  # fmt: skip
    pods += [told for told in (parsed.queries, parsed.tracing) if told is not None]
    return Plan(parsed, traits, image, _fingerprint(code), _fingerprint(pods), parsed.workers.least)


def unlike(runs: Spec, wanted: Spec) -> str:
    """The first field that a stream which runs on cannot change, and that is another; "" if there is none."""
    # all that was read of a source that goes must be in the state
    gone = (f"spec.sources.{name}" for name in runs.sources if name not in wanted.sources)
    return changed(as_written(runs), as_written(wanted)) or next(gone, "")


def kept_by(spec: Spec) -> dict[str, str]:
    """Fingerprints of the fields that a stream which runs on cannot change."""
    return {field: _fingerprint(value) for field, value in fields_of(as_written(spec)).items()}


def unlike_kept(kept: Mapping[str, str], wanted: Spec) -> str:
    """As `unlike`, of a spec of which fingerprints alone are known."""
    its = kept_by(wanted)
    gone = (field for field in kept if field.startswith("spec.sources.") and field not in its)
    other = (field for field, value in its.items() if field in kept and kept[field] != value)
    return next(chain(other, gone), "")


def _of_calls(spec: Spec, site: Site) -> Object:
    """Part of the fingerprint that calls decide: their settings and clients, and what they may reach; empty
    where nothing is said."""
    anything = spec.egress is None and site.allowed.egress == "any"
    return {
        "calls": spec.calls,
        "clients": spec.clients,
        "egress": ["any"] if anything else spec.egress or [],
    }


def _access_of_journal(spec: Spec, job: Object, site: Site) -> ZooKeeperAccess | None:
    """Workers with another one cannot write their journal: pods are replaced when it changes."""
    if spec.journal is None or spec.journal.folder != ZOOKEEPER:
        return None
    return access_of(identity(job), site.zookeeper)


def needs_config_map(spec: Object) -> str:
    """Name of the ConfigMap with the application; "": none."""
    application = spec.get("application")
    return str(application.get("configMap") or "") if isinstance(application, dict) else ""


def _runs_here(spec: Spec, site: Site) -> None:
    if not spec.checkpoint.store.startswith("s3://"):
        raise ManifestError("spec.checkpoint.store: in a cluster the store is s3://bucket/prefix")
    if spec.zookeeper is not None and spec.zookeeper.servers != site.zookeeper.hosts:
        raise ManifestError(
            f"spec.zookeeper: this operator keeps all its jobs in {site.zookeeper.hosts}: leave the field out"
        )
    if spec.high_availability and spec.workers.least < 2:
        raise ManifestError(
            "spec.highAvailability: two applications need at least two workers: workers.replicas: 2 (or min: 2)"
        )
    if spec.queries is not None and _is_loopback((listen := address_of(spec.queries.listen))[0]):
        raise ManifestError(
            f"spec.queries.listen: who asks is in another pod, which does not reach {listen[0]} of this one: "
            f'write listen: "0.0.0.0:{listen[1]}"'
        )
    memory = spec.workers.resources.limits.get("memory") or spec.workers.resources.requests.get("memory")
    if memory is None or memory_of(memory) < 512 << 20:
        raise ManifestError(
            "spec.workers.resources: a worker (Python beside a JVM) needs a memory limit of at least 512Mi"
        )
    for written in spec.application.py_files:
        place, pin = py_files.split(written)
        # relative ones are in the ConfigMap or image, which are hashed
        if not pin and (place.startswith("/") or "://" in place):
            raise ManifestError(
                f"spec.application.pyFiles: {written} is not in the application's folder, so it could change "
                "while the job runs: pin it, "
                "with #sha256=HEX behind it (`flamestream validate --json`, or sha256sum)"
            )


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _journal_survives(spec: Spec, traits: Mapping[str, SourceTraits]) -> None:
    """A lost node must not take what the guarantee rests on."""
    if spec.guarantee in UNJOURNALLED:
        return
    # Whether a graph has clocks or calls, which need one too, is for the driver to say: it has the
    # application.
    if spec.journal is not None:
        if problem := _weakness(spec):
            raise ManifestError(
                f"spec.journal.folder: {problem}, so a lost node would take what is journalled with it. Write "
                "folder: zookeeper://, or name a topic instead (kafka: {topic: NAME}), or mount a shared "
                "volume (persistentVolumeClaim, nfs, csi) with pods.volumes, or say journal.shared: true if "
                "the folder is one on all nodes, or choose guarantee: none"
            )
        return
    for name, source in traits.items():
        known = sources.kind_of(spec.sources[name])
        if not source.timed and not (known is not None and known.of_application):
            raise ManifestError(
                f"spec.sources.{name}: this source needs a journal under {spec.guarantee}: add spec.journal"
            )


def sources_of(spec: Spec) -> dict[str, SourceTraits]:
    """Traits of each source, as far as they are known without the application, which is never imported here.
    Raises ManifestError."""
    found = {}
    for name, source in spec.sources.items():
        try:
            found[name] = sources.outlined(source, f"spec.sources.{name}")
        except FlameStreamError as error:
            raise ManifestError(str(error)) from error
    return found


def _weakness(spec: Spec) -> str:
    """Why the journal's folder does not outlive its node; "" if it does."""
    journal = spec.journal
    assert journal is not None, "asked only of a job with a journal"
    if journal.shared or journal.folder is None or "://" in journal.folder:
        return ""  # a topic with one replica in a cluster of several brokers is refused by who opens it
    folder = PurePosixPath(journal.folder)
    mounts = [
        each for each in spec.pods.volume_mounts if folder.is_relative_to(str(each.get("mountPath", "?")))
    ]
    if not mounts:
        return f"{journal.folder} is inside the container"
    volume = next((each for each in spec.pods.volumes if each["name"] == mounts[0]["name"]), {"name": "?"})
    kinds = set(volume) - {"name"}
    if kinds & {"persistentVolumeClaim", "nfs", "csi", "ephemeral", "cephfs", "glusterfs", "azureFile"}:
        return ""
    return f"volume {volume['name']!r} ({', '.join(sorted(kinds)) or 'unknown'}) is on one node"


def _fingerprint(parts: Any) -> str:
    """A hash of the fields that say something: one that a new version brings and nobody sets restarts no
    job."""
    encoded = msgspec.json.encode(_said(msgspec.to_builtins(parts, enc_hook=str)), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:16]


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner for key, each in value.items() if (inner := _said(each)) not in (None, {}, [])}
    return [_said(each) for each in value] if isinstance(value, list) else value
