"""An audit's outcome as a drill keeps it: counts, bounds, and the first difference. `kubectl flamestream audit --json` prints it too.

Does not: audit (audit.py).
"""

from typing import Final

from flamestream.cli.audit import Report, bounds_in_words, input_in_words
from flamestream.job.drill_status import AuditResult

LONGEST: Final = 1000
IN_WORDS: Final = 500


def result_of(report: Report) -> AuditResult:
    """`clean`: as the job's guarantee allows it."""
    found = report.verdict
    return AuditResult(
        clean=report.kept, records=report.records, delivered=found.delivered, lost=found.lost, doubled=found.doubled,
        reordered=found.reordered, foreign=found.foreign, misplaced=found.misplaced, not_due=found.not_due,
        missing_input=sum(each.missing for each in report.input), unexpected_input=sum(each.unexpected for each in report.input),
        complete=report.complete, epoch=report.bounds.epoch, bounds=bounds_in_words(report.bounds)[:IN_WORDS],
        input=input_in_words(report.input)[:IN_WORDS], first_difference=report.first_difference[:LONGEST],
    )  # fmt: skip
