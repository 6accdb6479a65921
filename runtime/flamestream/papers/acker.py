"""The acker (EDBT, Fig. 9): what is in flight is counted by XOR, and why one ack a message is enough."""

from collections.abc import Iterable, Sequence

from flamestream.core.protocol.ids import MessageIds
from flamestream.core.worker.acker import AckTable
from flamestream.model.ids import MessageId
from flamestream.model.time import END, START, FrontId, Time
from flamestream.papers.report import Report, Table

FRONT = FrontId(1)
RUN = Time(5)
NEXT = Time(6)
Ack = tuple[str, int]
"""(what happened, the ids that are folded in)."""
SENT = "the front sends one"


def run() -> Report:
    """An item on its way, acks that overtake each other, and ids that are not mixed."""
    ids = MessageIds(attempt=1, sender=0)
    one, two = ids.next(), ids.next()
    way: tuple[Ack, ...] = (
        (SENT, one),
        ("f has taken one and sent two", one ^ two),
        ("the barrier has taken two", two),
    )
    overtaken = (way[2], way[1], way[0])
    in_order, times = _folded(way)
    other, other_times = _folded(overtaken)
    early, early_times = _folded(((SENT, one), ("f has taken one, and is about to send two", one)))
    plain, plain_passed = _four_sent([MessageId(number) for number in (4, 5, 6, 7)])
    mixed, mixed_passed = _four_sent([ids.next() for _ in range(4)])
    columns = ("what happened", "folded in", f"in flight at {RUN}", "minimal time")
    return Report(
        "The acker, step by step (EDBT, Fig. 9)",
        "an operation acks what it received only behind what it sent, so the entry of a global time is zero "
        "only when nothing of it is in flight. Send and receipt are two acks there; here an operation gives "
        "one, their XOR, when it is done.",
        (
            Table(
                f"A run at {RUN}, its front's promise of {NEXT}, and one message led to by another",
                columns,
                in_order,
            ),
            Table("The same acks, the last first", columns, other),
            Table("An operation that acks what it took before what it sends", columns, early),
            Table(
                "Four messages in flight: their numbers alone, and as the core mixes them",
                ("ids", "XOR of the four", "minimal time"),
                (plain, mixed),
            ),
        ),
        "Minimal time passes the run with the last ack, in whatever order they come; with two acks in the "
        "wrong order it would pass a message that is still to be sent. Numbers that are only "
        "unique can cancel: 4^5^6^7 = 0.",
        times == other_times == [RUN, RUN, NEXT]
        and early_times == [RUN, NEXT]
        and (plain_passed, mixed_passed) == (True, False),
    )


def _folded(acks: Iterable[Ack]) -> tuple[tuple[tuple[str, ...], ...], list[Time]]:
    """A row an ack, and minimal time behind each. The front promises what is next behind its own ack (!)."""
    table = AckTable([FRONT], RUN)
    rows, times, left = [], list[Time](), 0
    for what, ids in acks:
        table.ack(RUN, MessageId(ids))
        if what == SENT:
            table.promise(FRONT, NEXT)
        left ^= ids
        times.append(table.minimal_time)
        rows.append((what, _hex(ids), _hex(left) if table.oldest == RUN else "nothing", str(times[-1])))
    return tuple(rows), times


def _four_sent(ids: Sequence[MessageId]) -> tuple[tuple[str, ...], bool]:
    """A row, and whether minimal time passes four messages that are in flight."""
    table, left = AckTable([FRONT], START), 0
    for each in ids:
        table.ack(RUN, each)
        left ^= each
    table.promise(FRONT, NEXT)
    passed = table.oldest == END
    return (" ".join(map(_hex, ids)), _hex(left), f"{table.minimal_time}"), passed


def _hex(number: int) -> str:
    """The first digits of an id; a small one in full."""
    return f"{number:x}" if number < 16 else f"{number:016x}"[:4]
