"""Results that a job has delivered behind a cut, read from its sinks as they grow, for a comparison by record.

A files sink is followed; of any other kind all is read again at each look, and what was taken before is left out.

Keeps: a result that was delivered twice (`at-least-once`) is one; what waits is bounded. Does not: compare
(audit/canary.py), or wait for a result: below a committed cut all are with their consumers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from flamestream.audit.canary_steps import Outcome, shown
from flamestream.audit.shadow.entered import LeftBehind
from flamestream.connectors import sinks
from flamestream.fenced.tail import Cursor, Tail
from flamestream.job.settings import dead_letter, fronts_of
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.meta import Meta, first_component, floor, time_of_meta
from flamestream.model.payloads import encoding as payloads
from flamestream.model.time import Time, front_of

MOST_WAITING: Final = 1_000_000
"""Results above what was taken."""
_AT_ONCE: Final = 10_000

Items = Iterator[tuple[Meta, Any]]


class Delivered:
    """The results of a job's sinks from a cut on."""

    def __init__(self, checked: CheckedJob, cut: Time, job: str = "") -> None:
        """`job`: its identity in a cluster."""
        self._dead_letter = dead_letter(checked.job.spec)
        self._sources = {each.front: each.source for each in fronts_of(checked)}
        self._since = floor(cut)
        readers = {name: _reader(checked, name, job or checked.job.identity) for name in checked.sinks}
        self._readers = {name: read for name, read in readers.items() if read is not None}
        self._waiting = {name: dict[Meta, tuple[bytes, str]]() for name in self._readers}
        self.unread = tuple(sorted(readers.keys() - self._readers.keys()))
        """Sinks that nobody can read back."""

    def look(self) -> None:
        """Note what is new. Raises LeftBehind if that is too much, and what reading a sink raises."""
        for name, read in self._readers.items():
            waiting = self._waiting[name]
            for meta, payload in read():
                if meta >= self._since and meta not in waiting:
                    waiting[meta] = _digest(payload), shown(payload)
                if len(waiting) > MOST_WAITING:
                    raise LeftBehind(f"more than {MOST_WAITING:,} results of sink {name!r} wait for it")

    def take(self, until: Time) -> tuple[list[Outcome], list[Outcome]]:
        """The results below `until`, and the error items. They are forgotten then."""
        results, errors = list[Outcome](), list[Outcome]()
        end = floor(until)
        for name, waiting in self._waiting.items():
            counts = Counter[tuple[Time, int]]()
            for meta in sorted(meta for meta in waiting if meta < end):
                digest, text = waiting.pop(meta)
                time, position = time_of_meta(meta), first_component(meta)
                index, counts[time, position] = counts[time, position], counts[time, position] + 1
                place = f"a record of {self._sources.get(front_of(time), 'a source')}"
                row = Outcome(time, position, name, index, digest, text, place)
                (errors if name == self._dead_letter else results).append(row)
        self._since = end
        return results, errors

    def compares(self, sink: str) -> bool:
        """Whether what goes to this sink can be compared."""
        return sink in self._readers and sink != self._dead_letter


def _digest(payload: Any) -> bytes:
    return blake2b(payloads.encode(payload), digest_size=16).digest()


def _reader(checked: CheckedJob, name: str, job: str) -> Callable[[], Items] | None:
    """Gives what is new in a sink, or all of it; None: it cannot be read back."""
    spec: Mapping[str, Any] = checked.job.sink(name)
    if (folder := sinks.log_folder(dict(spec))) is not None:
        return partial(_followed, Tail(Path(folder), Cursor()))
    try:
        next(_all_of(spec, name, job), None)
    except UserError:  # a socket, a server that tells nothing
        return None
    return partial(_all_of, spec, name, job)


def _followed(tail: Tail) -> Items:
    while given := tail.next(_AT_ONCE):
        yield from ((each.meta, each.payload) for each in given)


def _all_of(spec: Mapping[str, Any], name: str, job: str) -> Items:
    for meta, _, _, payload in sinks.read(spec, f"spec.sinks.{name}", job):
        yield meta, payload
