"""The input that a job has recorded, read again for an audit.

Does not: read a source (adapters/sources/recorded.py), or interpret the input (testing/reference.py).
"""

from flamestream.adapters import sources
from flamestream.adapters.sources.recorded import RecordedSource
from flamestream.cli.journal_of import journal_of
from flamestream.cli.settings_of import fronts_of
from flamestream.cli.validation import CheckedJob
from flamestream.model.time import START, Time, last_below
from flamestream.testing.reference import Run


def recorded_runs(checked: CheckedJob, end: Time, job: str = "", zookeeper: str = "", cut: Time = START) -> list[Run]:
    """All runs below `end` of all fronts. `job` and `zookeeper` as for `worker_config`: what the workers were told."""
    runs = [run for source in recorded_sources(checked, job, zookeeper, cut) for run in source.below(end)]
    return sorted(runs, key=lambda run: run[0])


def recorded_sources(checked: CheckedJob, job: str = "", zookeeper: str = "", cut: Time = START) -> list[RecordedSource]:
    """Each front's source. `cut`: of the history that the job began with."""
    journal = journal_of(checked.job, zookeeper)
    kept = journal if journal is not None and journal.keep else None
    fronts = fronts_of(checked)
    return [
        RecordedSource(
            job or checked.job.name,
            front,
            checked.job.source(front.source),
            kept,
            sources.share_of(fronts, front.front),
            START if cut == START else last_below(cut, front.front),
        )
        for front in fronts
    ]
