"""What the first touch of a key costs behind a change of code: its state is read as it was stored, and made what
the code of now has.

    python benchmarks first_touch                       # some seconds
    python benchmarks first_touch --table               # what is there so far

One worker, without sockets, begins with the states of 20,000 keys, and an item comes for each: once with rows
that this code has written, once with those of the code before. The difference is what the change costs a key; of it
the user's own step is taken off. CPU seconds of this process; the median of some rounds.

    migrate    `migrate={1: up}`: a number becomes a tuple
    field      a payload class has a field more, with a default
    both       the class in an `fs.Map` of ten, with a change behind the full state; and a step
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from figures.core import FENCE, FRONT, SLOTS, Alone
from harness.drive import where
from harness.job import noise
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.first_touch import first_touch_table

import flamestream as fs
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.inventory import inventory_of, next_inventory
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef, SnapshotIndex
from flamestream.model import payload as codec
from flamestream.model.ids import Epoch, Slot
from flamestream.model.payloads.state import delta_state, encode_state
from flamestream.model.slot import slot_of
from flamestream.model.time import START

OUT: Final = CACHE / "first_touch.jsonl"
KEYS: Final = 20_000
ROUNDS: Final = 5
TOGETHER: Final = 64
"""Items of one pass."""


@dataclass(frozen=True, slots=True)
class Code:
    """One version of the application: its graph, and the states that it has for a key, one after the other."""

    graph: fs.Graph
    states: Callable[[int], Sequence[Any]]


def visit(*more: str) -> Any:
    """The payload class of now, with these fields more; it takes the place of the one before."""
    defaults = dict.fromkeys(more, 0)
    fields: dict[str, Any] = {"user": str, "hits": int, **dict.fromkeys(more, int)}
    return fs.event(type("Visit", (), {"__module__": __name__, "__annotations__": fields, **defaults}))


def counting(combine: Callable[[Any, str], Any], up: Callable[[Any], Any] | None) -> fs.Graph:
    """A fold of lines by themselves; with a step it is of the second version."""
    versions: dict[str, Any] = {"version": 2, "migrate": {1: up}} if up else {}
    graph = fs.Graph("touched")
    graph.source("docs").reduce(
        name="visits", key=same, initial=int, combine=combine, emit=last, **versions
    ).sink("out", key=same)
    return graph


def same(line: str) -> str:
    return line


def last(state: Any, line: str) -> str:
    return line


def paired(number: int) -> tuple[int, int]:
    """The user's step from a number."""
    return number, 0


def wrapped(visits: Any) -> tuple[Any, int]:
    """The user's step from a map."""
    return visits, 0


def migrated(now: bool) -> Code:
    """A number becomes a tuple."""
    if now:
        return Code(counting(lambda state, line: (state[0] + 1, 0), paired), lambda n: [(n, 0)])
    return Code(counting(lambda n, line: n + 1, None), lambda n: [n])


def grown(now: bool) -> Code:
    """The class has a field more."""
    cls = visit(*["since"] * now)
    return Code(counting(lambda old, line: cls(line, old.hits + 1), None), lambda n: [cls(f"u{n}", n)])


def mixed(now: bool) -> Code:
    """Both, in a map with a change behind."""
    cls = visit(*["since"] * now)

    def states(n: int) -> Sequence[Any]:
        before = fs.Map({f"p{place}": cls(f"u{n}", place) for place in range(10)})
        after = before.set("p3", cls(f"u{n}", n))
        return [(before, 0), (after, 0)] if now else [before, after]

    def combine(old: Any, line: str) -> Any:
        return (old[0].set("p1", cls(line, 1)), 0) if now else old.set("p1", cls(line, 1))

    return Code(counting(combine, wrapped if now else None), states)


KINDS: Final[dict[str, tuple[Callable[[bool], Code], Callable[[Any], Any] | None]]] = {
    "migrate": (migrated, paired), "field": (grown, None), "both": (mixed, wrapped),
}  # fmt: skip
"""The code before and the code of now, and the user's step."""


def stored(code: Code) -> tuple[SnapshotIndex, list[Chain]]:
    """The snapshot that a job of this code has committed."""
    (operation,) = code.graph.validated().operations
    chains = []
    for number in range(KEYS):
        key = codec.encode(f"k{number}")
        first, *later = code.states(number)
        rows, before = [encode_state(first)], first
        for state in later:
            delta, before = delta_state(before, state), state
            assert delta is not None, "it is cheaper than the whole"
            rows.append(delta)
        chains.append(Chain(operation.number, slot_of(key, SLOTS), key, Epoch(2), True, tuple(rows)))
    slots = tuple(map(Slot, range(SLOTS)))
    index = SnapshotIndex(
        job="core", graph=code.graph.identity, python="", slots=SLOTS, epoch=Epoch(2), fence=FENCE, cut=START,
        segments=(SegmentRef("s", 1, "", KEYS, slots),), fronts=(FrontPosition(FRONT, START, {}),), outputs=(),
        inventory=next_inventory(None, inventory_of(code.graph)),
    )  # fmt: skip
    return index, chains


def touched(code: Code, index: SnapshotIndex, chains: list[Chain]) -> float:
    """CPU microseconds an item, each the first of its key."""
    alone = Alone(code.graph, FASTEST, index, chains)
    lines = [f"k{number}" for number in range(KEYS)]
    gc.collect()
    start = time.process_time()
    for at in range(0, KEYS, TOGETHER):
        alone.documents(at, lines[at : at + TOGETHER])
    spent = time.process_time() - start
    assert alone.items > KEYS, "each has its result"
    return spent / KEYS * 1e6


def measure(kind: str) -> dict[str, Any]:
    """Microseconds a key of one kind."""
    code, up = KINDS[kind]
    before, more, whole = noise(), [], []
    gc.disable()
    for _ in range(ROUNDS):
        # stored first: a class that is defined again takes the place of the one before
        older = stored(code(False))
        now = code(True)
        whole.append(touched(now, *stored(now)))
        more.append(touched(now, *older) - whole[-1])
    own = cost_of(up) if up else 0.0
    row = {"measure": kind, "us": round(statistics.median(more) - own, 1), "own_us": round(own, 2)}
    spread = {"least_us": round(min(more) - own, 1), "most_us": round(max(more) - own, 1), "n": ROUNDS}
    more_of = {"whole_us": round(statistics.median(whole), 1), "keys": KEYS}
    return row | spread | more_of | {"noise": before} | where()


def cost_of(up: Callable[[Any], Any]) -> float:
    """CPU microseconds of the user's step."""
    start = time.process_time()
    for number in range(KEYS):
        up(number)
    return (time.process_time() - start) / KEYS * 1e6


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--only", default=",".join(KINDS))
    options = parser.parse_args()
    tell(options, map(measure, options.only.split(",")), first_touch_table)


if __name__ == "__main__":
    main()
