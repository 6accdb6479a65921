"""Errors, split by who must act.

| category  | who acts                               | what the engine does |
|-----------|----------------------------------------|-----|
| user      | the author of the job or of its data   | stops at an epoch (or dead-letters) and says where |
| retryable | nobody: the outside is away for now    | tries again, bounded, and shows it in `status` |
| fenced    | nobody: a newer attempt has taken over | this process gives up |
| corrupt   | the operator of the storage            | stops, names the part; never starts from empty state |
| bug       | the authors of FlameStream             | stops with everything that is needed for a report |
"""

from typing import ClassVar


class FlameStreamError(Exception):
    """The base of all errors of the project. The message says what happened, where, and what to do."""

    category: ClassVar[str] = "bug"


class UserError(FlameStreamError):
    """The job, its manifest, its functions or its data are at fault."""

    category = "user"


class ManifestError(UserError):
    """A manifest that cannot be run. The message names the file and the field."""


class GraphError(UserError):
    """A graph that cannot be run. The message names the vertex."""


class ResultLimit(UserError):
    """A function makes more of one item than its graph allows."""


class PayloadError(UserError):
    """A value that cannot be a payload. The message names the type and the way out."""


class RecordError(UserError):
    """A record that is not of the class which the graph says. The message names the field, what is wanted and
    what was given."""


class Retryable(FlameStreamError):
    """The outside is away for now; the same call may succeed later."""

    category = "retryable"


class StoreUnavailable(Retryable):
    """The object store did not answer, is full or read-only, after bounded retries."""


class ClusterStateUnavailable(Retryable):
    """The cluster state did not answer: whether a write took effect is unknown until it is read again."""


class Fenced(FlameStreamError):
    """A newer attempt exists; whoever gets this must change nothing more."""

    category = "fenced"


class Corrupt(FlameStreamError):
    """A durable part is missing, damaged or foreign. The message names it."""

    category = "corrupt"


class Bug(FlameStreamError):
    """An invariant does not hold."""

    category = "bug"


def too_many_results(most: int) -> ResultLimit:
    """A flat_map makes more than `most` results of one item."""
    way_out = "does it end? If these are needed, allow them: fs.Graph(NAME, max_results=...)"
    return ResultLimit(f"it makes more than {most} results of one item: {way_out}")


def too_big_results(most: int) -> ResultLimit:
    """The results that a map or flat_map makes of one item have more than `most` bytes together."""
    way_out = "make less, or allow it: fs.Graph(NAME, max_result_bytes=...)"
    return ResultLimit(f"what it makes of one item takes more than {most} bytes: {way_out}")


def unmatched(where: str, meta: bytes) -> UserError:
    """A tombstone whose item is not there: a function gave one payload for the item and another for its
    tombstone."""
    return UserError(
        f"{where} got a tombstone at {meta.hex()} without its item: a function before it gave two results "
        "for one input. Functions must "
        "not depend on clock, randomness, dict order of foreign data or outside state, nor change their "
        "input; `flamestream run --debug` names the one that does"
    )
