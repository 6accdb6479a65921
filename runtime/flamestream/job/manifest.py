"""The manifest: a FlameStreamJob in YAML, the same file for a laptop and for a cluster.

`read` gives a `Job`, or a ManifestError that names file, line and field and says what to write instead. An
unknown field is an error, and so is a missing setting that decides where data lives or what is promised:
nothing important has a silent default.

Keeps: two readings of one file are equal. Does not: look at the graph (validation.py), or open a source or a
sink.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from flamestream.connectors import clients, sinks, sources
from flamestream.job.located import MAX_CHARACTERS, Document, parse
from flamestream.job.located import Path as FieldPath
from flamestream.job.manifest_cluster import ClusterSpec, Resources
from flamestream.job.manifest_errors import field_error, suggestion
from flamestream.job.manifest_parts import Free, ObjectName, Seconds
from flamestream.job.manifest_parts import Part as _Part
from flamestream.job.manifest_queries import Queries, Tls
from flamestream.job.manifest_rules import idle_settings
from flamestream.job.manifest_tracing import Tracing
from flamestream.model.errors import ManifestError
from flamestream.model.slot import DEFAULT_SLOTS, MAX_SLOTS

API_VERSION: Final = "flamestream.dev/v1alpha1"
STRONG: Final = "strong-productions"
"""The one whose functions need not be deterministic."""
BATCHES: Final = "micro-batch"
GUARANTEES: Final = (
    "exactly-once", "exactly-once-2pc", STRONG, "at-most-once", "at-least-once", BATCHES, "none"
)  # fmt: skip
EXACT: Final = ("exactly-once", "exactly-once-2pc", STRONG, "at-most-once", BATCHES)
"""Those that need sinks which can fence."""
HELD: Final = ("exactly-once-2pc", "at-most-once")
"""Those whose output waits for the commit of its epoch."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Metadata(_Part, frozen=True):
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    """Labels for people: in a cluster the object's, and `flamestream validate --json` has them."""


class Application(_Part, frozen=True):
    """The Python file, and the name of the graph in it."""

    file: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Path of the Python file: from the manifest's folder, in a cluster from the ConfigMap, the archive or
    the image's folder."""
    graph: Annotated[str, Meta(min_length=1, max_length=253)]
    """Name of the fs.Graph in the file."""
    config_map: ObjectName | None = None
    """A ConfigMap in the cluster whose keys are the application's files. A change of it is a change of the
    application."""
    py_files: Annotated[list[Annotated[str, Meta(min_length=1, max_length=1024)]], Meta(max_length=32)] = (
        field(default_factory=list)
    )
    """Pure Python for its path: archives (.zip, .whl) and modules (.py), from a path (a mounted volume) or
    s3://bucket/name.zip; with #sha256=HEX behind it, pinned to that content. In a cluster what is not in the
    application's folder must be pinned. The application's file may be at the top of one."""


class Workers(_Part, frozen=True):
    """The number of workers, and what each may use."""

    replicas: Annotated[int, Meta(ge=1, le=256)] | None = None
    """Workers that share the slots; `kubectl scale` changes it. Or say min and max."""
    min: Annotated[int, Meta(ge=1, le=256)] | None = None
    """With max, instead of replicas: as few take part while there is little to do; they begin with so many."""
    max: Annotated[int, Meta(ge=1, le=256)] | None = None
    """As many take part at most. They become more when those that there are were busier than 85% through ten
    seconds, and fewer when through half a minute fewer would have been less busy than 75%, and no source
    waited."""
    balance_after: Seconds | None = None
    """Slots move from the busiest worker to others when it has been busier than the mean by a quarter for so
    long, and that takes a tenth off it: a recovery without a failure. Left out: 5m."""
    standby: Annotated[int, Meta(ge=0, le=16)] = 0
    """Started workers without slots, which take over at once."""
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = DEFAULT_SLOTS
    """Virtual partitions; fixed for the life of the job."""
    resources: Resources = field(
        default_factory=lambda: Resources(requests={"cpu": "200m"}, limits={"memory": "2Gi"})
    )
    """Requests and limits of a worker's container in a cluster. Spark makes its memory's request equal to the
    limit."""

    @property
    def least(self) -> int:
        """As many workers take part at first, and never fewer are wanted."""
        least = self.replicas or self.min
        assert least is not None, "checked when the manifest is read"
        return least

    @property
    def most(self) -> int:
        """Never more are wanted."""
        return self.max or self.least


class Checkpoint(_Part, frozen=True):
    """The interval of epochs, and the place of snapshots."""

    interval: Seconds
    """Time between two epochs, like 50ms, 1s, 2m. Results never wait for it."""
    store: Annotated[str, Meta(min_length=1, max_length=1024)]
    """A folder, or s3://bucket/prefix (with ?endpoint=http://host:port&region=name if needed); in a cluster
    the latter."""
    secret: ObjectName | None = None
    """A Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. A cluster needs it: the operator does not
    lend its own identity."""


class JournalTopic(_Part, frozen=True):
    """A compacted topic, for this job alone."""

    topic: Annotated[str, Meta(min_length=1, max_length=249, pattern=r"^[-._a-zA-Z0-9]+$")]
    """Made if it is not there: compacted, a partition for each reader of a source."""
    brokers: Annotated[str, Meta(max_length=1024)] = ""
    """host:port, several separated by commas; left out: brokers, settings and secrets are those of the job's
    Kafka source."""
    settings: Free = field(default_factory=dict)
    """The Kafka client's own, text to a plain value."""
    secrets: Free = field(default_factory=dict)
    """Settings that are secret: {env: NAME} or {file: PATH} each."""


class JournalSettings(_Part, frozen=True):
    """The place where the order of journalled sources is kept: a folder or a topic."""

    folder: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    """A folder; in a cluster on a volume that a lost node cannot take, or zookeeper:// for the cluster's
    ZooKeeper."""
    kafka: JournalTopic | None = None
    """Instead of a folder: a topic, which the brokers keep as safely as its replicas say."""
    fsync: bool = True
    """Whether a folder's journal survives the machine, and not only the processes."""
    keep: bool = False
    """Keep everything, so that `audit` can read the input again."""
    shared: bool = False
    """You promise that the folder is one and the same on every node though its volume does not say so (NFS
    mounted by the hosts)."""


class DeadLetter(_Part, frozen=True):
    """Error items go to a sink of their own."""

    dead_letter: str
    """Name of the sink that error items go to."""


class SparkSettings(_Part, frozen=True):
    """Spark's own settings."""

    master: str | None = None
    """Spark's master URL; left out: local, as wide as the job has workers and standbys. A cluster does not
    look at it."""
    conf: Annotated[dict[str, str], Meta(max_length=64)] = field(default_factory=dict)
    """Spark settings, text to text."""


class Limits(_Part, frozen=True):
    """Bounds of each source's input that has entered and is not delivered yet. Less means shorter recoveries
    under a backlog."""

    runs: Annotated[int, Meta(ge=1, le=1_000_000)] = 1024
    """Runs, which are what a source has read at once: at this many the source is asked for no more until
    results have left."""
    bytes: Annotated[int, Meta(ge=1)] = 8 << 20
    """Bytes of input: at this many the source is asked for no more until results have left."""


class CallSettings(_Part, frozen=True):
    """How a call of the graph is made here, where that is not as its function says."""

    timeout: Seconds | None = None
    """The time of one try."""
    retries: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    """Tries behind the first one; none of a call that is made once at most."""
    give_up_after: Seconds | None = None
    """How long a request is tried, from its first try on and without the time of outages; where retries are not
    said, as often as it takes."""
    concurrency: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Calls of its function at once, in a worker."""
    pending: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Requests of a worker that may wait for their answer before sources wait too."""
    rate: Annotated[float, Meta(gt=0, lt=1_000_000)] | None = None
    """Calls of its function a second, in a worker."""
    cache: Seconds | None = None
    """How long the results of a request are given to equal ones."""
    order: Literal["none", "key"] | None = None
    """none: answers enter as they come; key: those of a key enter in the order of its requests."""
    doubt: Literal["again", "never"] | None = None
    """again: a request that a failure may have interrupted is made again; never: it becomes an error item, and
    each request is tried once."""

    def changes(self) -> dict[str, int | float | str]:
        """Changes to `model.calls.call.CallSettings`, by its names."""
        written = {
            "timeout": None if self.timeout is None else round(self.timeout * 1_000_000),
            "tries": None if self.retries is None else self.retries + 1,
            "give_up_after": None if self.give_up_after is None else round(self.give_up_after * 1_000_000),
            "concurrency": self.concurrency,
            "pending": self.pending,
            "rate": self.rate,
            "cache": None if self.cache is None else round(self.cache * 1_000_000),
            "order": self.order,
            "doubt": self.doubt,
        }
        return {name: value for name, value in written.items() if value is not None}


class Transactions(_Part, frozen=True):
    """Transactions: when they are decided. It never changes what comes of them."""

    patience: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    """Runs that a transaction may have before it waits until nothing can come below it. 0: it has one, behind a hop
    more; 1_000: it runs whenever what it has read changes. Left out: by what is measured."""


class Spec(ClusterSpec, frozen=True, kw_only=True):
    """A job: what runs, what it reads and writes, what it promises."""

    application: Application
    """The Python file, and the name of the graph in it."""
    sources: Annotated[dict[str, Any], Meta(min_length=1, max_length=16)]
    """The kind and the settings of each source of the graph."""
    sinks: Annotated[dict[str, Any], Meta(min_length=1, max_length=16)]
    """The kind and the settings of each sink of the graph."""
    workers: Workers
    """The number of workers, and what each may use."""
    checkpoint: Checkpoint
    """The interval of epochs, and the place of snapshots."""
    guarantee: str = "exactly-once"
    """exactly-once, exactly-once-2pc (output waits for its epoch), strong-productions (what functions give is
    journalled), at-most-once (output waits for its epoch, and a failure skips what had entered since),
    at-least-once, micro-batch or none."""
    journal: JournalSettings | None = None
    """The place where the order of journalled sources is kept; needed for sources that can be read in one
    order only."""
    on_error: Literal["fail"] | DeadLetter = "fail"
    """fail: stop at an epoch and name the record; {deadLetter: SINK}: error items go to that sink."""
    limits: Limits = field(default_factory=Limits)
    """Bounds of each source's input that has entered and whose results are not delivered yet."""
    calls: Annotated[dict[str, CallSettings], Meta(max_length=64)] = field(default_factory=dict)
    """Settings of calls of the graph, by the call's name, in place of those that its function has."""
    clients: Annotated[dict[str, Any], Meta(max_length=16)] = field(default_factory=dict)
    """Databases and services that functions of calls ask, by the name that they say: call.postgres("NAME"),
    call.redis("NAME")."""
    transactions: Transactions = field(default_factory=Transactions)
    """How transactions of the graph are decided."""
    queries: Queries | None = None
    """A port for those who ask for states of keys while the job runs; left out: nobody can."""
    tracing: Tracing | None = None
    """Traces by OpenTelemetry; left out: none."""
    egress: Annotated[list[str], Meta(max_length=256)] | None = None
    """Hosts (api.example.com, api.example.com:443, *.example.com) and networks (10.0.0.0/8) that calls may
    connect to; left out, any, and on a cluster none unless its chart allows any."""
    debug: bool = False
    """Run every function twice and compare: names one that changes its input or is not deterministic."""
    spark: SparkSettings = field(default_factory=SparkSettings)
    """Spark's own settings."""

    @property
    def batches(self) -> bool:
        """Whether results leave by the batch, which Spark computes: no worker lives as long as the job."""
        return self.guarantee == BATCHES


def changes_of_calls(spec: Spec) -> dict[str, dict[str, int | float | str]]:
    """Settings that the manifest changes of calls, by the calls' names in the graph, in the names of
    `model.calls.call.CallSettings`."""
    return {f"{name}()": settings.changes() for name, settings in spec.calls.items()}


class _File(_Part, frozen=True):
    api_version: str
    kind: str
    metadata: Metadata
    spec: Spec


MANIFEST: Final = _File
"""Every field that a manifest may have."""


class Job(Struct, frozen=True):
    """A manifest that has been read, and where it came from."""

    name: str
    spec: Spec
    document: Document
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The name under which sinks, journal, snapshots and job record are kept: of the job that they began
        with."""
        taken = self.spec.take_over
        return self.name if taken is None else taken.origin or taken.job

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the manifest start from."""
        return Path(self.document.file).absolute().parent

    def path(self, written: str) -> Path:
        """A path of the manifest, absolute."""
        return self.folder / Path(written).expanduser()

    def place(self, written: str) -> str:
        """A path of the manifest, absolute, or the URL that it is."""
        return written if "://" in written else str(self.path(written))

    @property
    def store(self) -> str:
        """The object store's URL; a relative folder is made absolute."""
        return self.place(self.spec.checkpoint.store)

    @property
    def py_files(self) -> list[str]:
        """As they are written, with absolute paths."""
        return [self.place(written) for written in self.spec.application.py_files]

    def source(self, name: str) -> dict[str, Any]:
        """The spec of a source, with absolute paths: files are where the manifest is, whatever the working
        folder of a worker."""
        return sources.placed(self.spec.sources[name], self.folder)

    def sink(self, name: str) -> dict[str, Any]:
        """The spec of a sink, with absolute paths."""
        return sinks.placed(self.spec.sinks[name], self.folder)

    def client(self, name: str) -> dict[str, Any]:
        """The spec of a client of calls, with absolute paths."""
        return clients.placed(self.spec.clients[name], self.folder)

    @property
    def queries(self) -> Queries | None:
        """The port for queries, with absolute paths of its files."""
        found = self.spec.queries
        if found is None:
            return None
        tls = found.tls
        if tls is not None and tls.cert_file is not None and tls.key_file is not None:
            tls = Tls(cert_file=str(self.path(tls.cert_file)), key_file=str(self.path(tls.key_file)))
        token = None if found.token_file is None else str(self.path(found.token_file))
        return msgspec.structs.replace(found, token_file=token, tls=tls)

    def error(self, path: FieldPath, message: str) -> ManifestError:
        """An error that points at a field."""
        return ManifestError(f"{self.document.where(path)}: {message}")


def read(file: Path) -> Job:
    """The job in `file`. Raises ManifestError."""
    try:
        with file.open(encoding="utf-8") as stream:
            text = stream.read(MAX_CHARACTERS + 1)  # a device or a pipe has no end
    except OSError as error:
        raise ManifestError(f"{file}: cannot read the manifest: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{file}: the manifest is not UTF-8 (byte {error.start}): save it as UTF-8"
        ) from error
    return parse_job(text, str(file))


def parse_job(text: str, file: str) -> Job:
    """The job in `text`; `file` is how messages call it."""
    return job_of(parse(text, file))


def job_of(document: Document) -> Job:
    """The job of a document that was parsed already."""
    try:
        parsed = _converted(document.value)
    except msgspec.ValidationError as error:
        raise field_error(document, str(error), _File, _converted) from error
    job = Job(parsed.metadata.name, parsed.spec, document, parsed.metadata.labels)
    _check(job, parsed)
    return job


def _converted(value: Any) -> _File:
    return msgspec.convert(value, _File, dec_hook=_hook)


def _hook(wanted: type, value: object) -> Seconds:
    assert wanted is Seconds, f"{wanted} is not a type of the manifest"
    return Seconds.parse(value)


def _check(job: Job, parsed: _File) -> None:
    if parsed.api_version != API_VERSION:
        raise job.error(("apiVersion",), f"{parsed.api_version!r} is unknown: write {API_VERSION}")
    if parsed.kind != "FlameStreamJob":
        raise job.error(("kind",), f"{parsed.kind!r} is unknown: write FlameStreamJob")
    if not _NAME.fullmatch(job.name):
        message = (
            f"{job.name!r} is not a DNS label: use up to 63 lower-case letters, digits and '-', not at an end"
        )
        raise job.error(("metadata", "name"), message)
    _check_guarantee(job, job.spec.guarantee)
    journal = job.spec.journal
    if journal is not None and (journal.folder is None) == (journal.kafka is None):
        raise job.error(
            ("spec", "journal"),
            "it needs either a folder or a topic, like {folder: journal} or {kafka: {topic: NAME}}",
        )
    for part in ("sources", "sinks", "clients"):
        for name, setting in getattr(job.spec, part).items():
            if not (
                isinstance(setting, dict)
                and len(setting) == 1
                and all(isinstance(kind, str) for kind in setting)
            ):
                like = "{redis: {url: redis://h:6379}}" if part == "clients" else "{files: {path: data}}"
                raise job.error(
                    ("spec", part, name), f"it needs exactly one kind with its settings, like {like}"
                )
    for place, message in idle_settings(job.spec, Limits()):
        raise job.error(place, message)


def _check_guarantee(job: Job, guarantee: str) -> None:
    if guarantee not in GUARANTEES:
        unknown = f"{guarantee!r} is unknown{suggestion(guarantee, GUARANTEES)}"
        raise job.error(("spec", "guarantee"), f"{unknown}: choose one of {', '.join(GUARANTEES)}")
