"""The places of a job's sinks in an audit: what stands where users look, beside what was delivered in which
order.

A sink of which nothing else is known (a topic, a table or a hash without `history`) is audited by its place
alone.

Keeps: places are looked at before deliveries and input are read, so whatever stands there is known by then.
Does not: compare (connectors/kit/standing.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flamestream.connectors import sinks
from flamestream.connectors.kit.standing import Findings, Look, Span, Wanted
from flamestream.job.validation import CheckedJob
from flamestream.model.ids import Slot
from flamestream.model.meta import LEAST, Meta
from flamestream.testing.audit import Delivered, Result, Verdict


@dataclass(frozen=True, slots=True)
class PlaceVerdict:
    """The findings at the place of one sink."""

    sink: str
    place: str
    """A table, a hash, a topic: where it is."""
    alone: bool
    """Nothing else says what was delivered: its differences are those of the verdict, and no others are
    looked for."""
    wanted: int
    """Results of the reference, those that are not due included."""
    stands: int
    """Rows, entries, records or events that are there."""
    lost: int
    changed: int
    """There with another value, or with an older one where values are replaced."""
    doubled: int
    foreign: int
    misplaced: int
    reordered: int
    not_due: int
    examples: list[str]
    """The first differences, in words."""
    unknown: list[str]
    """Sentences about what cannot be known there, and why."""

    @property
    def clean(self) -> bool:
        return not (
            self.lost or self.changed or self.doubled or self.foreign or self.misplaced or self.reordered
        )

    def keeps(self, guarantee: str) -> bool:
        """Whether a job with this guarantee may have led to it: under at-least-once repeats do not count."""
        return (replace(self, doubled=0) if guarantee == "at-least-once" else self).clean


def looks_at(checked: CheckedJob, job: str) -> dict[str, Look]:
    """The contents of the places of all sinks that have one. Raises UserError for a place that cannot be
    read."""
    found = {name: sinks.place_of(checked.job.sink(name), name, job) for name in checked.sinks}
    return {name: place.look() for name, place in found.items() if place is not None}


def has_deliveries(checked: CheckedJob, sink: str) -> bool:
    """Whether what was delivered, in its order, is known beside the place (or is all there is to read)."""
    return sinks.has_history(checked.job.sink(sink))


def judged(
    sink: str,
    look: Look,
    results: Sequence[Result],
    deliveries: Sequence[Delivered] | None,
    span: Span,
    *,
    ended: bool,
) -> PlaceVerdict:
    """The verdict on a place, by the reference. `deliveries`: None, nobody knows them. `span`: of what the
    reference has.

    Of a job that has ended everything that was delivered has to stand there, due or not.
    """
    # what a running job has delivered may be on its way to the place
    there = _newest(deliveries or ()) if ended else {}
    wanted = []
    for each in results:
        assert each.slot is not None, "an audit's results say where they belong"
        wanted.append(
            Wanted(each.meta, each.slot, each.payload, each.due or each.meta <= there.get(each.slot, LEAST))
        )
    return _verdict(sink, look.compared(wanted, span), len(wanted), alone=deliveries is None)


def _newest(deliveries: Iterable[Delivered]) -> dict[Slot, Meta]:
    newest: dict[Slot, Meta] = {}
    for item in deliveries:
        newest[item.slot] = max(item.meta, newest.get(item.slot, LEAST))
    return newest


def _verdict(sink: str, found: Findings, wanted: int, *, alone: bool) -> PlaceVerdict:
    count = found.counts.get
    return PlaceVerdict(
        sink=sink, place=found.place, alone=alone, wanted=wanted, stands=found.stands, lost=count("lost", 0),
        changed=count("changed", 0), doubled=count("doubled", 0), foreign=count("foreign", 0),
        misplaced=count("misplaced", 0), reordered=count("reordered", 0), not_due=found.not_due,
        examples=found.examples, unknown=found.unknown,
    )  # fmt: skip


def with_places(verdict: Verdict, places: Iterable[PlaceVerdict]) -> Verdict:
    """And what was found at places that are looked at alone. What is changed is lost, and foreign."""
    for each in places:
        if each.alone:
            verdict = Verdict(
                expected=verdict.expected + each.wanted, delivered=verdict.delivered + each.stands,
                lost=verdict.lost + each.lost + each.changed, not_due=verdict.not_due + each.not_due,
                doubled=verdict.doubled + each.doubled, foreign=verdict.foreign + each.foreign + each.changed,
                misplaced=verdict.misplaced + each.misplaced, reordered=verdict.reordered + each.reordered,
                first_difference=verdict.first_difference or first_of([each]),
            )  # fmt: skip
    return verdict


def first_of(places: Iterable[PlaceVerdict]) -> str:
    """The first difference, with its sink."""
    return next(
        (f"in sink {each.sink!r}, {each.place}: {text}" for each in places for text in each.examples), ""
    )


def in_words(places: Sequence[PlaceVerdict]) -> list[str]:
    """A line for each place, and its first differences."""
    lines = []
    for each in places:
        counts: Mapping[str, int] = {
            "lost": each.lost, "changed": each.changed, "doubled": each.doubled, "foreign": each.foreign,
            "misplaced": each.misplaced, "out of order": each.reordered,
        }  # fmt: skip
        found = (
            ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
            or "as the reference has it"
        )
        lines.append(f"sink {each.sink!r}: {each.place} ({each.stands:,} there): {found}")
        lines += [f"  {text}" for text in each.examples[:3]]
        lines += [f"  not known: {text}" for text in each.unknown]
    return lines
