"""Comparisons of what stands where users look with what the reference has for it: rows, entries, records.

Each comparison takes both sides as forms (plain_values.py) and says what is

    lost       due, and not there
    changed    there, with another value (or, where rows are replaced, an older one)
    doubled    there more often than the reference has it
    foreign    there, and the reference does not have it
    misplaced  there, at a place where its readers do not look
    reordered  behind a later one of its slot

>>> two = [Line(Slot(0), "a", "a", True), Line(Slot(0), "b", "b", True)]
>>> in_order(Findings("a stream"), two, [("b", "entry 1"), ("a", "entry 2")]).counts
{'reordered': 1}

Keeps: nothing counts twice; everything is counted, and the first EXAMPLES are told. Does not: read
(postgres/place.py, redis/place.py, kafka/place.py).
"""

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from flamestream.model.ids import Slot
from flamestream.model.meta import LEAST, Meta

EXAMPLES: Final = 20
Kind = Literal["lost", "changed", "doubled", "foreign", "misplaced", "reordered"]


@dataclass(frozen=True, slots=True)
class Span:
    """The metas of results that the reference has: a restored job begins, and its code may have been
    edited."""

    begins: Meta = LEAST
    until: Meta | None = None

    def __contains__(self, meta: Meta) -> bool:
        return meta >= self.begins and (self.until is None or meta < self.until)


ALL: Final = Span()


@dataclass(slots=True)
class Findings:
    """The differences that an audit of one place found."""

    place: str
    """Where: a table, a hash, a topic."""
    stands: int = 0
    """Rows, entries or records that are there."""
    counts: dict[Kind, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Questions that cannot be answered there, and why."""
    span: "Span" = field(default_factory=lambda: ALL)
    """The metas of the reference's results. What is not theirs may be of others, if there were any."""
    not_due: int = 0
    """Results that are not there, and need not be yet; of a place where values are replaced nobody can
    tell."""

    def add(self, kind: Kind, told: str) -> None:
        """Count a difference, and keep it as an example."""
        if self.span != ALL and kind in ("foreign", "doubled"):
            text = (
                "whose the others are that stand there: they may be of before the job was restored, "
                "or of other code"
            )
            self.unknown += [text] if text not in self.unknown else []
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{kind}: {told}")

    @property
    def clean(self) -> bool:
        """Whether nothing differs."""
        return not self.counts

    def keeps(self, guarantee: str) -> bool:
        """Whether a job with this guarantee may have led to it."""
        return not self.counts.keys() - ({"doubled"} if guarantee == "at-least-once" else set())


class Wanted(NamedTuple):
    """An item that the reference has for a sink. Not `due`: it may be there already, and need not."""

    meta: Meta
    slot: Slot
    payload: Any
    due: bool = True


class Look(Protocol):
    """The content of a place at a moment."""

    @property
    def newest(self) -> Meta | None:
        """The greatest meta there; None: what stands there does not say."""

    def compared(self, wanted: Sequence[Wanted], span: Span = ALL) -> Findings:
        """The difference to these results of the reference. `span`: what stands there of other metas nobody
        knows.

        Raises UserError if it cannot be compared.
        """


class Place(Protocol):
    """The place where the users of one sink's output look."""

    def look(self) -> Look:
        """Content of the place now: what comes meanwhile may be seen or not. Raises UserError if it cannot be
        read."""


class Line(NamedTuple):
    """An expected line of a place that is only added to."""

    slot: Slot
    form: Hashable
    told: str
    due: bool


class Version(NamedTuple):
    """A value of a key, of a place where values are replaced."""

    form: Hashable
    told: str
    due: bool
    key: str
    """The key as messages show it."""


def replaced(
    findings: Findings,
    wanted: Mapping[Hashable, Sequence[Version]],
    found: Iterable[tuple[Hashable, Version]],
) -> Findings:
    """Compare a place that has each key's newest value that is due, or a later one. `wanted`: all versions of
    a key, in their order."""
    seen: set[Hashable] = set()
    for key, there in found:
        findings.stands += 1
        seen.add(key)
        versions = wanted.get(key, ())
        now = _newest_due(versions)
        if not versions:
            findings.add("foreign", f"{there.key} ({there.told}) is not the reference's")
        elif findings.span.until is not None or (now < 0 and findings.span != ALL):
            continue  # it may be of a result that nobody knows
        elif there.form not in {version.form for version in versions[max(now, 0) :]}:
            older = ", an older value" if there.form in {version.form for version in versions} else ""
            findings.add(
                "changed",
                f"{there.key} has {there.told}{older}; the reference has {versions[max(now, 0)].told}",
            )
    for key, versions in wanted.items():
        if key not in seen and (now := _newest_due(versions)) >= 0:
            findings.add("lost", f"{versions[now].key} is not there; the reference has {versions[now].told}")
    return findings


def _newest_due(versions: Sequence[Version]) -> int:
    return max((number for number, version in enumerate(versions) if version.due), default=-1)


def in_any_order(
    findings: Findings, wanted: Sequence[Line], found: Iterable[tuple[Hashable, str]]
) -> Findings:
    """Lines that were added and say nothing of their order."""
    due, known, told = Counter[Hashable](), Counter[Hashable](), dict[Hashable, str]()
    for line in wanted:
        known[line.form] += 1
        due[line.form] += line.due
        told[line.form] = line.told
    there: Counter[Hashable] = Counter()
    for form, text in found:
        findings.stands += 1
        there[form] += 1
        if there[form] > known[form]:
            _too_many(findings, text, known[form])
    for form, count in due.items():
        for _ in range(count - there[form]):
            findings.add("lost", f"{told[form]} is there {there[form]} times, and {count} are due")
        findings.not_due += max(0, known[form] - max(count, there[form]))
    return findings


def in_order(
    findings: Findings,
    wanted: Sequence[Line],
    found: Iterable[tuple[Hashable, str]],
    *,
    trimmed: bool = False,
) -> Findings:
    """Lines that were added in the order of their slots. `trimmed`: a slot's first ones may be gone."""
    left: dict[Hashable, deque[int]] = defaultdict(deque)
    for number, line in enumerate(wanted):
        left[line.form].append(number)
    known = Counter(line.form for line in wanted)
    newest: dict[Slot, int] = {}
    for form, text in found:
        findings.stands += 1
        if not left.get(form):
            _too_many(findings, text, known[form])
            continue
        number = _which(left[form], newest, wanted)
        slot = wanted[number].slot
        if number < newest.get(slot, -1):
            findings.add(
                "reordered", f"{text} is behind a later one of its slot: {wanted[newest[slot]].told}"
            )
        newest[slot] = max(number, newest.get(slot, -1))
    _lacking(findings, wanted, {number for numbers in left.values() for number in numbers}, newest, trimmed)
    return findings


def _which(left: deque[int], newest: Mapping[Slot, int], wanted: Sequence[Line]) -> int:
    """Which of equal lines this one is: the first that may follow, else the first that is left."""
    number = next((number for number in left if number > newest.get(wanted[number].slot, -1)), left[0])
    left.remove(number)
    return number


def _lacking(
    findings: Findings, wanted: Sequence[Line], missing: set[int], newest: Mapping[Slot, int], trimmed: bool
) -> None:
    """Due and not there; or not due, and a later one of its slot is there."""
    first: dict[Slot, int] = {}
    for number, line in enumerate(wanted):
        if number not in missing:
            first.setdefault(line.slot, number)
    for number in sorted(missing):
        line = wanted[number]
        if trimmed and number < first.get(line.slot, len(wanted)):
            continue
        if line.due or number < newest.get(line.slot, -1):
            findings.add("lost", f"{line.told} is not there")
        else:
            findings.not_due += 1


def _too_many(findings: Findings, text: str, known: int) -> None:
    if known:
        findings.add("doubled", f"{text} is there more than {known} time{'s' if known > 1 else ''}")
    else:
        findings.add("foreign", f"{text} is not the reference's")
