"""The history that a job began with, if it began with one: `bootstrap` made its first epoch of it, and notes
it for audits.

The note is written before the commit, so that no bootstrapped job is without it; one whose bootstrap did not
commit after all is removed by the next start, which knows the job record.

Keeps: a note counts only if the record's first epoch is the bootstrap's. Does not: read the history's rows
(connectors/files/history.py).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from flamestream.connectors import sources
from flamestream.connectors.files.history import standing_in
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.job_record import JobRecord
from flamestream.job.settings import fronts_of
from flamestream.job.validation import CheckedJob
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.time import Time, timestamp_of
from flamestream.node.run_folder import RunFolder

MARK: Final = "bootstrap.json"
"""In the run folder of a job that has begun so."""


class Begun(msgspec.Struct, frozen=True):
    """The history that a job began with, and its end."""

    paths: dict[str, str]
    """Source -> Parquet that stood in for it."""
    cut: int
    """Behind the history."""

    @property
    def time(self) -> Time:
        return Time(self.cut)


def begun(folder: RunFolder) -> Begun | None:
    """The beginning of a run folder's job; None if it began with nothing. Raises UserError if an older
    release wrote it down."""
    mark = folder.path / MARK
    if not mark.exists():
        return None
    try:
        return from_json(mark.read_bytes(), Begun)
    except msgspec.ValidationError:
        raise UserError(
            f"{folder.path}: this job began with a history that was not written down, "
            "so an audit cannot see it"
        ) from None
    except msgspec.DecodeError as error:
        raise Corrupt(
            f"{mark} says how the job began and cannot be read: {error}. Restore it, or no audit can tell"
        ) from error


def history_of(checked: CheckedJob, paths: Mapping[str, str]) -> list[RecordedSource]:
    """The history's sources, in the place of the fronts that they stand in for."""
    found, fronts = [], fronts_of(checked)
    for front in fronts:
        # one reads it, however many read the stream
        if front.source in paths and sources.share_of(fronts, front.front) == 0:
            spec = standing_in(
                paths[front.source], sources.settings_of(checked.job.source(front.source)).gives()
            )
            traits = sources.describe(spec, front.source)
            saved = replace(front, timed=True, run_length=traits.run_length, replayable=True)
            found.append(RecordedSource(checked.job.identity, saved, spec))
    return found


def check_history(began: Begun, last: Time | None) -> None:
    """Raises UserError if the history that ends with `last` (None: it has no rows) is not the one that the
    job began with."""
    if last is not None and timestamp_of(last) != timestamp_of(began.time) - 1:
        raise UserError(
            "the history that the job began with has another number of rows now: restore its files, or the "
            "job cannot be audited"
        )


def settle(folder: RunFolder, record: JobRecord | None) -> None:
    """Before a start: remove the note of a bootstrap that did not commit. `record` is the job's, as it stands
    in the cluster state."""
    # a committed epoch is the bootstrap's own, or follows it
    if record is None or not record.committed:
        (folder.path / MARK).unlink(missing_ok=True)
