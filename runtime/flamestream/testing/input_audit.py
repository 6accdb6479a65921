"""The audit of an input: is everything recorded that has entered?

An audit of the output alone believes its input: where records are gone from the journal and their results
from the sink, the two agree. So the record of the input is looked at by itself. Each run of a partition
begins where the one before ended, times grow, and what the last commit says of a front (its last stamp, and
the first offset that is not below the cut) is what its runs come to.

>>> entries = [Entry(Time(4096 + n), Partition("p"), Offset(100 * n), 100) for n in (0, 1, 3)]
>>> [found.text for found in contiguity(entries, {}) if isinstance(found, Finding)]
["records 200 to 299 of 'p' not recorded"]

Keeps: what cannot be told from a record that is whole is not called wrong: offsets may skip where a source
says so (`skips`), and what lies there is then asked of the source (audit/recorded.py). Does not: read
anything.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import START, Time


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be. Where offsets have gaps, `count` counts offsets."""

    kind: Literal["missing", "unexpected", "disorder"]
    """missing: has entered, and is not there now. unexpected: is there, and had not entered so. disorder:
    times that do not grow."""
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Offsets between two runs of a source whose offsets may skip."""

    before: Time
    """The run behind them."""
    partition: Partition
    first: Offset
    end: Offset


def contiguity(
    entries: Iterable[Entry],
    begins: Mapping[Partition, Offset],
    start: Offset = Offset(0),
    *,
    skips: bool = False,
) -> Iterator[Finding | Skip]:
    """Holes and overlaps of a journal, and times that do not grow. `begins`: where partitions go on that were
    read before; a new one begins at `start`, or where its first run says that if it has no records. `skips`:
    runs that name their end may begin behind a gap."""
    last, ends = START, dict(begins)
    for entry in entries:
        if entry.time <= last:
            yield Finding("disorder", 1, f"the run at {entry.time} stands behind the one at {last}")
        last = max(last, entry.time)
        # such an entry only says where a partition begins that nobody has read before
        begins_here = entry.count == 0 and entry.end is not None and entry.partition not in ends
        have = entry.first if begins_here else ends.get(entry.partition, start)
        if entry.first > have and skips and entry.end is not None:
            yield Skip(entry.time, entry.partition, have, entry.first)
        elif entry.first > have:
            yield Finding(
                "missing", entry.first - have, f"{records(entry.partition, have, entry.first)} not recorded"
            )
        elif entry.first < have:
            again = min(have, entry.next)
            yield Finding(
                "unexpected",
                again - entry.first,
                f"{records(entry.partition, entry.first, again)} recorded twice",
            )
        # Never back: behind a run that was recorded twice what follows would seem to be missing.
        ends[entry.partition] = max(have, entry.next)


def committed_position(
    entries: Sequence[Entry], position: FrontPosition, cut: Time, begins: Mapping[Partition, Offset]
) -> list[Finding]:
    """Whether the runs below `cut` come to what was committed."""
    below = [entry for entry in entries if entry.time < cut]
    ends = dict(begins)
    for entry in below:
        ends[entry.partition] = max(ends.get(entry.partition, Offset(0)), entry.next)
    found: list[Finding] = []
    for partition in sorted({*ends, *position.offsets}):
        had, has = position.offsets.get(partition, Offset(0)), ends.get(partition, Offset(0))
        if has < had:
            found.append(
                Finding(
                    "missing", had - has, f"{records(partition, has, had)} not recorded, though committed"
                )
            )
        elif has > had:
            text = f"{records(partition, had, has)} recorded below the cut, though not committed"
            found.append(Finding("unexpected", has - had, text))
    if not found and below and below[-1].time != position.last:
        text = f"the last run below the cut is at {below[-1].time}, the committed one at {position.last}"
        found.append(Finding("disorder", 1, text))
    return found


def recounted(count: int, position: FrontPosition) -> list[Finding]:
    """Whether a source that is read again has as many records below the cut, `count`, as had entered."""
    had = sum(position.offsets.values())
    if count < had:
        return [
            Finding(
                "missing",
                had - count,
                f"{had:,} records had entered below the cut, and the source has {count:,} now",
            )
        ]
    if count > had:
        return [
            Finding(
                "unexpected",
                count - had,
                f"{had:,} records had entered, and the source has {count - had:,} more now",
            )
        ]
    return []


def records(partition: Partition, first: int, end: int) -> str:
    """A range of records in words."""
    which = f"record {first}" if end == first + 1 else f"records {first} to {end - 1}"
    return f"{which} of {partition!r}" if partition else which
