"""The status of a drill: how far it is, each fault with what was seen of it, and the verdict with its reason.

A FlameStreamDrill's status is this, and `flamestream drill --json` prints it.

Does not: decide anything (drill.py).
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

Phase = Literal["Pending", "Running", "Auditing", "Passed", "Failed", "Inconclusive"]
OVER: Final[tuple[Phase, ...]] = ("Passed", "Failed", "Inconclusive")
Reason = Literal[
    "", "Clean",
    "NotClean", "OutputStopped", "NotWhole", "NotSaved", "JobFailed",
    "Completed", "FewerFaults", "Idle", "Refused", "NotStruck", "NotAudited", "AuditTimedOut", "JobNotFound",
    "JobDeleted", "NotRunning", "Expired", "Unreadable", "DrillsOff", "DrillDeleted", "Stalled",
]  # fmt: skip
BROKEN: Final[tuple[Reason, ...]] = ("NotClean", "OutputStopped", "NotWhole", "NotSaved", "JobFailed")
"""Reasons of a job that has broken a promise: the drill has Failed."""
Sight = Literal["", "gone", "going", "paused", "cut"]
MOST_FAULTS: Final = 50
MOST_CODES: Final = 16
MOST_DEFINITIONS: Final = 16
Said = Literal["holds", "follows", "broken", "undecided"]
Strict = Literal["", Said]


class _Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """A mapping of the status. Fields that a newer version has written are no error."""


class FaultResult(_Part, frozen=True):
    """A fault that took place, and what it cost."""

    victim: str
    """Name of the worker, pod or process that was struck."""
    time: str
    """When."""
    recovered_ms: float
    """Until the job was whole again."""
    seen: Sight = ""
    """The sight of the fault itself: the victim gone, going (a deletion with grace), paused, or cut off."""
    recovery_ms: float = 0
    """The coordinator's own figure: from the cause to the replay."""
    output_gap_ms: float | None = None
    """The longest time in which no consumer was given anything, between the fault and results of the job that
    is whole again. Left out: not known, because the input had ended, or nobody who was there before the fault
    can tell."""
    gap_resolution_ms: float | None = None
    """So much the gap may be too long: from how often it was looked, or workers reported."""
    then: Literal["output", "ended"] = "output"
    """The course after it: results (output), or the input had ended (ended)."""


class CodeResult(_Part, frozen=True):
    """The share of one version of the application's code."""

    since: int
    """The cut from which on it made results."""
    digest: str
    """The digest of its files."""
    results: int
    """Results that it had to give, those that are not due included."""


class DefinitionResult(_Part, frozen=True):
    """The verdict on a definition of the formal model (docs/reference/histories.md)."""

    definition: int
    """Its number."""
    name: str
    """The property that it defines."""
    printed: Said
    """Whether it holds as printed."""
    strict: Strict = ""
    """The same in its strict form; empty: it has none."""
    reason: Annotated[str, Meta(max_length=1024)] = ""
    """Why it is broken or undecided; what shows it, for 5, 9 and 10."""


class AuditResult(_Part, frozen=True):
    """The verdict of the reference interpreter."""

    clean: bool
    """Whether all output is right, as far as the audit's bounds go."""
    records: int = 0
    """Input."""
    delivered: int = 0
    """Output."""
    lost: int = 0
    """Results that are missing."""
    doubled: int = 0
    """Results that are there twice."""
    reordered: int = 0
    """Results out of order."""
    foreign: int = 0
    """Results that the reference does not have."""
    misplaced: int = 0
    """Results in a slot that is not theirs."""
    not_due: int = 0
    """Results that need not be there yet."""
    missing_input: int = 0
    """Records that have entered, and are not recorded or not there any more."""
    unexpected_input: int = 0
    """Records that are recorded twice, or that the source did not have."""
    complete: bool = False
    """All results had to be there."""
    epoch: int = 0
    """Else those up to this committed epoch."""
    bounds: Annotated[str, Meta(max_length=1024)] = ""
    """Limits of the verdict, in words."""
    input: Annotated[str, Meta(max_length=1024)] = ""
    """The witnesses of the input, in words: the sources read again, or the journal alone."""
    codes: Annotated[list[CodeResult], Meta(max_length=MOST_CODES)] = field(default_factory=list)
    """Where its code was changed, each version whose results were looked at; the newest."""
    first_difference: Annotated[str, Meta(max_length=1024)] = ""
    """The first item that differs."""
    definitions: Annotated[list[DefinitionResult], Meta(max_length=MOST_DEFINITIONS)] = field(
        default_factory=list
    )
    """The formal verdict, where it was asked for."""

    def in_words(self) -> str:
        """The verdict in a line: what must be 0 is always said, the rest where there is something to say, and
        how far the audit goes."""
        always = {"lost": self.lost, "doubled": self.doubled, "reordered": self.reordered}
        other = {
            "that the reference does not have": self.foreign, "in a wrong slot": self.misplaced,
            "not due yet": self.not_due, "records missing from the input": self.missing_input,
            "unexpected ones in it": self.unexpected_input,
        }  # fmt: skip
        words = [f"{count:,} {what}" for what, count in always.items()]
        words += [f"{count:,} {what}" for what, count in other.items() if count]
        limits = "; ".join(filter(None, (self.bounds, self.input)))
        return f"{self.delivered:,} results of {self.records:,} records: {', '.join(words)}" + (
            f" ({limits})" if limits else ""
        )


def codes_in_words(codes: Sequence[CodeResult], outputs: str = "results") -> list[str]:
    """A line for each version of the code, if there were several."""
    if len(codes) < 2:
        return []
    return [
        f"code {each.digest[:12]}: {each.results:,} {outputs}"
        + (f" from the tick at cut {each.since} on" if place else "")
        for place, each in enumerate(codes)
    ]


class DrillStatus(_Part, frozen=True):
    """The state of a drill, and its verdict."""

    phase: Phase = "Pending"
    """Passed: every fault took place, output went on after each, and the audit is clean. Failed: the job has
    broken a promise. Inconclusive: the drill has proved nothing."""
    reason: Reason = ""
    """The verdict in a word. Passed: Clean. Failed: NotClean, OutputStopped, NotWhole, NotSaved, JobFailed.
    Inconclusive: Completed, FewerFaults, Idle, Refused, NotStruck, NotAudited, AuditTimedOut, JobNotFound,
    JobDeleted, NotRunning, Expired, Unreadable; the command line also says DrillsOff, DrillDeleted and
    Stalled."""
    message: Annotated[str, Meta(max_length=1024)] = ""
    """The state or the verdict in a sentence, with what to do if that is on you."""
    asked: int = 0
    """Faults that were asked for."""
    done: int = 0
    """Faults that took place, and that the job came back from."""
    faults: Annotated[list[FaultResult], Meta(max_length=MOST_FAULTS)] = field(default_factory=list)
    """The newest 50."""
    longest_recovery_ms: float = 0
    """The longest recovery of all faults."""
    longest_output_gap_ms: float = 0
    """The longest output gap of all faults whose gap is known."""
    audit: AuditResult | None = None
    """The verdict on the output."""
    job_uid: str = ""
    """The job's uid as the drill began: a job that was deleted and made again is another."""
    since: str = ""
    """When the wait began that is under way; every wait has its bound."""
    struck_at: str = ""
    """When the fault that is under way was made; written before it."""
    seen: Sight = ""
    """The sight of the fault that is under way, so far."""
    whole_at: str = ""
    """When the job was whole, and results were waited for."""
    next_at: str = ""
    """When the next fault is due."""
    victim: str = ""
    """Name of the victim of the fault that is under way."""
    lives: Annotated[list[str], Meta(max_length=1000)] = field(default_factory=list)
    """The lives behind that name: uids of pods, or processes. A successor of the same name is another."""
    peers: int = 0
    """So many could have been struck."""
    attempt: int = 0
    """The job's attempt before the fault that is under way."""
    whole_attempt: int = 0
    """Its attempt when results were waited for."""
    bundles: int = 0
    """Bundles that consumers had acknowledged when results were waited for."""
    entered: int = 0
    """Items that had entered then."""
    epoch: int = 0
    """The epoch that was committed when the job was whole after the newest fault; of an audit: the one that
    it must reach."""
    mark: int = 0
    """Minimal time then: an epoch whose cut is not below it holds what came after the fault."""
    started_at: str = ""
    """When it began."""
    finished_at: str = ""
    """When it ended."""
