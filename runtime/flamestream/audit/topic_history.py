"""Topic history: what stands in the Kafka topics of a job's sources and sinks, as lines of a history,
whichever system wrote it.

Records come first and results behind them, by time; neither leaves the order of its partition. Of a sink with
`form: transactional` committed results are read, of one with `low-latency` all. A result's key is its
record's, as a text.

Keeps: what the topics hold when they are asked. Does not: judge anything (judged_history.py). Memory: all
results.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flamestream.audit.history_file import canonical
from flamestream.connectors import sinks, sources
from flamestream.connectors.kafka.connector import KafkaSinkSpec, KafkaSourceSpec
from flamestream.connectors.kafka.formats import decoder_of
from flamestream.job.manifest import Job
from flamestream.model.errors import UserError
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway
from flamestream.net.kafka.reading import visible

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Message

FORMATS: Final = ("text", "json")
Line = dict[str, Any]
Timed = tuple[int, Line]
"""A line, and when it was seen: milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Written:
    """How much a history has."""

    records: int
    results: int


def written(job: Job, file: Path, failures: Iterable[Timed] = ()) -> Written:
    """The history of a system that has ended, in a new `file`; `failures`, in order, are put between the
    results. Raises UserError for topics that cannot be read, or hold what is neither text nor JSON."""
    counts: Counter[str] = Counter()
    try:
        with file.open("x") as out:
            try:
                for line in _lines(job, failures):
                    out.write(f"{canonical(line)}\n")
                    counts.update(line.keys() & {"in", "out"})
            except BaseException:  # half a history would be judged as a whole one
                file.unlink()
                raise
    except BrokersAway as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}; give a new file") from error
    return Written(counts["in"], counts["out"])


def _lines(job: Job, failures: Iterable[Timed]) -> Iterator[Line]:
    for name in job.spec.sources:
        yield from _records(job, name)
    results = [_by_time(_results(job, name)) for name in job.spec.sinks]
    yield from (line for _, line in merge(failures, *results, key=itemgetter(0)))
    yield {"end": True}


def _records(job: Job, name: str) -> Iterator[Line]:
    where, spec = f"spec.sources.{name}", sources.settings_of(job.source(name), f"spec.sources.{name}")
    if not isinstance(spec, KafkaSourceSpec):
        raise UserError(f"{where}: a history is made of Kafka topics, and this source is none")
    for message in _messages(job, name, spec, where, committed=spec.isolation == "read_committed"):
        yield {"in": name, "partition": message.partition(), "value": _value(message, spec.value, where)}


def _results(job: Job, name: str) -> Iterator[tuple[int, Timed]]:
    """Each with its partition."""
    where, spec = f"spec.sinks.{name}", sinks.settings_of(job.sink(name), f"spec.sinks.{name}")
    if not isinstance(spec, KafkaSinkSpec):
        raise UserError(f"{where}: a history is made of Kafka topics, and this sink is none")
    for message in _messages(job, name, spec, where, committed=spec.form == "transactional"):
        line = {"out": name, "value": _value(message, spec.value, where)}
        if message.key() is not None:
            line["key"] = _read(message, message.key(), "text", where)
        yield message.partition() or 0, (message.timestamp()[1], line)


def _by_time(results: Iterable[tuple[int, Timed]]) -> Iterator[Timed]:
    """Results of all partitions by their times; one that is earlier than the one before it in its partition
    counts as of that one's time."""
    partitions: dict[int, list[Timed]] = {}
    for partition, (at, line) in results:
        theirs = partitions.setdefault(partition, [])
        theirs.append((max(at, theirs[-1][0] if theirs else 0), line))
    return merge(*partitions.values(), key=itemgetter(0))


def _messages(
    job: Job, name: str, spec: KafkaSourceSpec | KafkaSinkSpec, where: str, *, committed: bool
) -> Iterable["Message"]:
    """All that the topic holds now."""
    if spec.value not in FORMATS:
        raise UserError(f"{where}.value: a history is made of values that are {' or '.join(FORMATS)}")
    return visible(Clients(spec, f"{job.name}-{name}"), spec.topic, committed, where)[1]


def _value(message: "Message", form: object, where: str) -> Any:
    return None if message.value() is None else _read(message, message.value(), form, where)


def _read(message: "Message", text: Any, form: Any, where: str) -> Any:
    try:
        return decoder_of(form)(text)
    except ValueError as error:
        at = f"topic {message.topic()!r}, partition {message.partition()}, offset {message.offset()}"
        raise UserError(f"{where}: {at}: {error}") from None
