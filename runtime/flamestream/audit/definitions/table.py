"""Table: definitions 5 to 10 of a history as rows, and in words.

>>> print(in_words([Row(6, "exactly-once", "holds", "broken", "line 9: ab came where a was due")]))
definition 6   exactly-once        holds; strict: broken: line 9: ab came where a was due

Keeps: what follows from definition 6 is said to follow. Does not: judge anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from flamestream.audit.definitions.judge import EXACTLY, Form, Judged
from flamestream.audit.definitions.properties import Swap
from flamestream.audit.definitions.reasons import counted

Said = Literal["holds", "follows", "broken", "undecided"]
NAMES: Final = {
    5: "consistent output", 6: "exactly-once", 7: "at-most-once", 8: "at-least-once", 9: "non-commutative",
    10: "deterministic",
}  # fmt: skip
UNSEEN: Final = (
    "As printed, definition 6 does not see lost output: a result may be under way for ever, in any order. "
    "Strict: nothing is skipped, and order is kept."
)


@dataclass(frozen=True, slots=True)
class Row:
    """A definition's verdict."""

    definition: int
    name: str
    printed: Said
    strict: Said | None = None
    """None: it has no strict form."""
    reason: str = ""
    """Why it is broken or undecided, as printed or else strictly; what shows it, for 5, 9 and 10."""


def delivery_rows(verdicts: Mapping[Form, Judged], outputs: int, where: str = "") -> list[Row]:
    """Rows of definitions 5 to 8. `outputs`: how many there are; `where`: what the places of a history are
    ("line")."""
    exactly = verdicts[EXACTLY]
    told = f"for {exactly.consistent:,} of {outputs:,} outputs"
    if exactly.outcome != "holds":
        told += f"; {reason_of(exactly, where)}"
    six, *others = (_row(verdicts, number, where) for number in (6, 7, 8))
    others = [replace(row, reason="") if row.reason == six.reason else row for row in others]
    return [Row(5, NAMES[5], exactly.outcome, None, told), six, *others]


def _row(verdicts: Mapping[Form, Judged], number: int, where: str) -> Row:
    printed, strict = verdicts[Form(number)], verdicts[Form(number, strict=True)]
    worse = printed if printed.outcome != "holds" else strict
    reason = "" if worse.outcome == "holds" else reason_of(worse, where)
    return Row(
        number,
        NAMES[number],
        _said(verdicts, number, strict=False),
        _said(verdicts, number, strict=True),
        reason,
    )


def _said(verdicts: Mapping[Form, Judged], number: int, *, strict: bool) -> Said:
    if number != 6 and verdicts[Form(6, strict)].outcome == "holds":
        return "follows"
    return verdicts[Form(number, strict)].outcome


def reason_of(judged: Judged, where: str) -> str:
    """Why a form does not hold, and where."""
    if judged.outcome == "undecided":
        return judged.reason or f"the search of {counted(judged.undecided, 'key')} reached its bound"
    at = f"{where} {judged.place}: " if where and judged.place is not None else ""
    keys = f" ({counted(judged.keys, 'key')})" if judged.keys > 1 else ""
    return f"{at}{judged.reason}{keys}"


def swap_row(swap: Swap) -> Row:
    """Definition 9's row. That no swap changed anything proves nothing."""
    if swap.door:
        told = f"{swap.kind} {swap.door!r}: swapping {swap.first} and {swap.second} changed it"
        return Row(9, NAMES[9], "holds", None, told)
    told = (
        f"none of {counted(swap.tried, 'swap')} of neighbours changed anything"
        if swap.tried
        else "no key has two items that differ"
    )
    return Row(9, NAMES[9], "undecided", None, told)


def determinism_row(records: int, differs: str, told: str = "", *, decided: bool = True) -> Row:
    """Definition 10's row. `differs`: what two interpretations of the first `records` differ in; `told`: what
    else shows it; `decided`: whether equal ones are enough."""
    if differs:
        return Row(10, NAMES[10], "broken", None, f"the same input gave {differs}")
    twice = f"{counted(records, 'record')} interpreted twice gave the same"
    return Row(
        10, NAMES[10], "holds" if decided else "undecided", None, "; ".join(filter(None, [told, twice]))
    )


def in_words(rows: Iterable[Row]) -> str:
    """A line a definition."""
    return "\n".join(f"{f'definition {row.definition}':<14} {row.name:<19} {_verdict(row)}" for row in rows)


def _verdict(row: Row) -> str:
    words = {"follows": "follows from 6"}
    printed = words.get(row.printed, row.printed)
    if row.strict is None:
        return f"{printed}{' ' if row.reason.startswith('for ') else ': ' if row.reason else ''}{row.reason}"
    strict = words.get(row.strict, row.strict)
    if row.printed == row.strict and row.printed == "follows":
        return printed
    of_printed = row.reason if row.printed in ("broken", "undecided") else ""
    of_strict = "" if of_printed else row.reason
    return "; ".join(
        f"{said}{': ' if why else ''}{why}"
        for said, why in ((printed, of_printed), (f"strict: {strict}", of_strict))
    )
