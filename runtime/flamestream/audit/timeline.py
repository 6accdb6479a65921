"""Timeline: the spans of code of a job one behind the other, each interpreted by its own code, from the state
that the one before has left.

    runs   0 ............ T1 .......... T2 ....... until
    code     a, a copy       b, a copy     c, the application of now
    state  -- savepoint -> a -- numbers --> b ------> c

Does not: compare anything (job_audit.py), or say where a copy is (node/kept_code.py).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from flamestream.audit.changed_code import judged_until, spans_behind
from flamestream.audit.code_span import SpanAnswer, SpanRequest, results_in
from flamestream.audit.committed import LastCommit, Savepoint
from flamestream.audit.interpretation import Interpretation, Made
from flamestream.audit.recorded import Recording
from flamestream.audit.span_process import asked
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.job.manifest import STRONG, changes_of_calls
from flamestream.job.settings import dead_letter, fronts_of
from flamestream.job.validation import CheckedJob
from flamestream.model.time import Time
from flamestream.node.kept_code import copy_of


@dataclass(frozen=True, slots=True)
class Before:
    """All that came before the first run that is judged."""

    cut: Time
    savepoint: Savepoint | None = None
    past: Sequence[Recording] = ()
    """The history that the job began with."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The code that a job has had, and how far it can be judged."""

    spans: Sequence[CodeSpan]
    files: Mapping[str, Path]
    """The application of each digest that is at hand."""
    until: Time
    """Results from here on are not judged."""
    told: str
    """A sentence about what changes of code mean for the verdict; "": there were none."""
    alone: bool
    """The code of now is all that is asked: it made what is judged, or the user lets it stand for all."""


def timeline_of(checked: CheckedJob, last: LastCommit, kept: Path | None, *, changed: bool) -> Timeline:
    """The timeline of a job whose newest commit is `last`. `kept`: where copies of its applications are; None:
    there are none. `changed`: the code of now stands for all of it. Raises UserError if nothing can be
    judged."""
    spans = spans_behind(last)
    files = {checked.code: checked.application}
    if kept is not None and not changed:
        digests = {span.digest for span in spans} - files.keys()
        found = {each: copy_of(kept, checked.application, each, checked.py_files) for each in digests}
        files |= {digest: copy for digest, copy in found.items() if copy is not None}
    until, told = judged_until(spans, checked.code, files, all_of_it=changed)
    ours = all(span.digest == checked.code for span in spans if span.since < until)
    return Timeline(() if changed else spans, files, until, told, changed or ours)


def interpreted_along(
    checked: CheckedJob, line: Timeline, entered: Sequence[Recording], before: Before
) -> Interpretation:
    """The results of runs of a timeline, each by the application of its span. Only from the main thread.
    Raises UserError for an application that does not load, and what reading its runs does."""
    spans, until = line.spans, line.until
    ends = [min(end, until) for end in (*(span.since for span in spans[1:]), until)]
    results: dict[str, list[Made]] = {}
    answer = SpanAnswer()
    for number, (span, end) in enumerate(zip(spans, ends, strict=True)):
        if span.since >= until or answer.failed:
            break
        # what lies below the first span is older than what is known of code
        begin = span.since if number else before.cut
        request = _request(checked, span.digest, line.files[span.digest], begin, end)
        answer = asked(
            replace(
                request,
                entered=tuple(dataclasses.replace(each, below=min(each.below, end)) for each in entered),
                past=() if number else tuple(before.past),
                savepoint=None if number else before.savepoint,
                state=answer.state,
            )
        )
        for sink, items in results_in(answer).results.items():
            results.setdefault(sink, []).extend(items)
    return Interpretation(results, {}, answer.failed)


def _request(checked: CheckedJob, code: str, file: Path, begin: Time, end: Time) -> SpanRequest:
    spec = checked.job.spec
    return SpanRequest(
        file=str(file), code=code, graph=spec.application.graph, py_files=checked.py_files,
        productions=spec.guarantee == STRONG, calls=changes_of_calls(spec), fronts=fronts_of(checked),
        slots=spec.workers.slots, dead_letter=dead_letter(spec), begin=begin, end=end,
    )  # fmt: skip
