"""Identities of traces and spans: computed from a place in the total order, so nobody has to carry them.

A run is sampled by a hash of its time; its trace's id and the ids of its spans are hashes of the job and of
metas. Every worker computes the same, so does a replay, and a span of one worker names its parent on another
without having heard of it.

>>> identities = Identities("sales", every=1)
>>> run = identities.of_run(Time(5))
>>> run == Identities("sales", every=1).of_run(Time(5)), run.id == identities.of_run(Time(6)).id
(True, False)
>>> continued(b"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
Trace(prefix=b'', id=100985939111033328018442752961257817910, caller=67667974448284343)

A record that comes with a caller's context (W3C Trace Context) is in the caller's trace instead, if the caller
samples it; its spans' ids are computed as ever.

Keeps: pure; ids are never 0, which means none. Does not: read or carry `tracestate`.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from flamestream.model.ids import Attempt
from flamestream.model.time import Time

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of all items whose metas begin with `prefix`: those of a run, or of one of its records."""

    prefix: bytes
    id: int
    """128 bits."""
    caller: int = 0
    """The span of whoever sent the record; 0: the trace begins here."""


class Identities:
    """The identities of one job's traces. `every`: of so many runs about one is sampled."""

    def __init__(self, job: str, every: int) -> None:
        self._job, self._every = job.encode(), every
        self._salt = int.from_bytes(blake2b(self._job, digest_size=8).digest(), "big")

    def sampled(self, time: Time) -> bool:
        """Whether the run at `time` is traced: the same for every worker and attempt."""
        mixed = (time ^ self._salt) * 0x9E37_79B9_7F4A_7C15 & _MASK
        mixed = (mixed ^ mixed >> 32) * 0xD6E8_FEB8_6659_FD93 & _MASK
        return not (mixed ^ mixed >> 32) % self._every

    def of_run(self, time: Time) -> Trace:
        """The trace of a run that no caller traces."""
        prefix = time.to_bytes(8, "big")
        return Trace(prefix, self._hash(16, prefix))

    def of_recovery(self, attempt: Attempt) -> Trace:
        """The trace of the recovery that began an attempt."""
        prefix = b"recovery %d" % attempt
        return Trace(prefix, self._hash(16, prefix))

    def span(self, trace: Trace, *place: bytes) -> int:
        """The id of the trace's span at a place: what is done there, and at which item."""
        return self._hash(8, trace.prefix, *place)

    def _hash(self, size: int, *parts: bytes) -> int:
        hashed = blake2b(digest_size=size)
        for part in (self._job, *parts):
            hashed.update(len(part).to_bytes(4, "big") + part)
        return int.from_bytes(hashed.digest(), "big") or 1


def continued(prefix: bytes, traceparent: str) -> Trace | None:
    """The caller's trace, for the items below `prefix`; None: the header is none, or the caller does not
    sample."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    trace, caller = int(match[2], 16), int(match[3], 16)
    return Trace(prefix, trace, caller) if trace and caller and int(match[4], 16) & _SAMPLED else None


def traceparent(trace: int, span: int) -> str:
    """The header that says where a trace goes on."""
    return f"00-{trace:032x}-{span:016x}-01"
