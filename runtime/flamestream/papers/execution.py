"""The execution of Table II beside the core's: a window of two, a snapshot, a crash.

Keeps: what leaves is what the core's delivery hands over, which knows its consumer's last bundle.
"""

from collections.abc import Sequence
from typing import Final

from flamestream.core.dataflow.delivery import Delivery
from flamestream.core.dataflow.grouping import Grouping
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.protocol.chain import Row, chains_of
from flamestream.core.protocol.events import LastBundle
from flamestream.model import payload as codec
from flamestream.model.ids import Epoch, SinkName, Slot
from flamestream.model.meta import meta_of
from flamestream.model.time import START, Time
from flamestream.papers.report import Table

SEED: Final = (
    ("a", "[a]", "a"),
    ("c", "[a,c]", "ac"),
    ("snapshot", "[a,c]", ""),
    ("d", "[c,d]", "cd"),
    ("b", "[d,b]", "db"),
    ("crash", "[a,c]", ""),
    ("d again", "[c,d]", ""),
    ("b again", "[d,b]", ""),
    ("e", "[b,e]", "be"),
)
"""Table II: what is applied, the state behind it, and what leaves."""
JOURNAL: Final = "acdbe"
"""The order that is written down."""
_KEY, _SLOT = b"", Slot(0)


def beside(replayed: str = JOURNAL) -> tuple[Table, bool]:
    """Both side by side, and whether the same leaves. `replayed` is the order of times behind the crash.

    Raises UserError if what is computed again differs from what has left.
    """
    core, cut, saved, rows = _Core(START), START, list[Row](), list[tuple[str, ...]]()
    order = JOURNAL
    for step, state, leaves in SEED:
        left = ""
        if step == "snapshot":
            cut, saved = core.cut, core.snapshot()
        elif step == "crash":
            core, order = _Core(cut, saved, core.last), replayed
        else:
            left = core.apply(step[0], Time(order.index(step[0]) + 1))
        rows.append((step, state, core.state, leaves, left))
    columns = ("step", "state in Table II", "state here", "leaves in Table II", "leaves here")
    table = Table("The execution of Table II, and the core's", columns, tuple(rows))
    return table, all(leaves == left for *_, leaves, left in rows)


class _Core:
    """A grouping of two and a delivery. Letters come in order, so minimal time passes each at once."""

    def __init__(self, cut: Time, saved: Sequence[Row] = (), last: LastBundle | None = None) -> None:
        self.cut, self.last = cut, last
        self._grouping = Grouping(0, LiveCuts(cut), 2)
        self._grouping.load(chains_of(saved))
        self._delivery = Delivery(SinkName("out"), cut, most_items=1)
        self._delivery.opened({} if last is None else {_SLOT: last}, compare=True)

    def apply(self, letter: str, time: Time) -> str:
        """Apply a letter: the results that leave, as text; none if the consumer has them."""
        changes = self._grouping.insert(_KEY, _SLOT, meta_of(time, 0), letter)
        self._delivery.put([(meta, _SLOT, "".join(window)) for meta, window, _ in changes])
        # letters come in the order of times, so everything below is final
        self.cut = Time(time + 1)
        bundles = self._delivery.next_call() or ()
        self._delivery.acknowledged(self._delivery.number)
        for bundle in bundles:
            self.last = LastBundle(bundle.sequence, bundle.t_last, bundle.items)
        return "".join(payload for bundle in bundles for _, payload in codec.decode_items(bundle.items))

    def snapshot(self) -> list[Row]:
        """The rows of an epoch that is cut behind the last letter."""
        return [row for row in self._grouping.rows(0, Epoch(1), self.cut) if row is not None]

    @property
    def state(self) -> str:
        """The last two letters, or what is there of them."""
        return f"[{','.join(self._grouping.buckets[_KEY].payloads[-2:])}]"
