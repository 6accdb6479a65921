"""All that a job has recorded, as runs for the reference."""

from flamestream.job.recorded import recorded_sources
from flamestream.job.validation import CheckedJob
from flamestream.model.time import Time
from flamestream.reference import Run


def recorded_runs(checked: CheckedJob, end: Time) -> list[Run]:
    """The runs below `end` of all fronts, in the order of time."""
    runs = [run for source in recorded_sources(checked) for run in source.below(end)]
    return sorted(runs, key=lambda run: run[0])
