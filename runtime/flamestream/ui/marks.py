"""Marks: what happened to a job and when, from the log of its coordinators and from verdicts on it. The page draws them
into its figures.

| kind | a mark of | says |
|---|---|---|
| coordinator | a coordinator that begins | |
| lost | a worker whose link has ended | worker, reason |
| start | a job that comes to run, from nothing that was lost | attempt, its steps in milliseconds |
| recovery | any other attempt that runs | cause, attempt, its steps in milliseconds |
| code | an attempt that runs with another application | the same |
| end | the job's end | outcome, message |
| audit, drill | a verdict | what it is |

Keeps: a mark for each line, whatever else a line says. Does not: read a file (log_files.py).
"""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from flamestream.core.coordinator.changes.upgrade import TURNED
from flamestream.model.decoding import DecodeError, json_decoder

WORDS: Final = (b'"phase"', b'"worker disconnected"', b'"job finished"')
"""Any line that makes a mark has one of these: the others need not be decoded."""
STARTED: Final = "start"
"""The cause of an attempt that recovers from nothing."""
MOST: Final = 1000


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened."""

    at: str
    """A moment as logs have it; of a recovery, when the job ran again."""
    kind: str
    text: str
    worker: str = ""
    attempt: int = 0
    duration_ms: float = 0
    """Milliseconds from its cause to the replay."""
    steps_ms: dict[str, float] = {}
    """The milliseconds of each step, in order: decide, record, open, seal; and replay, which begins at `at`."""


class _Line(msgspec.Struct, frozen=True):
    at: str
    event: str
    phase: str = ""
    attempt: int = 0
    cause: str = ""
    steps_us: dict[str, int] = {}
    worker: str = ""
    reason: str = ""
    outcome: str = ""
    message_: str = ""


_line: Final = json_decoder(_Line)


def mark_of(line: bytes) -> Mark | None:
    """The mark of a line of a coordinator's log; None: it makes none."""
    if not any(word in line for word in WORDS):
        return None
    try:
        found = _line(line)
    except DecodeError:  # a line of another release, or of who prints to the same file
        return None
    return _made(found)


def _made(line: _Line) -> Mark | None:
    match line.event, line.phase:
        case "worker disconnected", _:
            return Mark(at=line.at, kind="lost", text=line.reason, worker=line.worker)
        case "phase", "gathering" if line.attempt == 0:
            return Mark(at=line.at, kind="coordinator", text="a coordinator began")
        case ("phase", "running") | ("replayed", _) if line.steps_us:
            steps = {name: us / 1000 for name, us in line.steps_us.items()}
            kind = {TURNED: "code", STARTED: "start"}.get(line.cause, "recovery")
            return Mark(
                at=line.at, kind=kind, text=line.cause, attempt=line.attempt,
                duration_ms=sum(took for name, took in steps.items() if name != "replay"), steps_ms=steps,
            )  # fmt: skip
        case "job finished", _:
            text = f"{line.outcome}: {line.message_}" if line.message_ else line.outcome
            return Mark(at=line.at, kind="end", text=text)
        case _:
            return None


def mark_of_verdict(kind: str, ended: int, answer: Any) -> Mark | None:
    """The mark of an audit or a drill that has `ended` (microseconds since 1970); None: `answer` is no verdict."""
    if not isinstance(answer, dict) or not answer.keys() & {"verdict", "phase"}:
        return None
    if kind == "audit":
        found = answer["verdict"]
        counts = ", ".join(f"{found.get(name, 0):,} {name}" for name in ("lost", "doubled", "reordered"))
        text = (
            f"{'clean' if answer.get('kept') else 'differs'}: {found.get('delivered', 0):,} results, {counts}"
        )
    else:
        text = f"{answer['phase']}: {answer.get('message', '')}"
    return Mark(at=at_micros(ended), kind=kind, text=text)


def at_micros(when: int) -> str:
    """The moment of a mark, from microseconds since 1970."""
    return datetime.fromtimestamp(when / 1e6, UTC).isoformat(timespec="milliseconds")


def without_repeats(marks: list[Mark]) -> list[Mark]:
    """The marks without a second one of the same recovery, whose steps go to the first: a job may wait and run again
    in one attempt, and the end of a replay is told by itself."""
    seen: dict[tuple[int, str], int] = {}
    kept: list[Mark] = []
    for mark in marks:
        first = seen.setdefault((mark.attempt, mark.text), len(kept)) if mark.attempt else len(kept)
        if first == len(kept):
            kept.append(mark)
        elif len(mark.steps_ms) > len(kept[first].steps_ms):
            kept[first] = msgspec.structs.replace(kept[first], steps_ms=mark.steps_ms)
    return kept
