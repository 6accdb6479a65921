"""A shadow of a job of this machine: what it says while it compares, round by round, until the job ends.

Does not: compare (audit/shadow/session.py), or say whether it may (take_over.py).
"""

import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from flamestream.audit.shadow.session import Shadow
from flamestream.cli.changes import canary
from flamestream.cli.output import say
from flamestream.cli.snapshots import committed, newest
from flamestream.job.validation import CheckedJob
from flamestream.model.quoted import plain
from flamestream.node.run_folder import RunFolder
from flamestream.node.worker_process import WorkerProcessConfig

PAUSE: Final = 1.0
"""Seconds between two samples."""
LOOK: Final = 0.1
"""Seconds between two looks at what is new."""


def sampled(job: CheckedJob, theirs: RunFolder, runs: WorkerProcessConfig) -> bool:
    """The newest records through both codes, again and again, until somebody ends it. Whether anything differs."""
    differs = False
    with suppress(KeyboardInterrupt):
        while _runs(theirs):
            time.sleep(PAUSE)
            found = canary.wanted(job, theirs, runs)
            say(canary.in_full(found))
            differs |= found.differs or bool(found.refusal)
    return differs


def beside(job: CheckedJob, theirs: RunFolder, runs: WorkerProcessConfig) -> bool:
    """All records behind a snapshot through the code of `job`, with a state of its own, beside what the other job has
    delivered, until somebody ends it. Whether anything differs. Raises UserError for code that does not come to an
    end."""
    with TemporaryDirectory(prefix="flamestream-shadow-") as place, suppress(KeyboardInterrupt):
        while newest(job.job) is None and _runs(theirs):
            time.sleep(LOOK)
        shadow = Shadow(
            job,
            runs.journal,
            partial(newest, job.job),
            partial(committed, job.job, theirs),
            Path(place) / "snapshot",
        )
        shadow.say_unread(_say)
        try:
            _follow(shadow, theirs)
        finally:
            _say(f"shadow: {shadow.total}")
        return shadow.total.differs
    return False


def _follow(shadow: Shadow, theirs: RunFolder) -> None:
    with suppress(KeyboardInterrupt):
        while _runs(theirs):
            if not shadow.step(_say):
                time.sleep(LOOK)
        while shadow.step(_say):  # what was committed last
            pass


def _runs(theirs: RunFolder) -> bool:
    info = theirs.info()
    return info is not None and info.running


def _say(text: str) -> None:
    say(plain(text))
