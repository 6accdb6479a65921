"""Canary: the results of the code before and of the new code for the same records, from the same state, compared.

A result is known by its sink, the record that it came of, and which of that record's results there it is: so
results of another graph, whose metas have other traces, are compared too.

    record 17 ->  before  prices: 31, 32      after  prices: 31, 40, 41
                  equal 1, differ 1, only after 1

Keeps: only what both codes have come to is compared. Does not: run a graph (canary_steps.py), or say whether an
upgrade goes on for results that differ: they are what new code is for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flamestream.audit.canary_steps import Outcome, Tried
from flamestream.model.quoted import quoted

EXAMPLES: Final = 5
ENOUGH_KEYS: Final = 3
MUCH_SLOWER: Final = 1.5
"""Times of one record that differ by less are taken for the same: both are measured once."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A result that is another, or is there once."""

    sink: str
    record: str
    """The record that it came of."""
    before: str | None
    """The value, as it is shown; None: there is none."""
    after: str | None

    def __str__(self) -> str:
        before, after = ("none" if text is None else quoted(text) for text in (self.before, self.after))
        return f"{self.sink}, of {self.record}: before {before}, after {after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """All that a canary has found."""

    untried: str = ""
    """The reason why nothing was tried; "": it was."""
    records: int = 0
    """Records that both codes have interpreted."""
    epoch: int = 0
    """The epoch whose snapshot they began with."""
    equal: int = 0
    """Results that both have given."""
    differ: int = 0
    """Results in whose place the new code has given another."""
    only_before: int = 0
    only_after: int = 0
    errors_before: int = 0
    """Records that led to an error item."""
    errors_after: int = 0
    new_errors: int = 0
    """Those of the new code that led to none before."""
    first_error: str = ""
    """The first of them, with its record."""
    micros_before: float = 0.0
    """Microseconds a record, the median of all runs, by the reference interpreter."""
    micros_after: float = 0.0
    differences: tuple[Difference, ...] = ()
    """The first EXAMPLES."""
    notes: tuple[str, ...] = ()
    """Sentences about what was not tried, or is slow."""
    other_keys: tuple[str, ...] = ()
    """Operations that find none of the state that the code before has kept: their key function gives other keys."""
    failed: str = ""
    """The reason why the new code has not come to an end: it does not load, does not answer, kills its process."""

    @property
    def differs(self) -> bool:
        """Whether a result is another."""
        return bool(self.differ or self.only_before or self.only_after)

    @property
    def refusal(self) -> str:
        """Why the new code may not take over; "": it may."""
        way = "Mend it, or set upgrade.canary: 0 in the spec to go on without a canary"
        if self.failed:
            return f"the canary was not survived by the new code: {self.failed}. {way}"
        if self.other_keys:
            return (
                f"the canary has found that operation {self.other_keys[0]!r} keeps its state by other keys in the new "
                "code: it would find nothing that was kept, and nobody would ask for that any more. Give it another "
                f"name (and drop the old one), or put the key function back. {way}"
            )
        if not self.new_errors:
            return ""
        return (
            f"the canary has {counted(self.new_errors, 'error')} that the code before does not give, in "
            f"{counted(self.records, 'record')}: {self.first_error}. {way}"
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the stream's records come."""

    rate: float
    """Records a second; 0: they are read as fast as they can be."""
    workers: int

    @property
    def room(self) -> float:
        """Microseconds that a record may take; 0: nobody waits."""
        return self.workers * 1e6 / self.rate if self.rate else 0.0


def compared(before: Tried, after: Tried, pace: Pace, epoch: int = 0, notes: Sequence[str] = ()) -> Canary:
    """The comparison of what two codes have given."""
    until = min(before.until, after.until)
    old, new = ({row.key: row for row in each.results if row.time < until} for each in (before, after))
    failed, fails = (
        {row.record: row for row in each.errors[::-1] if row.time < until} for each in (before, after)
    )
    others = [row for record, row in sorted(fails.items()) if record not in failed]
    both = old.keys() & new.keys()
    equal = sum(old[key].digest == new[key].digest for key in both)
    return Canary(
        records=min(before.records, after.records), epoch=epoch, equal=equal, differ=len(both) - equal,
        only_before=len(old) - len(both), only_after=len(new) - len(both),
        errors_before=len(failed), errors_after=len(fails), new_errors=len(others),
        first_error=f"{others[0].shown} of {others[0].place}" if others else "",
        micros_before=before.micros, micros_after=after.micros,
        differences=tuple(_differences(old, new)), other_keys=tuple(_other_keys(before, after)),
        notes=(*notes, *_notes(before, after, pace)),
    )  # fmt: skip


def in_words(canary: Canary) -> list[str]:
    """The summary, in one sentence, and what is to be known beside it."""
    if canary.untried:
        return [f"canary: nothing is tried: {canary.untried}"]
    if canary.failed:
        return [f"canary: {canary.failed}"]
    first = (
        f"canary: {counted(canary.records, 'record')} from epoch {canary.epoch} on: {counts_of(canary)}; "
        f"{canary.micros_before:.0f} us a record before, {canary.micros_after:.0f} us after"
    )
    return [first, *canary.notes]


def counts_of(canary: Canary) -> str:
    """Results and errors, in words."""
    counts = [f"{counted(canary.equal, 'result')} equal"]
    for count, what in (
        (canary.differ, "differ"), (canary.only_before, "only before"), (canary.only_after, "only after"),
        (canary.new_errors, "new errors"), (canary.errors_before, "errors before"),
    ):  # fmt: skip
        if count:
            counts.append(f"{count:,} {what}")
    return ", ".join(counts)


def _differences(
    old: dict[tuple[int, int, str, int], Outcome], new: dict[tuple[int, int, str, int], Outcome]
) -> Iterator[Difference]:
    found = 0
    for key in sorted(old.keys() | new.keys()):
        one, other = old.get(key), new.get(key)
        if one is not None and other is not None and one.digest == other.digest:
            continue
        shown = other or one  # a sink does not say where the record stands that a result came of
        assert shown is not None, "the key is of one of them"
        yield Difference(
            shown.sink,
            shown.place,
            None if one is None else one.shown,
            None if other is None else other.shown,
        )
        found += 1
        if found == EXAMPLES:
            return


def _other_keys(before: Tried, after: Tried) -> Iterator[str]:
    """Operations whose keys of then and of now have nothing in common, of enough to tell."""
    for name, keys in before.keys.items():
        now = after.keys.get(name, [])
        if min(len(keys), len(now)) >= ENOUGH_KEYS and not set(keys) & set(now):
            yield name


def _notes(before: Tried, after: Tried, pace: Pace) -> Iterable[str]:
    if after.records < before.records:
        yield (
            f"the new code has come to {after.records:,} of {before.records:,} records in the time that a canary has"
        )
    if after.unanswered > before.unanswered:
        yield (
            f"{counted(after.unanswered, 'request')} of the new code ({before.unanswered:,} before) have no answer in "
            "the journal, and nothing is asked: what would follow from them is not compared"
        )
    if pace.room and after.micros > max(pace.room, MUCH_SLOWER * before.micros):
        yield (
            f"slower than the stream: the new code takes {after.micros:,.0f} us a record, and "
            f"{pace.rate:,.0f} records a second leave {counted(pace.workers, 'worker')} {pace.room:,.0f} us"
        )


def counted(number: int, what: str) -> str:
    """A number of something, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
