"""The audit of a job, for a notebook: its verdict as the headline.

Does not: judge (audit/job_audit.py).
"""

from dataclasses import dataclass

from flamestream.audit.job_audit import audited_here
from flamestream.audit.report import Report, sentence
from flamestream.job.manifest import Job as Manifest
from flamestream.job.validation import checked_job
from flamestream.live.notebook import page
from flamestream.node.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Audited:
    """The verdict on everything that a job has delivered."""

    report: Report

    def __str__(self) -> str:
        return sentence(self.report)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        verdict, *rest = str(self).split("\n")
        judged = "empty" if self.report.empty else "clean" if self.report.clean else "not clean"
        return page(judged, [("verdict", verdict), *(("", line) for line in rest)])


def audit(manifest: Manifest, folder: RunFolder) -> Audited:
    """The audit of a job of this machine, whether it runs or not. Raises as `flamestream audit` fails."""
    return Audited(audited_here(checked_job(manifest), folder))
