"""The input that a job has recorded, read again for an audit.

Does not: read a source (adapters/sources/recorded.py), or interpret the input (testing/reference.py).
"""

from flamestream.adapters import sources
from flamestream.adapters.sources.recorded import RecordedSource
from flamestream.cli.settings_of import fronts_of
from flamestream.cli.validation import CheckedJob
from flamestream.model.time import Time
from flamestream.testing.reference import Run


def recorded_runs(checked: CheckedJob, end: Time) -> list[Run]:
    """All runs below `end` of all fronts."""
    runs = [run for source in recorded_sources(checked) for run in source.below(end)]
    return sorted(runs, key=lambda run: run[0])


def recorded_sources(checked: CheckedJob) -> list[RecordedSource]:
    """Each front's source."""
    journal = checked.job.spec.journal
    kept = str(checked.job.path(journal.folder)) if journal is not None and journal.keep else ""
    fronts = fronts_of(checked)
    return [
        RecordedSource(checked.job.name, front, checked.job.source(front.source), kept, sources.share_of(fronts, front.front))
        for front in fronts
    ]
